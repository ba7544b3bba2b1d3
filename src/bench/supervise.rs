/*!
Starts a worker for each model, takes its rows, and outlives it.

A worker that dies, hangs, or loses its device, costs the object at hand a row; another worker goes
on with the rest. If the system cannot end a worker, nothing more is measured: the memory and time
that it takes would be in the numbers.
*/

use std::collections::VecDeque;
use std::process::{Child, Stdio};

use anyhow::{Context, Result};

use super::lanes;
use super::memory_watch::MemoryWatch;
use super::messages::{BenchEvent, Loaded};
use super::object_error::status_of;
use super::plan::{BenchModel, BenchPlan, Job};
use super::progress::{Display, Doing};
use super::work::Work;
use host::child::{self, End, Heard, Listener};
use host::ctrl_c;
use vos::files::{ObjectResult, ResultStore, RowOrder};
use vos::record::{Conditions, ObjectKey, RunRecord, Status};

/// A model whose worker dies this often in a row, without a row in between, is given up.
const PATIENCE: usize = 3;

/// Code of objects that are not measured because a worker that cannot be ended may have the device.
pub const DEVICE_HELD: &str = "device_held";

/// One object still to be measured.
struct Item {
    order: RowOrder,
    key: ObjectKey,
}

/// How a worker ended.
enum Life {
    /// It ended its process after a row; no other object is to blame.
    Lost(String),
    /// It finished no frame for longer than it may, and was ended.
    Stalled(Stall),
    /// As any worker's.
    Ended(End),
}

/// A worker that hung.
struct Stall {
    why: String,
    /// The system cannot end it, so that nothing more can be measured.
    held: bool,
}

/// Measures everything in `work` that `store` does not hold yet; returns what the workers loaded.
pub fn run(
    plan: &BenchPlan,
    work: &Work,
    store: &mut ResultStore,
    display: &mut Display,
) -> Result<Vec<Loaded>> {
    run_by(plan, work, store, display, |plan, index, queue, store, display, ready| {
        one_worker(plan, work, index, queue, store, display, ready)
    })
}

/// The same with workers that `one_worker` runs to their end.
fn run_by(
    plan: &BenchPlan,
    work: &Work,
    store: &mut ResultStore,
    display: &mut Display,
    mut one_worker: impl FnMut(
        &BenchPlan,
        usize,
        &mut VecDeque<Item>,
        &mut ResultStore,
        &mut Display,
        &mut Option<Loaded>,
    ) -> Result<Life>,
) -> Result<Vec<Loaded>> {
    let mut loaded = Vec::new();
    // Why nothing more can be measured on this device.
    let mut device_held: Option<String> = None;
    for (index, model) in plan.models.iter().enumerate() {
        let mut queue = queue(plan, work, store, display, index, model)?;
        let mut deaths = 0;
        while !queue.is_empty() {
            if let Some(why) = &device_held {
                let why = format!("not measured, because a worker could not be ended: {why}");
                for item in queue.drain(..) {
                    let row = unmeasured(&item, plan, model, Status::Failed, DEVICE_HELD, &why);
                    keep(item, vec![(row, Vec::new())], work, None, store, display)?;
                }
                break;
            }
            let before = queue.len();
            let mut ready = None;
            let end = one_worker(plan, index, &mut queue, store, display, &mut ready)?;
            deaths = if queue.len() < before { 0 } else { deaths };
            let is_ready = ready.is_some();
            loaded.extend(ready);
            if let Life::Stalled(Stall { why, held: true }) = &end {
                device_held = Some(why.clone());
            }
            if queue.is_empty() {
                // Every object has its row: libraries that crash when they are closed change
                // nothing.
                if let Life::Ended(End::Told(why) | End::Died(why))
                | Life::Stalled(Stall { why, .. }) = end
                {
                    display.line(&format!("{}: after the last row, {why}", model.tag.text));
                }
                break;
            }
            let (code, why) = match end {
                // Its row is out of the queue, so this comes to an end.
                Life::Lost(why) if queue.len() < before => {
                    display
                        .line(&format!("{}: a new worker goes on, because {why}", model.tag.text));
                    continue;
                }
                Life::Lost(why) => ("worker_died", why),
                Life::Stalled(Stall { why, held: true }) => (DEVICE_HELD, why),
                Life::Stalled(Stall { why, held: false }) => ("worker_stalled", why),
                Life::Ended(End::Finished) => {
                    ("worker_died", "the worker stopped early".to_owned())
                }
                Life::Ended(End::Told(why)) if is_ready => ("worker_died", why),
                Life::Ended(End::Told(why)) => ("model_not_loaded", why),
                Life::Ended(End::Died(why)) => ("worker_died", why),
            };
            deaths += 1;
            // Without a loaded model no object can be blamed, and none can be measured.
            let hopeless = !is_ready || deaths >= PATIENCE;
            let lost = if hopeless { queue.len() } else { 1 };
            for item in queue.drain(..lost) {
                let row = unmeasured(&item, plan, model, Status::Failed, code, &why);
                keep(item, vec![(row, Vec::new())], work, None, store, display)?;
            }
        }
    }
    Ok(loaded)
}

