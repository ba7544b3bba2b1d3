/*!
The worker: one model in its process.

`bench` starts one for each model, so that no model's memory, threads or crash shows in another's
rows. It reads a [`Job`] from standard input and answers with one JSON line per [`BenchEvent`].
*/

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::gpu_runner::Opened;
use super::load::RuntimePlan;
use super::object_error::ObjectError;
use super::object_run::{ObjectRunner, Recorded};
use super::plan::{BenchModel, BenchPlan, Job};
use super::progress::{Doing, Progress};
use super::runner::ClipRunner;
use super::watch;
use host::child;
use vos::bundle::Manifest;
use vos::files::Facts;
use vos::platform::Platforms;
use vos::prompt::PromptKind;
use vos::record::{
    Conditions, DeviceMemoryUse, Fidelity, Mode, ModelMemory, ObjectKey, StageTimes, Status,
};
use vos::roofline::{self, Peaks};
use vos::stage::Stage;

/// Progress lines come at most this often.
const PROGRESS_PERIOD: Duration = Duration::from_millis(200);

/// A worker's messages.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum BenchEvent {
    /// The model is loaded.
    Ready(Box<Loaded>),
    /// Frames done of the object at hand, or that its masks are being scored or written.
    Progress {
        /// What was done last.
        doing: Doing,
        /// Clip.
        video: String,
        /// Object.
        object: String,
        /// Frames done.
        done: usize,
        /// Frames in all passes.
        total: usize,
    },
    /// One object is finished, well or not.
    Object {
        /// Which.
        key: ObjectKey,
        /// Its passes.
        passes: Vec<Recorded>,
    },
    /// What the device's memory is used for, behind each clip.
    Memory(Box<DeviceMemoryUse>),
    /// What runs the model is lost to this process, which ends. Nobody is to blame but the object
    /// at hand, which has its row: another worker can go on.
    Lost {
        /// Why.
        reason: String,
    },
    /// The worker cannot go on.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What loading the model showed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Loaded {
    /// The conditions that every row states.
    pub conditions: Conditions,
    /// Time to load the graphs, ms.
    pub load_ms: f64,
    /// The library that runs the graphs: its file, and its build.
    pub library: String,
    /// The same without files: what rows of one table must have in common.
    pub version: String,
    /// Compute capability of the GPU that runs engines, 90 for 9.0.
    pub sm: Option<u32>,
    /// What does not change of the GPU that is watched.
    pub gpu: Option<serde_json::Map<String, serde_json::Value>>,
    /// Tag of the model.
    pub model: String,
    /// Its memory, which the parent fills in at the worker's end.
    #[serde(default)]
    pub memory: ModelMemory,
}

impl Loaded {
    /// What ran the model, as rows keep it.
    pub fn facts(&self) -> Facts {
        let driver = self.gpu.as_ref().and_then(|gpu| gpu.get("driver")?.as_str());
        let facts = [
            ("library", Some(self.version.as_str())),
            ("device", Some(self.conditions.device.as_str())),
            ("driver", driver),
        ];
        facts.into_iter().filter_map(|(name, fact)| Some((name.into(), fact?.into()))).collect()
    }
}

/// Runs the job on standard input to its end; an error goes to the parent, which owns the
/// screen.
pub fn run() -> Result<()> {
    match run_job() {
        Ok(()) => Ok(()),
        Err(error) => child::send(&BenchEvent::Failed { reason: format!("{error:#}") }),
    }
}

fn run_job() -> Result<()> {
    let job: Job = child::read_job()?;
    child::end_with_parent()?;
    let model =
        job.plan.models.get(job.plan_index).context("the job names a model that it lacks")?;
    let (mut runner, mut loaded) = load(&job, model)?;
    let target = watch::target_of(&job.plan);
    let telemetry = target.as_ref().and_then(|target| watch::start(target, &job.plan));
    loaded.gpu = telemetry.as_ref().map(|telemetry| telemetry.facts().clone());
    child::send(&BenchEvent::Ready(Box::new(loaded.clone())))?;
    let mut runner = ObjectRunner {
        plan: &job.plan,
        tag: &model.tag.text,
        prompt: model.tag.prompt,
        conditions: &loaded.conditions,
        load_ms: loaded.load_ms,
        least: least(&job.plan, model.tag.prompt, &loaded, runner.manifest()),
        runner: runner.as_mut(),
        on_gpu: target.is_some(),
        telemetry: telemetry.as_ref(),
        prepared: None,
    };
    let split = job.plan.open_split()?;
    for (video, objects) in &job.todo {
        let clip = match split.clip(video) {
            Ok(clip) => clip,
            Err(error) => {
                let error = ObjectError::Other(anyhow::anyhow!("{error}"));
                objects.iter().try_for_each(|name| lost(&runner, video, name, &error))?;
                continue;
            }
        };
        let by_name: HashMap<&str, _> = clip.objects.iter().map(|o| (o.name.as_str(), o)).collect();
        let (there, gone): (Vec<&String>, _) =
            objects.iter().partition(|name| by_name.contains_key(name.as_str()));
        for name in gone {
            let error = ObjectError::Other(anyhow::anyhow!("the object is gone from the split"));
            lost(&runner, video, name, &error)?;
        }
        let together = runner.runner.objects_together().max(1) * job.plan.views();
        for names in there.chunks(together) {
            let group: Vec<_> =
                names.iter().filter_map(|name| by_name.get(name.as_str()).copied()).collect();
            let label = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(",");
            let mut report = progress_reporter(video, &label);
            let mut failed = false;
            for (key, passes) in runner.run(&clip, &group, &mut report) {
                failed |= passes.iter().any(|(row, _)| row.status == Status::Failed);
                child::send(&BenchEvent::Object { key, passes })?;
            }
            if let Some(uses) = runner.runner.memory_use() {
                child::send(&BenchEvent::Memory(Box::new(uses)))?;
            }
            if failed && let Some(reason) = runner.runner.lost() {
                return child::send(&BenchEvent::Lost { reason });
            }
        }
    }
    Ok(())
}

