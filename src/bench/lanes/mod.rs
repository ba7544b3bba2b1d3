/*!
Several clips at once on one GPU: the worker of an offline run.

A lane is a thread with a pipeline of its own: contexts, streams, memory bank and captured graphs.
All lanes use one context of the device, and engines as far as TensorRT lets contexts share them.
They take passes from one queue; no pass waits for another clip's. Masks are scored when the last
pass has ended, so that scoring takes no processor from decoding.
*/

mod item;
mod lane;
mod queue;
mod times;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::gpu_runner::Parts;
use super::messages::{BenchEvent, Loaded, loaded, lost, ready, rows};
use super::object_error::ObjectError;
use super::object_rows::{OfPass, Recorded, Rows};
use super::plan::{BenchModel, BenchPlan, Job};
use super::progress::Doing;
use host::child;
use host::process_memory;
use item::{Item, check_memory, items};
use lane::{Pass, Ran, Said, Shared, locked};
use queue::Queue;
use times::Paces;
use vos::bundle::Manifest;
use vos::prompt::PromptKind;
use vos::record::{DecodeLoad, FrameTime, MemoryPeaks, ObjectKey, Observed, RunRecord};
use vos::stage::Stage;
use vos::telemetry::Telemetry;

/// Streams that reach the device without sharing a queue: 8 by default, and the most that the
/// driver takes. Work of lanes in one queue would wait for each other's.
const QUEUES: &[(&str, &str)] = &[("CUDA_DEVICE_MAX_CONNECTIONS", "32")];

/// What the environment of a worker must have besides.
pub fn environment(plan: &BenchPlan) -> &'static [(&'static str, &'static str)] {
    if plan.lanes().is_some() { QUEUES } else { &[] }
}

/// Progress is told this often.
const PERIOD: Duration = Duration::from_millis(200);

/// Runs the job with so many lanes.
///
/// # Errors
/// A lane that cannot be made, or a split that cannot be read. An object that fails has its row.
pub fn run(job: &Job, model: &BenchModel, lanes: usize) -> Result<()> {
    let plan = &job.plan;
    let whole = plan.gpu.as_ref().context("lanes need a GPU")?;
    let with_mask = model.tag.prompt == PromptKind::Mask;
    let first = Parts::open(whole, &model.dir, with_mask)?;
    let manifest = first.engines().manifest.bundle.clone();
    let parts = all_parts(first, lanes)?;
    let (items, unusable) = items(job, model.tag.prompt, &manifest)?;
    check_memory(&items, plan)?;
    // The threads that were asked for are those of all lanes.
    let mut gpu = whole.clone();
    gpu.options.decode_threads = gpu.options.decode_threads.div_ceil(lanes);
    let shared = Shared {
        plan,
        gpu,
        items: &items,
        queue: Queue::new(items.len(), plan.profile_runs),
        frames: AtomicUsize::new(0),
        unfit: Mutex::default(),
        device_lost: Mutex::default(),
    };
    let card = Card { job, model, manifest: &manifest, shared: &shared };
    card.measure(parts, |Measured { loaded, begun, lanes, observed }| {
        let scoring = Scoring {
            rows: rows(job, model, &loaded, &manifest),
            paces: Paces::new(begun, lanes.iter().map(|ran| ran.masks_at.as_slice())),
            observed,
            memory: peaks(&lanes),
            decode_threads: shared.gpu.options.decode_threads,
        };
        for (video, name, error) in &unusable {
            lost(&scoring.rows, video, name, error)?;
        }
        if let Some(uses) = lanes.iter().find_map(|ran| ran.memory_use.clone()) {
            child::send(&BenchEvent::Memory(Box::new(uses)))?;
        }
        card.send_rows(&scoring, lanes)
    })
}

/// What each lane's pipeline is made of.
fn all_parts(first: Parts, lanes: usize) -> Result<Vec<Parts>> {
    let alone = first.engines().not_shared();
    if lanes > 1 && !alone.is_empty() {
        log::info!(
            "each of {lanes} lanes has engines of its own for {}: this TensorRT gives a profile \
             with open shapes to one context; lanes share the other engines",
            alone.join(", ")
        );
    }
    let gpu = first.gpu().clone();
    let mut all = vec![first];
    for number in 1..lanes {
        let again = all.last().context("there is no lane")?.again();
        all.push(again.map_err(|error| lane::not_made(number, Some(lanes), &gpu, error))?);
    }
    Ok(all)
}

