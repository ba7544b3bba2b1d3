/*!
Exports a checkpoint to a bundle with `onnx/export.py`.
*/

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::environment::{Environment, step};
use crate::download;
use vos::bundle::Bundle;

/// Side of the network input where none is asked for, as the exporter has it.
const USUAL_IMGSZ: usize = 1024;

/// One bundle to make.
#[derive(Clone, Debug)]
pub struct Export<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// The checkpoint.
    pub checkpoint: &'a Path,
    /// Side of the network input, pixels.
    pub imgsz: Option<usize>,
    /// `fp32` or `fp16`.
    pub precision: &'a str,
    /// Folder of bundles.
    pub out: &'a Path,
}

impl Export<'_> {
    /// Folder of the bundle.
    pub fn folder(&self) -> PathBuf {
        let side = self.imgsz.unwrap_or(USUAL_IMGSZ);
        self.out.join(format!("{}_{side}_{}", self.model, self.precision))
    }
}

/// Whether the bundle is there and of this very checkpoint.
///
/// # Errors
/// The checkpoint cannot be read.
pub fn is_there(export: &Export<'_>) -> Result<bool> {
    let Ok(bundle) = Bundle::open(&export.folder()) else { return Ok(false) };
    let Some(of) = bundle.manifest.weights.checkpoint_sha256 else { return Ok(false) };
    Ok(of == download::sha256(export.checkpoint)?)
}

/// Runs the exporter; `script` is `onnx/export.py`.
///
/// # Errors
/// It failed.
pub fn run(export: &Export<'_>, environment: &Environment, script: &Path) -> Result<()> {
    let mut command = Command::new(&environment.python);
    command.arg(script).args(["--model", export.model, "--precision", export.precision]);
    command.args(["--segments", "--padded-track", "--checkpoint"]).arg(export.checkpoint);
    command.arg("--out").arg(export.out);
    if let Some(side) = export.imgsz {
        command.args(["--imgsz", &side.to_string()]);
    }
    if let Some(edgetam) = &environment.edgetam {
        command.env("EDGETAM_SRC", edgetam);
    }
    step(&mut command)
}