/// A row for an object that is not there to be measured.
fn lost(runner: &ObjectRunner<'_>, video: &str, name: &str, error: &ObjectError) -> Result<()> {
    let key = runner.key(video, name);
    let passes = vec![(runner.row_without_numbers(key.clone(), error), Vec::new())];
    child::send(&BenchEvent::Object { key, passes })
}

fn load(job: &Job, model: &BenchModel) -> Result<(Box<dyn ClipRunner>, Loaded)> {
    let with_mask = model.tag.prompt == PromptKind::Mask;
    let (runner, opened) = RuntimePlan::of(&job.plan).load(&model.dir, with_mask)?;
    let Opened { backend, device, load_ms, library, version, sm } = opened;
    let conditions = Conditions {
        backend: Some(backend),
        device,
        mode: job.plan.mode(),
        ..conditions(job, model, runner.manifest())
    };
    let memory = ModelMemory::default();
    let tag = model.tag.text.clone();
    let loaded =
        Loaded { conditions, load_ms, library, version, sm, gpu: None, model: tag, memory };
    Ok((runner, loaded))
}

/// Least time of each stage at the peaks of this GPU; empty without a GPU of the platform table, and
/// where the times of a stage are not of one frame and one object alone.
fn least(plan: &BenchPlan, prompt: PromptKind, loaded: &Loaded, manifest: &Manifest) -> StageTimes {
    let objects = plan.gpu.as_ref().map_or(1, |gpu| gpu.objects_together);
    if plan.mode() != Mode::Latency || plan.encode_batch() > 1 || objects > 1 {
        return StageTimes::default();
    }
    let peaks = loaded.sm.and_then(|sm| {
        let platforms = Platforms::open(None).ok()?;
        Peaks::of_platform(platforms.of_device(&loaded.conditions.device, sm)?)
    });
    let precision = loaded.conditions.precision;
    let mut bounds =
        peaks.map_or_else(Vec::new, |peaks| roofline::stages(manifest, precision, &peaks));
    // Boxes and masks are other work than the click that the bundle counts.
    bounds.retain(|bound| bound.stage != Stage::Prompt || prompt == PromptKind::Points);
    roofline::least_times(&bounds)
}

/// What a row states whatever the backend is.
fn conditions(job: &Job, model: &BenchModel, manifest: &Manifest) -> Conditions {
    let contract = &manifest.contract;
    Conditions {
        imgsz: model.imgsz,
        precision: model.precision,
        geometry: job.plan.geometry,
        prompt_policy: job.plan.prompt_policy,
        metrics: job.plan.metrics,
        fidelity: Some(Fidelity {
            memories: contract.max_memories,
            pointers: contract.max_pointers,
            resize: job.plan.resize,
            nvjpeg: job.plan.gpu.as_ref().is_some_and(|gpu| !gpu.options.jpeg_decoder.is_turbo()),
            predecoded: job.plan.predecoded.as_ref().map(|plan| plan.values),
            video_decoder: None,
        }),
        strides: job.plan.strides,
        encode: job.plan.encode,
        stereo: job.plan.stereo,
        ..Conditions::default()
    }
}

fn progress_reporter(video: &str, object: &str) -> impl FnMut(Progress) {
    let (video, object) = (video.to_owned(), object.to_owned());
    let mut last: Option<(Instant, Doing)> = None;
    move |Progress { doing, done, total }| {
        // Reported at once: if it hangs, the last report names the step.
        if last.is_some_and(|(at, before)| before == doing && at.elapsed() < PROGRESS_PERIOD) {
            return;
        }
        last = Some((Instant::now(), doing));
        let (video, object) = (video.clone(), object.clone());
        let event = BenchEvent::Progress { doing, video, object, done, total };
        // A parent that is gone is noticed at the next object's row.
        let _ = child::send(&event);
    }
}
