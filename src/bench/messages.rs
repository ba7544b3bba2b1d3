/*!
A worker's messages to its parent, and what all its rows have in common once the model is loaded.
*/

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::gpu_runner::Opened;
use super::object_error::ObjectError;
use super::object_rows::{Recorded, Rows};
use super::plan::{BenchModel, BenchPlan, Job};
use super::progress::Doing;
use super::watch;
use host::child;
use vos::bundle::Manifest;
use vos::files::Facts;
use vos::platform::Platforms;
use vos::prompt::PromptKind;
use vos::record::{
    Conditions, DeviceMemoryUse, Fidelity, Mode, ModelMemory, ObjectKey, StageTimes,
};
use vos::roofline::{self, Peaks};
use vos::stage::Stage;
use vos::telemetry::Telemetry;

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
        /// Object; empty where several clips run at once.
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

/// A row for an object that is not there to be measured.
pub fn lost(rows: &Rows<'_>, video: &str, name: &str, error: &ObjectError) -> Result<()> {
    let key = rows.key(video, name);
    let passes = vec![(rows.row_without_numbers(key.clone(), error), Vec::new())];
    child::send(&BenchEvent::Object { key, passes })
}

/// Watches the GPU, and tells the parent that the model is loaded.
pub fn ready(job: &Job, loaded: Loaded) -> Result<(Loaded, Option<Telemetry>)> {
    let target = watch::target_of(&job.plan);
    let telemetry = target.as_ref().and_then(|target| watch::start(target, &job.plan));
    let gpu = telemetry.as_ref().map(|telemetry| telemetry.facts().clone());
    let loaded = Loaded { gpu, ..loaded };
    child::send(&BenchEvent::Ready(Box::new(loaded.clone())))?;
    Ok((loaded, telemetry))
}

/// What all rows of the job have in common.
pub fn rows<'a>(
    job: &'a Job,
    model: &'a BenchModel,
    loaded: &'a Loaded,
    manifest: &Manifest,
) -> Rows<'a> {
    Rows {
        plan: &job.plan,
        tag: &model.tag.text,
        conditions: &loaded.conditions,
        load_ms: loaded.load_ms,
        least: least(&job.plan, model.tag.prompt, loaded, manifest),
        on_gpu: watch::on_gpu(&job.plan),
        low_size: manifest.contract.low_size,
    }
}

/// What opening the model of this manifest showed.
pub fn loaded(job: &Job, model: &BenchModel, manifest: &Manifest, opened: Opened) -> Loaded {
    let Opened { backend, device, load_ms, library, version, sm } = opened;
    let conditions = Conditions {
        backend: Some(backend),
        device,
        mode: job.plan.mode(),
        ..conditions(job, model, manifest)
    };
    let (model, memory) = (model.tag.text.clone(), ModelMemory::default());
    Loaded { conditions, load_ms, library, version, sm, gpu: None, model, memory }
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
        lanes: job.plan.lanes(),
        encode: job.plan.encode,
        stereo: job.plan.stereo,
        ..Conditions::default()
    }
}
