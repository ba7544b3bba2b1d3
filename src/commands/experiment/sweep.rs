/*!
`segtrt experiment --sweep`: every point in turn, a report of each, the tables and the page, all in
the experiment's folder.
*/

use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;

use super::profiler;
use crate::commands::Outcome;
use crate::commands::shared::command_line;
use crate::commands::started_bench::parse_bench;
use crate::commands::started_sweep::{self, SweepWork, flags};
use crate::compare::measure::{Clips, ModelWork, Plan, ReferencePlan, SideKind, SidePlan};
use crate::experiment::{Folder, Ran, Spec};
use host::{UsageError, ctrl_c, shell};
use report::compare::sweep::{Combination, Setting, combinations};
use report::nsys::Nsys;

/// Flags that each point, or the sweep itself, sets. In the experiment's words each has a value.
const SET_HERE: [&str; 10] = [
    "--split-dir",
    "--split-name",
    "--limit-videos",
    "--limit-objects",
    "--max-clip-frames",
    "--profile-runs",
    "--warmup-runs",
    "--models",
    "--precision",
    "--imgsz",
];

/// Measures what is missing of the sweep, and shows all of it.
pub(super) fn run(folder: &mut Folder, json: bool, say: &mut dyn FnMut(&str)) -> Result<Outcome> {
    // Relative paths among the bench's flags begin there.
    let directory = &folder.spec.working_directory;
    std::env::set_current_dir(directory).with_context(|| {
        format!("the working folder of the experiment, {}, cannot be entered", directory.display())
    })?;
    let nsys = match profiler(folder).and_then(|path| Nsys::at(&path).map_err(|e| e.to_string())) {
        Ok(nsys) => Some(nsys),
        Err(why) => {
            say(&format!("no profiled passes: {why}"));
            None
        }
    };
    let work = work(folder, nsys)?;
    let place = shell::path(&folder.path);
    ctrl_c::end_with(move || {
        format!("Stopped. Finished rounds are kept.\nContinue: segtrt experiment --resume {place}")
    });
    let begun = Instant::now();
    let swept = started_sweep::run(&work, say)?;
    let outcome = swept.finish();
    let (ended, code) = match outcome {
        Outcome::Done => ("well", 0),
        _ => ("with points that failed", 1),
    };
    let seconds = begun.elapsed().as_secs_f64();
    let ran = Ran { step: "sweep".to_owned(), ended: ended.to_owned(), code: Some(code), seconds };
    folder.note(ran)?;
    if json {
        let document = json!({
            "folder": folder.path, "experiment": folder.spec, "sweep": swept.result,
            "files": swept.files,
        });
        println!("{document:#}");
    } else {
        swept.show()?;
    }
    Ok(outcome)
}

fn work(folder: &Folder, nsys: Option<Nsys>) -> Result<SweepWork> {
    let spec = &folder.spec;
    let usual = spec.precision.first().map_or("fp32", String::as_str);
    let all = combinations(&spec.sweep, usual).map_err(UsageError)?;
    let imgsz = parse_bench(&spec.bench)?.imgsz;
    let models = spec.models.iter().map(|tag| ModelWork {
        tag: tag.clone(),
        imgsz,
        bundle: Err("an experiment does not run PyTorch".to_owned()),
    });
    let words = words(spec);
    Ok(SweepWork {
        plan: Plan {
            out_dir: folder.path.clone(),
            models: models.collect(),
            sides: all.iter().map(|one| side(spec, &words, one)).collect(),
            reference: ReferencePlan::Side(all[0].name()),
            clips: clips(spec)?,
            rounds: spec.runs,
            teacher_forced: false,
            restart: false,
            stall_limit_s: None,
            ready_limit_s: None,
        },
        axes: spec.sweep.clone(),
        combinations: all,
        nsys,
        command: command_line(),
    })
}

/// The bench's words that all points share.
fn words(spec: &Spec) -> Vec<String> {
    let mut words = Vec::new();
    let mut all = spec.bench.iter();
    while let Some(word) = all.next() {
        if SET_HERE.contains(&word.as_str()) {
            all.next();
        } else {
            words.push(word.clone());
        }
    }
    words
}

fn clips(spec: &Spec) -> Result<Clips> {
    let bench = parse_bench(&spec.bench)?;
    Ok(Clips {
        split_dir: spec.split_dir.clone(),
        split_name: bench.split_name,
        limit_videos: spec.videos,
        limit_objects: spec.objects,
        max_clip_frames: bench.max_clip_frames,
        warmup_runs: spec.warmup,
    })
}

fn side(spec: &Spec, words: &[String], one: &Combination) -> SidePlan {
    let mut words = words.to_vec();
    words.extend(flags::words(&spec.sweep, one));
    SidePlan {
        name: one.name(),
        precision: one.precision.clone(),
        imgsz: one.number(Setting::Imgsz),
        kind: SideKind::Bench(words),
    }
}
