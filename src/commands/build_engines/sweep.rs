/*!
`build-engines --sweep-workspace`: the same engines under one workspace cap after another, and what
each cap costs in build time, memory and latency.

Each cap has a folder of its own, so that the sweep touches no engine in use; all share one timing
cache.
*/

use std::collections::HashMap;

use anyhow::Result;
use serde::Serialize;

use super::args::BuildEnginesArgs;
use super::jobs::{build_all, outcome, say_before};
use super::planned::Resolved;
use super::resolve::{default_timing_cache, resolve};
use super::row::{BuildRow, mib, status};
use crate::commands::Outcome;
use crate::selftest::{self, Folder, Repeats, Settings, Timing};
use host::screen_table;
use runtime::builder::Supervisor;
use runtime::engine::EngineManifest;

/// Runs of each engine, as `selftest` has them by default.
const REPEATS: Repeats = Repeats { warmup: 10, runs: 50, layer_runs: 0 };

/// One engine under one cap.
#[derive(Serialize)]
struct Swept {
    #[serde(flatten)]
    build: BuildRow,
    /// Time of a replayed CUDA graph of the last profile, the fullest; of plain enqueues where it
    /// cannot be recorded.
    latency: Option<Timing>,
    /// Why there is no latency.
    latency_problem: Option<String>,
}

/// Builds under each cap and shows the comparison.
pub fn run(args: &BuildEnginesArgs) -> Result<Outcome> {
    let tensorrt =
        runtime::tensorrt_library::open(args.tensorrt_lib.as_deref())?.version().to_string();
    let supervisor = Supervisor::new()?;
    let mut swept = Vec::new();
    let mut done = Vec::new();
    for &cap in &args.sweep_workspace {
        // Named twice, a cap would show the second time what the first one left there.
        if done.contains(&cap) {
            continue;
        }
        done.push(cap);
        let mut args = args.clone();
        args.timing_cache.get_or_insert_with(|| default_timing_cache(&args.out, &tensorrt));
        args.out = args.out.join("sweep").join(format!("workspace-{cap}-mib"));
        let resolved = resolve(&args, Some(cap))?;
        // The same for each cap.
        if done.len() == 1 {
            say_before(&resolved);
        }
        eprintln!("workspace cap {cap} MiB");
        let rows = build_all(&resolved, &args, &supervisor)?;
        let times = match supervisor.is_stopped() {
            true => Times::default(),
            false => latencies(&resolved, &args, &supervisor),
        };
        swept.extend(rows.into_iter().map(|row| times.join(row)));
        if supervisor.is_stopped() {
            break;
        }
    }
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&swept)?),
        false => println!("{}", table(&swept)),
    }
    let rows: Vec<BuildRow> = swept.into_iter().map(|swept| swept.build).collect();
    Ok(outcome(&rows, &supervisor))
}

/// Latencies by engine and plan, and why there are none.
#[derive(Default)]
struct Times {
    /// With the profile that was timed.
    measured: HashMap<(String, String), (usize, Timing)>,
    problem: Option<String>,
}

impl Times {
    /// Later profiles are fuller; of one profile the first case has the full bank.
    fn keep(&mut self, plan: (String, String), profile: usize, timing: Timing) {
        let place = self.measured.entry(plan).or_insert((profile, timing));
        if profile > place.0 {
            *place = (profile, timing);
        }
    }

    fn join(&self, build: BuildRow) -> Swept {
        let plan = (build.model.clone(), build.file.clone());
        let latency = self.measured.get(&plan).map(|(_, time)| *time);
        let latency_problem = if latency.is_none() { self.problem.clone() } else { None };
        Swept { build, latency, latency_problem }
    }
}

