/*!
What is kept of a run: the machine, the settings, and each recorded pass in a few numbers.
*/

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::read;

/// A run folder, reduced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Version of segtrt, or of whatever made the run.
    pub segtrt: String,
    /// The commit that it was built from.
    pub commit: Option<String>,
    /// What the speed hangs on: GPU, driver, processor, power limit, build; by name.
    pub machine: BTreeMap<String, String>,
    /// Settings beside those of the models: threads, warm-ups, how frames follow one another; by
    /// name.
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
    /// Whose weights.
    pub weights: Option<String>,
    /// sha256 of its graphs or engines, which may change: a better engine is what a check is for.
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
    /// Why there is no measured pass; `None` where there is one.
    pub reason: Option<String>,
    /// The measured passes, in order.
    pub passes: Vec<Pass>,
}

/// One measured pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// Frames that were timed.
    pub frames: usize,
    /// Their times together, ms.
    pub duration_ms: f64,
    /// Median latency of the frames after the first, ms; `None` where frames overlap.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the same, ms.
    pub p95_ms: Option<f64>,
    /// 99th percentile of the same, ms.
    pub p99_ms: Option<f64>,
    /// Most device memory that was asked for, MiB.
    pub gpu_peak_alloc_mib: Option<f64>,
    /// Most device memory that was missing, MiB.
    pub gpu_peak_reserved_mib: Option<f64>,
    /// Most resident memory, MiB.
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
}

impl Run {
    /// Reads a run folder.
    ///
    /// # Errors
    /// A folder that is none, that is not finished or that is damaged, and one without any measured
    /// pass.
    pub fn read(folder: &Path) -> Result<Self> {
        read::read(folder)
    }

    /// Recorded passes, and how many of them are INVALID.
    pub fn passes(&self) -> (usize, usize) {
        let objects = self.models.iter().flat_map(|model| &model.objects);
        let passes: Vec<_> = objects.flat_map(|object| &object.passes).collect();
        (passes.len(), passes.iter().filter(|pass| pass.invalid).count())
    }

    /// Objects that have no measured pass.
    pub fn unmeasured(&self) -> usize {
        let objects = self.models.iter().flat_map(|model| &model.objects);
        objects.filter(|object| object.passes.is_empty()).count()
    }
}

impl ObjectRun {
    /// Clip and object, which tell it from the others.
    pub fn key(&self) -> (&str, &str) {
        (&self.video, &self.object)
    }
}