/// All lanes of a job.
struct Card<'a> {
    job: &'a Job,
    model: &'a BenchModel,
    manifest: &'a Manifest,
    shared: &'a Shared<'a>,
}

/// What they did.
struct Measured {
    loaded: Loaded,
    /// When the first pass could begin.
    begun: Instant,
    lanes: Vec<Ran>,
    observed: Option<Observed>,
}

impl Card<'_> {
    /// Makes the lanes, one after the other, then lets all begin. `then` comes before the pipelines
    /// are deleted: libraries may crash there, and a lost device may never give its memory back.
    fn measure(&self, parts: Vec<Parts>, then: impl FnOnce(Measured) -> Result<()>) -> Result<()> {
        thread::scope(|scope| {
            let (tell, told) = channel();
            let (mut starts, mut first) = (Vec::new(), None);
            for (number, parts) in parts.into_iter().enumerate() {
                let ((start, go), tell) = (channel(), tell.clone());
                let shared = self.shared;
                let body = move || lane::run(number, parts, shared, &tell, &go);
                let name = format!("lane {}", number + 1);
                let thread = thread::Builder::new().name(name).spawn_scoped(scope, body);
                thread.context("there is no thread for a lane")?;
                // Without a start no lane begins, and all end when the starts are gone.
                starts.push(start);
                if let Said::Ready(opened) = told.recv().context("a lane ended early")? {
                    let opened = opened?;
                    first.get_or_insert(opened);
                }
            }
            let opened = first.context("there are no lanes")?;
            let loaded = loaded(self.job, self.model, self.manifest, opened);
            let (loaded, telemetry) = ready(self.job, loaded)?;
            process_memory::reset_peak();
            let mark = telemetry.as_ref().map(Telemetry::mark);
            let begun = Instant::now();
            for start in &starts {
                // One that broke off says so.
                let _ = start.send(());
            }
            let (mut left, mut frames) = (starts.len(), 0);
            let mut lanes: Vec<Ran> = starts.iter().map(|_| Ran::default()).collect();
            while left > 0 {
                match told.recv_timeout(PERIOD) {
                    Ok(Said::Drained(number, ran)) => {
                        lanes[number] = ran;
                        left -= 1;
                    }
                    Ok(Said::Ready(broke)) => {
                        log::error!("{:#}", broke.err().context("a lane began twice")?);
                        left -= 1;
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        let before = frames;
                        frames = self.shared.frames.load(Ordering::Relaxed);
                        // Lanes that hang are ended by the parent, which hears nothing then.
                        if frames > before {
                            self.tell(Doing::Tracking)?;
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            let observed = telemetry.as_ref().zip(mark).map(|(gpu, mark)| gpu.since(mark));
            let idle = self.job.plan.idle_processes;
            let observed = observed.map(|seen| seen.beside_idle(idle));
            then(Measured { loaded, begun, lanes, observed })
        })
    }

    /// Tells the parent how far all lanes are together.
    fn tell(&self, doing: Doing) -> Result<()> {
        let Shared { plan, items, frames, gpu, .. } = self.shared;
        let repeats = gpu.repeat_clip.max(1);
        let all: usize = items.iter().map(|item| item.span().frames()).sum();
        let total = all * repeats * plan.profile_runs;
        let done = frames.load(Ordering::Relaxed).min(total);
        let video = format!("{} clips at once", gpu.lanes.unwrap_or(1));
        child::send(&BenchEvent::Progress { doing, video, object: String::new(), done, total })
    }

    /// Sends the rows of each object. Where the device was lost, objects without all their passes
    /// are left to another worker, but for the one that is blamed.
    fn send_rows(&self, scoring: &Scoring<'_>, lanes: Vec<Ran>) -> Result<()> {
        let count = lanes.len();
        let mut passes: BTreeMap<(usize, usize), (usize, Pass)> = BTreeMap::new();
        for (lane, ran) in lanes.into_iter().enumerate() {
            passes.extend(ran.passes.into_iter().map(|pass| ((pass.item, pass.run), (lane, pass))));
        }
        let device_lost = locked(&self.shared.device_lost).take();
        let mut unfit = std::mem::take(&mut *locked(&self.shared.unfit));
        let (rows, runs) = (&scoring.rows, self.shared.plan.profile_runs);
        for (at, item) in self.shared.items.iter().enumerate() {
            let Some(truth) = item.truth() else { continue };
            let key = rows.key(&item.clip.video, &truth.name);
            let (mut recorded, mut error) = (Vec::new(), unfit.remove(&at));
            for run in 0..runs {
                let Some(pass) = passes.remove(&(at, run)) else { continue };
                // A parent that is gone is noticed at the next object's row.
                let mut told = |doing| drop(self.tell(doing));
                match scoring.row(&key, item, pass, &mut told) {
                    Ok(row) => recorded.push(row),
                    Err(why) => drop(error.get_or_insert(why)),
                }
            }
            let blamed = device_lost.as_ref().is_none_or(|(blamed, _)| *blamed == at);
            if recorded.len() < runs && !blamed {
                continue;
            }
            if let Some(error) = error {
                let row = rows.row_without_numbers(key.clone(), &error);
                recorded.push((RunRecord { run: recorded.len(), ..row }, Vec::new()));
            }
            if !recorded.is_empty() {
                child::send(&BenchEvent::Object { key, passes: recorded })?;
            }
        }
        let Some((_, why)) = device_lost else { return Ok(()) };
        let reason = format!("{why}; {count} clips ran at once, and any of them may be the cause");
        child::send(&BenchEvent::Lost { reason })
    }
}

/// Makes rows of the passes.
struct Scoring<'a> {
    rows: Rows<'a>,
    paces: Paces,
    observed: Option<Observed>,
    memory: MemoryPeaks,
    decode_threads: usize,
}

impl Scoring<'_> {
    /// The row of a pass of lane `lane`.
    fn row(
        &self,
        key: &ObjectKey,
        item: &Item,
        (lane, pass): (usize, Pass),
        told: &mut dyn FnMut(Doing),
    ) -> Result<Recorded, ObjectError> {
        let Pass { run, first_mask, took, transfer, result, .. } = pass;
        let mut pass = result?;
        let decode = pass.times.iter().filter_map(|times| times.stages[Stage::Decode]);
        let decode = decode.reduce(|sum, ms| sum + ms);
        let decode_load = decode.map(|ms| DecodeLoad {
            busy: ms / (1e3 * took.as_secs_f64() * self.decode_threads as f64),
            wait: pass.waited.as_secs_f64() / took.as_secs_f64(),
        });
        for (frame, times) in pass.times.iter_mut().enumerate() {
            let ms = self.paces.ms(lane, first_mask + frame).context("a frame without a mask")?;
            times.time = FrameTime::Lane { ms, latency_ms: times.time.ms() };
            // A lane's calls wait for those of others.
            times.enqueued.ms = None;
        }
        let (own, all) = (pass.times.len(), self.paces.frames());
        let of = OfPass {
            clip: &item.clip,
            truth: item.truth().context("the object is gone from its clip")?,
            prompt: &item.prompt,
            geometry: &item.geometry,
            span: item.span(),
            pass: &pass,
            observed: self.observed.map(|seen| seen.of_frames(own, all)),
            transfer,
            memory: self.memory,
            decode_load,
            overlay: None,
        };
        self.rows.record(key, run, &of, told)
    }
}

/// The highest of all lanes.
fn peaks(lanes: &[Ran]) -> MemoryPeaks {
    let most = |of: fn(&MemoryPeaks) -> Option<f64>| {
        lanes.iter().filter_map(|ran| of(&ran.memory)).reduce(f64::max)
    };
    MemoryPeaks {
        gpu_peak_alloc_mib: most(|peaks| peaks.gpu_peak_alloc_mib),
        gpu_peak_reserved_mib: most(|peaks| peaks.gpu_peak_reserved_mib),
        cpu_peak_rss_mib: None,
    }
}
