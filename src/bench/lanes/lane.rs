/*!
One lane: a thread with a pipeline of its own, which runs pass after pass from the common queue.
*/

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::item::Item;
use super::queue::{Next, Queue};
use crate::bench::clip_run::ClipPass;
use crate::bench::gpu_runner::{GpuRunner, Opened, Parts};
use crate::bench::object_error::ObjectError;
use crate::bench::object_run::warmup_of;
use crate::bench::plan::{BenchPlan, GpuPlan};
use crate::bench::runner::{ClipRunner, ObjectFrame, PassRequest};
use vos::record::{DeviceMemoryUse, FrameTransfer, MemoryPeaks};

/// What all lanes share.
pub struct Shared<'a> {
    /// The bench.
    pub plan: &'a BenchPlan,
    /// How each lane's pipeline runs.
    pub gpu: GpuPlan,
    /// The objects.
    pub items: &'a [Item],
    /// Their passes.
    pub queue: Queue,
    /// Frames done of recorded passes.
    pub frames: AtomicUsize,
    /// Objects that could not be warmed up, with the reason.
    pub unfit: Mutex<HashMap<usize, ObjectError>>,
    /// The first object whose pass failed with the device, and why no other pass can run.
    pub device_lost: Mutex<Option<(usize, String)>>,
}

/// What a lane tells.
pub enum Said {
    /// It can begin; or there is no such lane.
    Ready(Result<Opened>),
    /// It has run its last pass; with its number.
    Drained(usize, Ran),
}

/// What a mutex holds, also where another lane broke off.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A recorded pass.
pub struct Pass {
    /// The object's index.
    pub item: usize,
    /// Number of the pass.
    pub run: usize,
    /// Number of its first mask among the lane's.
    pub first_mask: usize,
    /// How long it took.
    pub took: Duration,
    /// The way of its predecoded frames.
    pub transfer: Option<FrameTransfer>,
    /// What came out.
    pub result: Result<ClipPass, ObjectError>,
}

/// What a lane did.
#[derive(Default)]
pub struct Ran {
    /// When each of its masks was in host memory, whether its pass was recorded or not.
    pub masks_at: Vec<Instant>,
    /// Its recorded passes.
    pub passes: Vec<Pass>,
    /// GPU memory at its peak.
    pub memory: MemoryPeaks,
    /// What the memory of all lanes is used for.
    pub memory_use: Option<DeviceMemoryUse>,
}

/// Runs lane `number`: makes the pipeline, warms up, tells that it is ready, and waits for `go`
/// before the first pass; keeps the pipeline until `go` is closed.
pub fn run(
    number: usize,
    parts: Parts,
    shared: &Shared<'_>,
    tell: &Sender<Said>,
    go: &Receiver<()>,
) {
    let whole = || -> Option<()> {
        let gpu = parts.gpu().clone();
        let made = GpuRunner::new(parts, &shared.gpu).and_then(|(mut runner, opened)| {
            warm_up(number, &mut runner, shared)?;
            Ok((runner, opened))
        });
        let (mut runner, opened) = match made {
            Ok(made) => made,
            Err(error) => {
                let error = not_made(number, shared.gpu.lanes, &gpu, error);
                tell.send(Said::Ready(Err(error))).ok()?;
                return None;
            }
        };
        tell.send(Said::Ready(Ok(opened))).ok()?;
        go.recv().ok()?;
        let ran = passes(&mut runner, shared);
        tell.send(Said::Drained(number, ran)).ok()?;
        go.recv().ok()
    };
    if catch_unwind(AssertUnwindSafe(whole)).is_err() {
        shared.queue.close();
        let report = "this is a fault of segtrt's, please report it";
        let error = anyhow!("lane {} broke off; {report}", number + 1);
        // One that listens for readiness learns the reason, any other that the lane has ended.
        let _ = tell.send(Said::Ready(Err(error)));
    }
}

fn passes(runner: &mut GpuRunner, shared: &Shared<'_>) -> Ran {
    let mut ran = Ran::default();
    loop {
        match shared.queue.next() {
            Next::Recorded { item, run } => {
                let pass = recorded(runner, shared, (item, run), &mut ran.masks_at);
                shared.queue.ended();
                ran.passes.push(pass);
            }
            Next::Filler(item) => filler(runner, shared, item, &mut ran.masks_at),
            Next::End => break,
        }
    }
    ran.memory = runner.gpu_memory();
    ran.memory_use = runner.memory_use();
    ran
}