/// The objects of one model that have no row yet. Clips that cannot be opened get their rows here.
fn queue(
    plan: &BenchPlan,
    work: &Work,
    store: &mut ResultStore,
    display: &mut Display,
    index: usize,
    model: &BenchModel,
) -> Result<VecDeque<Item>> {
    let mut queue = VecDeque::new();
    for (video_index, (video, objects)) in work.clips.iter().enumerate() {
        let item = |object: usize, name: &str| Item {
            order: RowOrder { video: video_index, object, model: index },
            key: ObjectKey {
                video: video.clone(),
                object: name.into(),
                tag: model.tag.text.clone(),
            },
        };
        match objects {
            Ok(names) => {
                // An earlier attempt could not open the clip; it has rows of its own now.
                store.withdraw(&item(0, "").key, index);
                let items = names.iter().enumerate().map(|(o, name)| item(o, name));
                queue.extend(items.filter(|item| !store.is_done(&item.key, index)));
            }
            Err(error) => {
                let item = item(0, "");
                if !store.is_done(&item.key, index) {
                    let row = unmeasured(
                        &item,
                        plan,
                        model,
                        status_of(error.code()),
                        error.code(),
                        &error.to_string(),
                    );
                    keep(item, vec![(row, Vec::new())], work, None, store, display)?;
                }
            }
        }
    }
    Ok(queue)
}

