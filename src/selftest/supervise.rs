/*!
Starts a worker for each engine folder, takes its rows, and outlives it.

A worker that dies costs the case at hand a row; another worker goes on with the rest.
*/

use std::collections::VecDeque;
use std::path::PathBuf;

use anyhow::Result;

use super::case::{Case, cases};
use super::folders::Folder;
use super::protocol::{Job, Opened, SelftestEvent, Settings};
use super::record::{EngineKey, EngineRow, PlanKey};
use host::child::{self, End};

/// A folder whose worker dies this often in a row, without a case in between, is given up.
const PATIENCE: usize = 3;

/// A case that is still to be run.
struct Item {
    plan: PlanKey,
    number: usize,
    case: Case,
}

/// The folders of the bundles that engines are compared with.
#[derive(Clone, Debug)]
pub struct References {
    /// The fp32 bundle.
    pub bundle: PathBuf,
    /// The bundle that parts were built from, where it is known: fp32 bundles may be cut otherwise,
    /// or not at all.
    pub parts: Option<PathBuf>,
}

/// Tests all plans of a folder; returns its rows and what they ran on, none where no worker came so
/// far. No further worker is started once `stopped` says so: one that Ctrl-C ended is none that
/// died.
pub fn run(
    folder: &Folder,
    reference: Option<References>,
    settings: &Settings,
    stopped: impl Fn() -> bool,
) -> Result<(Vec<EngineRow>, Option<Opened>)> {
    let key = folder.key();
    let mut rows = Vec::new();
    let mut queue = queue(folder, &key, &mut rows);
    let (mut opened, mut deaths) = (None, 0);
    while !queue.is_empty() && !stopped() {
        let before = queue.len();
        let job = Job {
            dir: folder.dir.clone(),
            reference: reference.as_ref().map(|dirs| dirs.bundle.clone()),
            parts: reference.as_ref().and_then(|dirs| dirs.parts.clone()),
            todo: todo(&queue),
            settings: settings.clone(),
        };
        let mut ready = None;
        let end = one_worker(&job, &key, &mut queue, &mut rows, &mut ready, &stopped)?;
        if stopped() {
            break;
        }
        deaths = if queue.len() < before { 0 } else { deaths + 1 };
        let is_ready = ready.is_some();
        opened = ready.or(opened);
        let (why, at_hand) = match end {
            End::Finished => ("the worker stopped early".to_owned(), 1),
            // Its report was about the last case, which has its row.
            End::Told(why) if is_ready && deaths == 0 => (why, 0),
            End::Told(why) => (why, 1),
            End::Died(why) => (why, 1),
        };
        let lost = match is_ready && deaths < PATIENCE {
            true => at_hand.min(queue.len()),
            false => queue.len(),
        };
        for item in queue.drain(..lost) {
            let case = (item.case.profile, item.case.label.as_str());
            rows.push(EngineRow::failed(&key, Some(&item.plan), Some(case), &why));
        }
    }
    Ok((rows, opened))
}

fn queue(folder: &Folder, key: &EngineKey, rows: &mut Vec<EngineRow>) -> VecDeque<Item> {
    let mut queue = VecDeque::new();
    for plan in &folder.manifest.plans {
        let of = PlanKey::from(plan);
        match cases(&folder.manifest.bundle, plan) {
            Ok(cases) => {
                let cases = cases.into_iter().enumerate();
                queue.extend(cases.map(|(number, case)| Item { plan: of.clone(), number, case }));
            }
            Err(error) => rows.push(EngineRow::failed(key, Some(&of), None, &format!("{error:#}"))),
        }
    }
    if folder.manifest.plans.is_empty() {
        let why = format!("no plans; build them with: {}", folder.manifest.rebuild_command());
        rows.push(EngineRow::failed(key, None, None, &why));
    }
    queue
}

fn todo(queue: &VecDeque<Item>) -> Vec<(PlanKey, Vec<usize>)> {
    let mut todo: Vec<(PlanKey, Vec<usize>)> = Vec::new();
    for item in queue {
        match todo.last_mut() {
            Some((plan, numbers)) if *plan == item.plan => numbers.push(item.number),
            _ => todo.push((item.plan.clone(), vec![item.number])),
        }
    }
    todo
}

/// Runs one worker until it ends; cases leave the queue as they come.
fn one_worker(
    job: &Job,
    key: &EngineKey,
    queue: &mut VecDeque<Item>,
    rows: &mut Vec<EngineRow>,
    ready: &mut Option<Opened>,
    stopped: &impl Fn() -> bool,
) -> Result<End> {
    let (mut worker, _input) = child::start("selftest-worker", job)?;
    let mut told = None;
    for event in child::events::<SelftestEvent>(&mut worker)? {
        match event? {
            SelftestEvent::Ready(opened) => *ready = Some(opened),
            SelftestEvent::NoPlan { plan, reason } => {
                queue.retain(|item| item.plan != plan);
                rows.push(EngineRow::failed(key, Some(&plan), None, &reason));
            }
            SelftestEvent::Case { plan, case, rows: found } => {
                queue.retain(|item| (&item.plan, item.number) != (&plan, case));
                found.iter().for_each(say);
                rows.extend(found);
            }
            SelftestEvent::Failed { reason } => told = Some(reason),
        }
        if stopped() {
            // It may be gone already.
            let _ = worker.kill();
        }
    }
    child::end(worker, told)
}

fn say(row: &EngineRow) {
    let plan = row.plan_name().unwrap_or_default();
    let output = row.output.as_ref().map_or("", |judged| judged.output.as_str());
    let reason = row.reason.as_deref().unwrap_or_default();
    log::info!("{plan} ({}) {output}: {} {reason}", row.case, row.verdict.word());
}

#[cfg(test)]
mod tests {
    use super::super::case::tests::{manifest, plan};
    use super::super::engine_run::Repeats;
    use super::*;
    use runtime::engine::EngineManifest;
    use runtime::engine::manifest::{FORMAT, Sources};
    use vos::bundle::Role;
    use vos::precision::Precision;

    /// A worker that Ctrl-C ended was taken for one that died, and another one went on.
    #[test]
    fn no_worker_is_started_after_a_stop_and_none_is_blamed() {
        let bundle = manifest();
        let plans = vec![plan(&bundle, Role::Encoder)];
        let manifest = EngineManifest {
            format: FORMAT,
            platform: "h200".into(),
            precision: Precision::Fp16,
            bundle,
            plans,
            products: None,
            attention_kernels: false,
            sources: Sources::default(),
            dir: None,
        };
        let folder = Folder { dir: PathBuf::from("no/such/folder"), manifest };
        let settings = Settings {
            device: 0,
            repeats: Repeats { warmup: 0, runs: 1, layer_runs: 0 },
            max_error: None,
            seed: 1,
            tensorrt_lib: None,
            ort_lib: None,
        };
        // At once, and while the first worker is at work: this program's tests are no worker, which
        // is a death.
        for after in 0..2 {
            let asked = std::cell::Cell::new(0);
            let stopped = || asked.replace(asked.get() + 1) >= after;
            let (rows, opened) = run(&folder, None, &settings, stopped).unwrap();
            assert!(rows.is_empty() && opened.is_none(), "{after}: {} rows", rows.len());
        }
    }
}
