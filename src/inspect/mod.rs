/*!
Describes untrusted files and folders: ONNX graphs, TensorRT plans, bundles, engine folders.

Reports are data; [`text`] makes tables of them and `--json` writes them as they are. Opening a plan
needs TensorRT and its GPU and may crash, so a child process does it ([`live`]).
*/

mod folder;
pub mod live;
mod onnx;
mod plan;
mod plan_header;
mod protocol;
pub mod text;
mod text_plan;
mod units;
pub mod worker;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

pub use folder::{BundleReport, EngineFolderReport, GraphLine, PartLine, PlanLine, TrunkLine};
pub use onnx::{Membership, OnnxReport, OperatorCount};
pub use plan::{ManifestFacts, PlanReport};
pub use plan_header::PlanHeader;

/// How plans are opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directory of TensorRT's libraries, where one is named.
    pub tensorrt_lib: Option<PathBuf>,
}

/// What was found at one path.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Report {
    /// An ONNX file.
    Onnx(Box<OnnxReport>),
    /// A TensorRT plan.
    Plan(Box<PlanReport>),
    /// A folder of ONNX graphs with their manifest.
    Bundle(BundleReport),
    /// A folder of plans with their manifest.
    Engines(EngineFolderReport),
}

impl Report {
    /// Nothing is wrong with what was found.
    pub fn is_sound(&self) -> bool {
        match self {
            Self::Onnx(report) => report.bundle.as_ref().is_none_or(|bundle| bundle.sha256_agrees),
            Self::Plan(_) => true,
            Self::Bundle(report) => {
                report.graphs.iter().all(|graph| graph.problem.is_none())
                    && is_whole(&report.trunk, &report.parts)
            }
            Self::Engines(report) => {
                report.plans.iter().all(|plan| plan.problem.is_none())
                    && is_whole(&report.trunk, &report.parts)
            }
        }
    }
}

fn is_whole(trunk: &Option<TrunkLine>, parts: &[PartLine]) -> bool {
    trunk.as_ref().is_none_or(|trunk| trunk.problem.is_none())
        && parts.iter().all(|line| line.problem.is_none())
}

/// Looks at a path; a folder above bundles or engine folders gives one report for each of them.
///
/// # Errors
/// A path that is missing, empty, damaged, or none of the things that can be inspected.
pub fn inspect(path: &Path, options: &Options) -> Result<Vec<Report>> {
    let meta =
        std::fs::metadata(path).with_context(|| format!("cannot inspect {}", path.display()))?;
    if meta.is_dir() {
        return folder::inspect(path);
    }
    if meta.len() == 0 {
        bail!("{} is empty: expected an ONNX file or a TensorRT plan", path.display());
    }
    let report = match is_onnx(path)? {
        true => Report::Onnx(Box::new(onnx::inspect(path)?)),
        false => Report::Plan(Box::new(plan::inspect(path, options)?)),
    };
    Ok(vec![report])
}

/// By the file's name, else by its first bytes:
/// `ir_version` first.
fn is_onnx(path: &Path) -> Result<bool> {
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    match extension.as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("onnx") => Ok(true),
        Some("plan" | "engine" | "trt") => Ok(false),
        _ => {
            let begin = plan_header::first_bytes(path)?;
            Ok(begin.first() == Some(&0x08) && tensorrt::onnx_file::OnnxSummary::read(path).is_ok())
        }
    }
}