/// Runs one worker until it ends; rows leave the queue as they come.
fn one_worker(
    plan: &BenchPlan,
    work: &Work,
    index: usize,
    queue: &mut VecDeque<Item>,
    store: &mut ResultStore,
    display: &mut Display,
    ready: &mut Option<Loaded>,
) -> Result<Life> {
    let job = job(plan, index, queue);
    let environment = lanes::environment(plan);
    let started = child::start_with("bench-worker", &job, environment, Stdio::inherit());
    let (mut worker, _input) = started?;
    let (mut told, mut lost) = (None, None);
    let listener = Listener::<BenchEvent>::of(&mut worker)?;
    // Loading may take long and reports no progress.
    let (mut limit, mut doing) = (None, "no frame yet".to_owned());
    let mut memory = MemoryWatch::default();
    loop {
        match listener.next(limit)? {
            Heard::Event(BenchEvent::Ready(loaded)) => {
                // Before it measures anything.
                store.check_library(&loaded.facts())?;
                *ready = Some(*loaded);
                limit = child::limit_of(plan.stall_limit_s);
            }
            Heard::Event(BenchEvent::Progress { doing: now, video, object, done, total }) => {
                let model = &plan.models[index].tag.text;
                let step = match now {
                    Doing::Tracking => format!("frame {done} of {total}"),
                    Doing::Scoring => "scoring".to_owned(),
                    Doing::Writing => "writing the files".to_owned(),
                };
                // Several clips at once have no object at hand.
                let (shown, of) = match object.as_str() {
                    "" => (video.clone(), video),
                    _ => (format!("{video} {object}"), format!("{video} object {object}")),
                };
                display.frames(&format!("{model} {shown}: {step}"), done, total);
                doing = format!("{step} of {of}");
            }
            Heard::Event(BenchEvent::Object { key, passes }) => {
                doing = format!("the row of {} object {}", key.video, key.object);
                memory.object(worker.id(), &passes);
                if let Some(at) = queue.iter().position(|item| item.key == key)
                    && let Some(item) = queue.remove(at)
                {
                    keep(item, passes, work, ready.as_ref(), store, display)?;
                }
            }
            Heard::Event(BenchEvent::Memory(uses)) => memory.uses(*uses),
            Heard::Event(BenchEvent::Lost { reason }) => {
                lost = Some(reason);
                limit = child::limit_of(plan.stall_limit_s);
                // What it still holds the system takes back; a driver without a device might never
                // give it back.
                let _ = worker.kill();
            }
            // What is left is its end, which a library may hang in.
            Heard::Event(BenchEvent::Failed { reason }) => {
                told = Some(reason);
                limit = child::limit_of(plan.stall_limit_s);
            }
            Heard::End => break,
            Heard::Silence => {
                let mut stall = stalled(&mut worker, plan.stall_limit_s, &doing);
                // The worker's message comes first.
                if let Some(said) = told.or(lost) {
                    stall.why = format!("{said}; then {}", stall.why);
                }
                return Ok(Life::Stalled(stall));
            }
        }
    }
    if let Some(loaded) = ready {
        loaded.memory = memory.memory();
    }
    if !queue.is_empty() && told.is_none() && lost.is_none() {
        ctrl_c::settle();
    }
    let lost = lost.filter(|_| told.is_none());
    let end = child::end(worker, told)?;
    log::debug!("the worker ended: {end:?}");
    Ok(lost.map_or(Life::Ended(end), Life::Lost))
}

/// Ends a worker that hangs; `doing` is its last report.
fn stalled(worker: &mut Child, seconds: u64, doing: &str) -> Stall {
    let held = child::kill_tree(worker).err().map(|error| format!("; {error:#}"));
    let why = format!(
        "nothing for {seconds} s after {doing}: the worker hung and was ended (--stall-limit){}",
        held.as_deref().unwrap_or_default()
    );
    Stall { why, held: held.is_some() }
}

fn job(plan: &BenchPlan, index: usize, queue: &VecDeque<Item>) -> Job {
    let mut todo: Vec<(String, Vec<String>)> = Vec::new();
    for Item { key, .. } in queue {
        match todo.last_mut() {
            Some((video, objects)) if *video == key.video => objects.push(key.object.clone()),
            _ => todo.push((key.video.clone(), vec![key.object.clone()])),
        }
    }
    Job { plan: plan.clone(), plan_index: index, todo }
}

fn unmeasured(
    item: &Item,
    plan: &BenchPlan,
    model: &BenchModel,
    status: Status,
    code: &str,
    why: &str,
) -> RunRecord {
    let conditions = Conditions {
        imgsz: model.imgsz,
        precision: model.precision,
        mode: plan.mode(),
        lanes: plan.lanes(),
        strides: plan.strides,
        geometry: plan.geometry,
        prompt_policy: plan.prompt_policy,
        metrics: plan.metrics,
        ..Conditions::default()
    };
    RunRecord::unmeasured(item.key.clone(), conditions, status, code, why)
}

/// Keeps a row, then shows it: what was shown is on the disk.
fn keep(
    item: Item,
    passes: Vec<super::object_rows::Recorded>,
    work: &Work,
    loaded: Option<&Loaded>,
    store: &mut ResultStore,
    display: &mut Display,
) -> Result<()> {
    let mut result =
        ObjectResult::new(item.order, passes).context("a worker sent an object without a pass")?;
    result.measured_on = work.measured_on(&item.key).unwrap_or_default();
    result.measured_on.library = loaded.map(Loaded::facts).unwrap_or_default();
    let summary = result.summary.clone();
    store.push(result)?;
    display.row(&summary);
    Ok(())
}

#[cfg(test)]
mod tests;