/// Why there is no such lane, and what to do.
pub fn not_made(
    number: usize,
    lanes: Option<usize>,
    gpu: &cuda::Gpu,
    error: anyhow::Error,
) -> anyhow::Error {
    let (lane, lanes, why) = (number + 1, lanes.unwrap_or(1), format!("{error:#}"));
    let mib = |bytes: u64| bytes >> 20;
    let memory = gpu.memory_info().ok().filter(|_| why.to_lowercase().contains("memory"));
    let memory = memory.map_or_else(String::new, |(free, total)| {
        format!("; {} of {} MiB of GPU memory were free", mib(free), mib(total))
    });
    let fewer = if number > 0 { format!("; use --lanes {number}") } else { String::new() };
    anyhow!("lane {lane} of {lanes}: {why}{memory}{fewer}")
}

/// One clip of each size, so that no recorded pass does anything for the first time.
fn warm_up(number: usize, runner: &mut GpuRunner, shared: &Shared<'_>) -> Result<()> {
    let bytes = |item: &Item| item.geometry.video_size().0 * item.geometry.video_size().1;
    let mut largest_first: Vec<usize> = (0..shared.items.len()).collect();
    largest_first.sort_by_key(|at| std::cmp::Reverse(bytes(&shared.items[*at])));
    let mut done: Vec<&Item> = Vec::new();
    for at in largest_first {
        let item = &shared.items[at];
        let known = done.iter().any(|other| other.geometry == item.geometry);
        if known || shared.queue.has_failed(at) {
            continue;
        }
        let short = [warmup_of(runner, &item.tracked[0], &item.tracked)];
        let request = PassRequest { objects: &short, ..request(item) };
        for _ in 0..shared.plan.warmup_runs.max(1) {
            match runner.run_pass(request, 1, &|_, _| false, &mut || ()) {
                Ok(_) => {}
                // The first lane has the card for itself: it is the clip's fault.
                Err(error) if number == 0 && runner.lost().is_none() => {
                    shared.queue.fail(at);
                    locked(&shared.unfit).insert(at, error);
                    break;
                }
                Err(error) => return Err(error).context(format!("clip {}", item.clip.video)),
            }
        }
        if !shared.queue.has_failed(at) {
            done.push(item);
        }
    }
    Ok(())
}

fn request(item: &Item) -> PassRequest<'_> {
    PassRequest {
        clip: &item.clip,
        prepared: item.prepared.as_deref(),
        geometry: &item.geometry,
        objects: &item.tracked,
        logits: &[],
    }
}

fn recorded(
    runner: &mut GpuRunner,
    shared: &Shared<'_>,
    (at, run): (usize, usize),
    masks_at: &mut Vec<Instant>,
) -> Pass {
    let item = &shared.items[at];
    let (begun, first_mask) = (Instant::now(), masks_at.len());
    let keep = |_: usize, index: usize| item.keeps(shared.plan, index);
    let mut masks = Vec::new();
    let mut take = |frame: ObjectFrame, _: Option<&[u8]>| {
        masks_at.push(frame.mask_at);
        masks.extend(frame.mask.map(|mask| (frame.index, mask)));
        shared.frames.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    let repeats = runner.repeats();
    let passes = runner.stream_pass(request(item), repeats, &keep, &mut take);
    let took = begun.elapsed();
    let result = passes.and_then(|mut passes| {
        let pass = passes.pop().context("a pass without an object")?;
        Ok(ClipPass { masks, ..pass })
    });
    if let Err(error) = &result {
        shared.queue.fail(at);
        if let Some(why) = runner.lost() {
            locked(&shared.device_lost).get_or_insert_with(|| (at, why));
            shared.queue.close();
        }
        log::warn!("{} object pass {run}: {error}", item.clip.video);
    }
    Pass { item: at, run, first_mask, took, transfer: runner.transfer(), result }
}

/// Keeps the card full until the last recorded pass has ended.
fn filler(runner: &mut GpuRunner, shared: &Shared<'_>, at: usize, masks_at: &mut Vec<Instant>) {
    let mut take = |frame: ObjectFrame, _: Option<&[u8]>| {
        if shared.queue.is_over() {
            return Err(ObjectError::Other(anyhow!("the last recorded pass has ended")));
        }
        masks_at.push(frame.mask_at);
        Ok(())
    };
    let ran = runner.stream_pass(request(&shared.items[at]), 1, &|_, _| false, &mut take);
    if ran.is_err() && !shared.queue.is_over() {
        // Its recorded passes were well, or have said so.
        shared.queue.fail(at);
    }
}
