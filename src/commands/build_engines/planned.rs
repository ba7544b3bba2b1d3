/*!
The work that a call plans: models, their plans and their weights files.
*/

use std::path::PathBuf;

use runtime::builder::BuildJob;
use vos::bundle::Bundle;
use vos::platform::Platform;
use vos::precision::Precision;

/// All that is to be built.
pub struct Resolved {
    /// The row of the platform table.
    pub platform: Platform,
    /// What builds: "TensorRT 8.6.0".
    pub tensorrt: String,
    /// The GPU's name; none where plans are built ahead of time.
    pub device: Option<String>,
    /// The models, in the order asked for.
    pub models: Vec<ModelBuild>,
    /// Models of the platform's list that have no bundle, each with the reason.
    pub left_out: Vec<String>,
    /// What the user should know before anything is built, sentences.
    pub notes: Vec<String>,
}

/// One engine folder.
pub struct ModelBuild {
    /// "edgetam_1024_fp16".
    pub name: String,
    /// Where its plans go.
    pub dir: PathBuf,
    /// Precision asked for.
    pub precision: Precision,
    /// The graphs.
    pub bundle: Bundle,
    /// Its plans.
    pub plans: Vec<PlannedPlan>,
    /// Files of weights that go with the plans.
    pub weights: Vec<PlannedWeights>,
    /// CUDA kernels take the place of the track step's segments.
    pub attention_kernels: bool,
}

impl ModelBuild {
    /// The workspace cap of its plans, MiB; 0 without plans.
    pub fn workspace_mb(&self) -> u64 {
        self.plans.first().map_or(0, |plan| plan.job.settings.workspace_bytes >> 20)
    }
}

/// One plan.
pub struct PlannedPlan {
    /// How to build it.
    pub job: BuildJob,
    /// Its file name.
    pub file: String,
    /// Why it must be built; none where it is up to date.
    pub why: Option<String>,
}

/// A file that goes with the plans.
pub struct PlannedWeights {
    /// What it is called among the graphs.
    pub graph: &'static str,
    /// Its name, in the bundle and in the engine folder.
    pub file: String,
    /// Why it must be copied; none where it is there.
    pub why: Option<String>,
}
