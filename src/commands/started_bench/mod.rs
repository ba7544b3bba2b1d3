/*!
What `experiment` and `jetson-benchmark` share: flags, checks and parsing of the benches that they
start.
*/

mod backend;
mod words;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::bench::models::split_tags;
use crate::commands::headings::{GPU, MODEL};
pub(in crate::commands) use backend::{Chosen, choose};
use host::UsageError;
use vos::model_tag::ModelTag;
pub(in crate::commands) use words::{owned_flag, parse_bench};

/// Flags of `experiment` and `jetson-benchmark` for the benches that they start.
#[derive(Clone, Debug, Args)]
pub struct StartedBenchArgs {
    /// What runs the networks. auto: engines if a GPU can run them, else ONNX Runtime on the CPU.
    #[arg(long, help_heading = MODEL, value_enum, default_value = "auto")]
    pub backend: BackendWish,
    /// Folder of engines written by build-engines.
    #[arg(long, help_heading = MODEL, default_value = "engines")]
    pub engines: PathBuf,
    /// Folder of bundles, or one bundle; may be repeated [default:
    /// onnx/bundles, then the installed ones].
    #[arg(long, help_heading = MODEL, env = "SEGTRT_ONNX_DIR", value_delimiter = ':')]
    pub onnx_dir: Vec<PathBuf>,
    /// Number of the GPU, in the order of the driver.
    #[arg(long, help_heading = GPU, default_value_t = 0)]
    pub device: usize,
    /// No effect: weights are in the bundles and engines.
    #[arg(long, hide = true)]
    pub weights_dir: Option<PathBuf>,
    /// Further flags of bench.
    #[arg(last = true, value_name = "FLAGS")]
    pub bench: Vec<String>,
}

/// The requested backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendWish {
    /// Engines where they can be run, else the CPU.
    Auto,
    /// Engines, or an error.
    #[value(name = "tensorrt", alias = "trt")]
    TensorRt,
    /// ONNX Runtime on the CPU.
    #[value(name = "onnxruntime", alias = "ort", alias = "cpu")]
    OnnxRuntime,
}

/// Refuses flags after the two hyphens that `command` sets itself, `ours` among them; says which
/// flags do nothing.
pub(in crate::commands) fn check_started(
    args: &StartedBenchArgs,
    command: &str,
    ours: &[&str],
) -> Result<()> {
    if let Some(flag) = owned_flag(&args.bench, ours) {
        bail!(UsageError(format!(
            "{flag} after the two hyphens is set by segtrt {command} itself; write it before \
             them, or leave it out"
        )));
    }
    if args.weights_dir.is_some() {
        log::warn!(
            "--weights-dir does nothing here: weights are in the bundles (--onnx-dir) and engines (--engines)"
        );
    }
    Ok(())
}

/// The tags of `--models`.
pub(in crate::commands) fn tags_of(models: &str) -> Vec<String> {
    match models.trim() {
        "" | "all" => ModelTag::all(),
        _ => split_tags(models),
    }
}

/// A path as a word of a bench.
pub(in crate::commands) fn text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| UsageError(format!("{} is no UTF-8 path", path.display())).into())
}
