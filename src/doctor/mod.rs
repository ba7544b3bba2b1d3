/*!
Whether this machine can do the main job, and what to do about everything that it lacks.

```text
probe (a process of its own for each library that may crash) ─→ Machine ─┐
files, folders, tools                                                    ├→ checks ─→ verdict
what the user names: split, bundles, engines                             ┘
```

A check is a line: what was looked at, how it is, what was found, what to do. Nothing is changed,
nothing is measured.
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

/// What is looked at.
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

/// Whether a trunk's products can be computed here: cuBLASLt is there, and the driver knows the
/// CUDA that it was made for. Asked in child processes, for a broken library can end one.
///
/// # Errors
/// A sentence that says why not, and what to type.
pub fn has_cublaslt() -> Result<(), String> {
    probe::has_cublaslt(&probe::gpus())
}

/// Looks at everything; the lines in the order in which they are read.
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
    // Where there is no GPU nothing can need it.
    let trunk = gpus.is_ok() && (bundles.trunk || engines.trunk);
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
