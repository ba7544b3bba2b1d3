/*!
Checks whether this machine can run a bench, with advice for each missing part.

```text
probe (a child process for each library that may crash) ─→ Machine ─┐
files, folders, tools                                                    ├→ checks ─→ verdict
what the user names: split, bundles, engines                             ┘
```

A check is a line: its subject, state, findings and advice. Nothing is changed or measured.
*/

mod board;
mod check;
mod data;
mod machine;
mod models;
pub mod probe;
mod render;
mod tools;
mod verdict;
pub mod worker;

use std::path::PathBuf;

pub use check::{Check, Group, State};
pub use probe::{Gpus, gpus, has_tensorrt};
pub use render::{json, text};
pub use verdict::{Ability, Verdict};

/// The paths to check.
#[derive(Clone, Debug)]
pub struct Options {
    /// The split that is to be measured, and its manifest's stem.
    pub split: Option<(PathBuf, String)>,
    /// Folders of bundles, or bundles.
    pub onnx_dirs: Vec<PathBuf>,
    /// Folder of engines.
    pub engines: PathBuf,
    /// TensorRT's library or folder, where named.
    pub tensorrt_lib: Option<PathBuf>,
    /// ONNX Runtime's library or folder, where named.
    pub ort_lib: Option<PathBuf>,
    /// Where results go.
    pub out_dir: PathBuf,
    /// Where `proc`, `sys` and `etc` are.
    pub root: PathBuf,
}

/// Whether a trunk's matmuls can run here: cuBLASLt is installed, and the driver supports its CUDA.
/// Checked in child processes, because a broken library can end one.
///
/// # Errors
/// A sentence with the reason and the command to type.
pub fn has_cublaslt() -> Result<(), String> {
    probe::has_cublaslt(&probe::gpus())
}

/// Runs all checks; the lines are in the order of the screen.
pub fn examine(options: &Options) -> (Vec<Check>, Verdict) {
    let gpus = probe::gpus();
    let (tensorrts, searched) = probe::tensorrts(options.tensorrt_lib.as_deref());
    let onnxruntime = probe::onnxruntime(options.ort_lib.as_deref());
    let bundles = models::bundles(&options.onnx_dirs);
    let engines = models::engines(&options.engines, &gpus, &tensorrts);
    let data = data::split(options.split.as_ref());
    let mut checks = vec![machine::system(), machine::memory(&options.root)];
    checks.extend(machine::disk(&options.out_dir));
    checks.push(machine::governor(&options.root));
    checks.extend(board::jetson(&options.root));
    let mut needed = vec![probe::onnxruntime_check(&onnxruntime)];
    needed.extend(bundles.checks.clone());
    needed.push(data.clone());
    checks.extend(needed.into_iter().map(|check| check.of(Group::Needed)));
    let mut gpu = probe::gpu_checks(&gpus);
    gpu.extend(probe::tensorrt_checks(&tensorrts, &searched, &gpus));
    gpu.push(probe::nvjpeg_check(&gpus));
    // Without a GPU nothing needs it.
    let trunk = gpus.is_ok() && (bundles.hiera || engines.hiera);
    gpu.push(probe::cublaslt_check(&gpus, trunk));
    gpu.extend(engines.checks.clone());
    checks.extend(gpu.into_iter().map(|check| check.of(Group::Gpu)));
    checks.extend([tools::nsys(&gpus), tools::ffmpeg()].map(|check| check.of(Group::Optional)));
    let verdict = verdict::judge(&verdict::Evidence {
        onnxruntime: onnxruntime.is_ok(),
        bundles: bundles.usable,
        gpu: gpus.as_ref().is_ok_and(|gpus| !gpus.is_empty()),
        tensorrt: tensorrts.iter().any(|found| found.opened.is_ok()),
        engines: engines.usable,
        split: data.state,
    });
    (checks, verdict)
}
