/*!
Messages between the parent and a building child: one JSON line each.

The child answers each job with [`Event::Built`] or [`Event::Failed`], then says that it takes the
next one, [`Event::Idle`].
*/

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::engine::timing_files::TimingFiles;
use crate::engine::{BuildCost, Builder, LayerRecord, Settings};
use vos::bundle::Role;

/// One plan to build.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BuildJob {
    /// What its graph does.
    pub role: Role,
    /// Names it in messages ("edgetam_1024_fp16 track").
    pub what: String,
    /// The ONNX file.
    #[serde(serialize_with = "host::child::utf8::path")]
    pub onnx: PathBuf,
    /// SHA-256 that the bundle's manifest gives for it.
    pub onnx_sha256: String,
    /// Where the child leaves the finished plan; the parent gives it its name.
    #[serde(serialize_with = "host::child::utf8::path")]
    pub partial: PathBuf,
    /// Directory or file of TensorRT, where one is named.
    #[serde(serialize_with = "host::child::utf8::optional")]
    pub tensorrt_lib: Option<PathBuf>,
    /// Which GPU; unused where the plan is for [`Settings::targets`].
    pub device: usize,
    /// How to build.
    pub settings: Settings,
    /// The timing caches to read and to write.
    pub timing_cache: Option<TimingFiles>,
    /// Where TensorRT's whole log goes.
    #[serde(serialize_with = "host::child::utf8::optional")]
    pub log: Option<PathBuf>,
}

/// What a process must have open for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    tensorrt_lib: Option<PathBuf>,
    /// None where plans are built ahead of time.
    device: Option<usize>,
}

impl BuildJob {
    /// Jobs of one place can be done by one process, one after another.
    pub fn place(&self) -> Place {
        let device = self.settings.targets.is_empty().then_some(self.device);
        Place { tensorrt_lib: self.tensorrt_lib.clone(), device }
    }
}

/// A finished plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Built {
    /// SHA-256 of the plan.
    pub sha256: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// The stack that made it.
    pub made_by: Builder,
    /// What it took.
    pub cost: BuildCost,
    /// The engine's layers, where it could be opened.
    pub layers: Option<Vec<LayerRecord>>,
    /// What the user should know, each a sentence.
    pub notes: Vec<String>,
}

/// Why a build failed, as far as the program acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The GPU, the host or the cap on all memory had too little.
    OutOfMemory,
    /// No implementation fits under the workspace cap.
    WorkspaceTooSmall,
    /// TensorRT does not take the graph.
    Graph,
    /// TensorRT built a plan that it cannot run.
    Unusable,
    /// The plan could not be written.
    Disk,
    /// The child died.
    Died,
    /// The user stopped it.
    Stopped,
    /// Anything else.
    Other,
}

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// How far it is.
    Progress {
        /// Steps done.
        done: u64,
        /// Steps known so far; 0 where nobody knows.
        total: u64,
        /// What it is doing.
        doing: String,
    },
    /// It is done.
    Built(Box<Built>),
    /// It cannot be done.
    Failed {
        /// What the program makes of it.
        kind: FailureKind,
        /// Why.
        reason: String,
    },
    /// The job at hand is over, whether its answer arrived whole or not: a parent that waited for
    /// the answer alone would wait for ever where a library printed into it.
    Idle,
}
