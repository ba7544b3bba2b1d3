/*!
A run in the form of a baseline: the machine, the settings, and each recorded pass as a few numbers.
*/

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A summarised run folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Version of segtrt, or of the other program that ran.
    pub segtrt: String,
    /// Commit of the build.
    pub commit: Option<String>,
    /// What the speed depends on: GPU, driver, CPU, power limit, build; by name.
    pub machine: BTreeMap<String, String>,
    /// Settings other than those of the models: threads, warm-ups, mode; by name.
    pub settings: BTreeMap<String, String>,
    /// sha256 of the frames and masks of each clip.
    pub inputs: BTreeMap<String, String>,
    /// The models in the order of their rows.
    pub models: Vec<ModelRun>,
}

/// One model in one configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRun {
    /// Its tag.
    pub model: String,
    /// The columns that must agree: precision, imgsz, geometry, backend, …; by name.
    pub conditions: BTreeMap<String, String>,
    /// Source of the weights.
    pub weights: Option<String>,
    /// sha256 of its graphs or engines. They may change: a check exists to compare engines.
    pub graphs: Vec<String>,
    /// Its objects, measured or not.
    pub objects: Vec<ObjectRun>,
}

/// One object of one clip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectRun {
    /// Clip.
    pub video: String,
    /// Object.
    pub object: String,
    /// Why there is no measured pass; `None` if there is one.
    pub reason: Option<String>,
    /// The measured passes, in order.
    pub passes: Vec<PassSummary>,
}

/// One measured pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassSummary {
    /// Frames that were timed.
    pub frames: usize,
    /// Sum of their times, ms.
    pub duration_ms: f64,
    /// Median latency of the frames after the first, ms; `None` if frames overlap.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the same frames, ms.
    pub p95_ms: Option<f64>,
    /// 99th percentile of the same frames, ms.
    pub p99_ms: Option<f64>,
    /// Peak of allocated device memory, MiB.
    pub gpu_peak_alloc_mib: Option<f64>,
    /// Peak of device memory that was no longer free, MiB.
    pub gpu_peak_reserved_mib: Option<f64>,
    /// Peak of resident memory, MiB.
    pub cpu_peak_rss_mib: Option<f64>,
    /// J, 0..1.
    pub j: Option<f64>,
    /// F, 0..1.
    pub f: Option<f64>,
    /// J&F, 0..1.
    pub jf: Option<f64>,
    /// Its verdict is INVALID.
    #[serde(default)]
    pub invalid: bool,
    /// Its speed is the one that the GPU sustains at its power limit.
    #[serde(default)]
    pub power_limited: bool,
}

impl RunSummary {
    /// Number of recorded passes, and of INVALID ones.
    pub fn passes(&self) -> (usize, usize) {
        let objects = self.models.iter().flat_map(|model| &model.objects);
        let passes: Vec<_> = objects.flat_map(|object| &object.passes).collect();
        (passes.len(), passes.iter().filter(|pass| pass.invalid).count())
    }

    /// Number of passes whose speed is the one that the GPU sustains at its power limit.
    pub fn power_limited(&self) -> usize {
        let objects = self.models.iter().flat_map(|model| &model.objects);
        objects.flat_map(|object| &object.passes).filter(|pass| pass.power_limited).count()
    }

    /// The models whose recorded passes are all INVALID: their speed is no basis for a judgement.
    pub fn only_invalid(&self) -> Vec<&str> {
        let only = |model: &&ModelRun| {
            let mut passes = model.objects.iter().flat_map(|object| &object.passes).peekable();
            passes.peek().is_some() && passes.all(|pass| pass.invalid)
        };
        self.models.iter().filter(only).map(|model| model.model.as_str()).collect()
    }

    /// Number of objects without a measured pass.
    pub fn unmeasured(&self) -> usize {
        let objects = self.models.iter().flat_map(|model| &model.objects);
        objects.filter(|object| object.passes.is_empty()).count()
    }
}

impl ModelRun {
    /// Its size and precision, which distinguish configurations of one tag.
    pub fn configuration(&self) -> String {
        let condition = |name: &str| self.conditions.get(name).map_or("", String::as_str);
        format!("{} {}", condition("imgsz"), condition("precision")).trim().to_owned()
    }
}

impl ObjectRun {
    /// Clip and object, which identify it.
    pub fn key(&self) -> (&str, &str) {
        (&self.video, &self.object)
    }
}