/// Times the engines where a GPU can.
fn latencies(resolved: &Resolved, args: &BuildEnginesArgs, supervisor: &Supervisor) -> Times {
    let mut times = Times::default();
    if resolved.device.is_none() {
        times.problem = Some("not measured: the engines were built without their GPU".to_owned());
        return times;
    }
    let settings = Settings {
        device: args.device,
        repeats: REPEATS,
        max_error: None,
        seed: crate::commands::selftest::SEED,
        tensorrt_lib: args.tensorrt_lib.clone(),
        ort_lib: None,
    };
    for model in &resolved.models {
        let tested = EngineManifest::read(&model.dir).and_then(|manifest| match manifest {
            Some(manifest) => {
                let folder = Folder { dir: model.dir.clone(), manifest };
                selftest::run(&folder, None, &settings, || supervisor.is_stopped())
            }
            None => Ok((Vec::new(), None)),
        });
        match tested {
            Ok((rows, _)) => {
                for row in rows {
                    let timing = row.cost.graph.or(row.cost.enqueue);
                    if let (Some(file), Some(profile), Some(timing)) =
                        (row.plan, row.profile, timing)
                    {
                        times.keep((model.name.clone(), file), profile, timing);
                    }
                }
            }
            Err(error) => times.problem = Some(format!("{error:#}")),
        }
    }
    times
}

fn table(swept: &[Swept]) -> String {
    let mut table = screen_table::table(
        [
            "engine",
            "graph",
            "cap MiB",
            "status",
            "build s",
            "plan MiB",
            "weights MiB",
            "context MiB",
            "build GPU MiB",
            "latency ms (p50)",
        ],
        4..10,
    )
    .optional([6, 7, 5]);
    let mut rows: Vec<&Swept> = swept.iter().collect();
    // Caps of one graph side by side; the order of building is kept otherwise.
    rows.sort_by_key(|row| {
        swept.iter().position(|first| {
            (&first.build.model, &first.build.file) == (&row.build.model, &row.build.file)
        })
    });
    for Swept { build, latency, .. } in rows {
        let cost = build.cost.clone().unwrap_or_default();
        let seconds = build.cost.as_ref().map(|cost| format!("{:.1}", cost.seconds));
        table.add_row([
            build.model.clone(),
            build.role.to_owned(),
            build.workspace_mib.to_string(),
            status(build),
            seconds.unwrap_or_else(|| "-".to_owned()),
            mib(build.plan_bytes),
            mib(cost.weights_bytes),
            mib(cost.context_bytes),
            mib(cost.peak_device_bytes),
            latency.map_or("not measured".to_owned(), |time| format!("{:.3}", time.median_ms)),
        ]);
    }
    let problem = swept.iter().find_map(|row| row.latency_problem.as_deref());
    problem.map_or_else(|| table.to_string(), |why| format!("{table}\n{why}"))
}

#[cfg(test)]
mod tests {
    use super::super::row::Status;
    use super::*;
    use vos::bundle::Role;

    #[test]
    fn each_plan_has_the_time_of_its_own_last_profile() {
        let time = |median_ms| Timing { runs: 1, median_ms, p5_ms: 0.0, p95_ms: 0.0 };
        let key = |file: &str| ("edgetam".to_owned(), file.to_owned());
        let mut times = Times::default();
        for (file, profile, ms) in
            [("track.plan", 0, 1.0), ("track.plan", 3, 2.0), ("prompt.plan", 0, 3.0)]
        {
            times.keep(key(file), profile, time(ms));
        }
        let joined = |file: &str| {
            let row = BuildRow {
                model: "edgetam".to_owned(),
                role: Role::Track.name(),
                file: file.to_owned(),
                status: Status::Built,
                workspace_mib: 64,
                plan_bytes: None,
                cost: None,
                layers: None,
                failure: None,
                reason: None,
            };
            times.join(row).latency.map(|time| time.median_ms)
        };
        let expected = [Some(2.0), Some(3.0), None];
        assert_eq!(["track.plan", "prompt.plan", "memory.plan"].map(joined), expected);
    }
}
