/*!
A plan: its manifest entry, its header, and TensorRT's description if TensorRT can open it. The hash
is checked before TensorRT reads the file.
*/

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use serde::Serialize;

use super::Options;
use super::live;
use super::plan_header::{PlanHeader, first_bytes};
use super::protocol::{Live, Request};
use runtime::engine::assess::{LayerReport, assess};
use runtime::engine::{EngineManifest, PlanRecord};
use vos::bundle::Manifest;
use vos::files::sha256_of_file;

/// One plan.
#[derive(Clone, Debug, Serialize)]
pub struct PlanReport {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// What its first bytes tell; none for a form that this program does not know.
    pub header: Option<PlanHeader>,
    /// Its entry in the folder's `engine.json`, if there is one.
    pub manifest: Option<ManifestFacts>,
    /// What its layers say, as far as they are known.
    pub assessment: Option<LayerReport>,
    /// What TensorRT says of it.
    pub live: Live,
}

/// What `engine.json` says of one plan.
#[derive(Clone, Debug, Serialize)]
pub struct ManifestFacts {
    /// Row of the platform table.
    pub platform: String,
    /// Model name.
    pub model: String,
    /// Side of the network input, pixels.
    pub imgsz: usize,
    /// Whose weights.
    pub weights: String,
    /// The command that builds it again.
    pub rebuild: String,
    /// Everything about the plan.
    pub plan: PlanRecord,
    #[serde(skip)]
    pub(super) bundle: Manifest,
}

/// Looks at a plan.
///
/// # Errors
/// A plan that is not what its manifest or its own first bytes say; a file that is no plan at all.
pub fn inspect(path: &Path, options: &Options) -> Result<PlanReport> {
    let manifest = manifest_facts(path)?;
    let header = PlanHeader::read(&first_bytes(path)?);
    let hash = sha256_of_file(path)?;
    if let Some(facts) = &manifest {
        let record = &facts.plan;
        let bytes = |bytes: u64| format!("{bytes} bytes");
        if hash.bytes != record.bytes {
            return Err(damaged_plan(
                path,
                &bytes(hash.bytes),
                &bytes(record.bytes),
                &facts.rebuild,
            ));
        }
        if hash.sha256 != record.sha256 {
            let sha256 = |text: &str| format!("sha256 {text}");
            return Err(damaged_plan(
                path,
                &sha256(&hash.sha256),
                &sha256(&record.sha256),
                &facts.rebuild,
            ));
        }
    } else {
        check_without_manifest(path, header.as_ref(), hash.bytes)?;
    }
    let live = live::ask(&Request {
        plan: path.to_owned(),
        tensorrt_lib: options.tensorrt_lib.clone(),
        built_by: manifest.as_ref().map(|facts| facts.plan.made_by.tensorrt.clone()),
    });
    let assessment =
        manifest.as_ref().map(|facts| assess(&completed(&facts.plan, &live), &facts.bundle));
    Ok(PlanReport {
        path: path.to_owned(),
        bytes: hash.bytes,
        sha256: hash.sha256,
        header,
        manifest,
        assessment,
        live,
    })
}

fn manifest_facts(path: &Path) -> Result<Option<ManifestFacts>> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Some(manifest) = EngineManifest::read(folder.unwrap_or(Path::new(".")))? else {
        return Ok(None);
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some(plan) = manifest.plans.iter().find(|plan| plan.file == name) else { return Ok(None) };
    Ok(Some(ManifestFacts {
        platform: manifest.platform.clone(),
        model: manifest.bundle.model.name.clone(),
        imgsz: manifest.bundle.model.imgsz,
        weights: manifest.bundle.weights_phrase(),
        rebuild: manifest.rebuild_command(),
        plan: plan.clone(),
        bundle: manifest.bundle.clone(),
    }))
}

/// Without a manifest the first bytes are all there is.
fn check_without_manifest(path: &Path, header: Option<&PlanHeader>, found: u64) -> Result<()> {
    const AGAIN: &str = "segtrt build-engines --platform NAME, or with the program that made it";
    match header {
        Some(PlanHeader { bytes: Some(expected), .. }) if *expected != found => {
            let (found, expected) =
                (format!("{found} bytes"), format!("{expected} as its header says"));
            Err(damaged_plan(path, &found, &expected, AGAIN))
        }
        Some(_) => Ok(()),
        None if is_called_a_plan(path) => Ok(()),
        None => {
            let begin = first_bytes(path)?;
            let begin = String::from_utf8_lossy(&begin[..begin.len().min(8)]).into_owned();
            bail!(
                "{} is neither an ONNX file nor a TensorRT plan: it begins with {begin:?}; \
                 expected a file written by onnx/export.py or segtrt build-engines",
                path.display()
            )
        }
    }
}

fn is_called_a_plan(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    matches!(
        extension.as_deref().and_then(std::ffi::OsStr::to_str),
        Some("plan" | "engine" | "trt")
    )
}

/// The record with what only the opened engine could tell: plans built without their GPU have
/// neither layers nor memory in their manifest.
fn completed(record: &PlanRecord, live: &Live) -> PlanRecord {
    let mut record = record.clone();
    if let Live::Opened(engine) = live {
        record.layers = record.layers.or_else(|| engine.layers.clone());
        record.build.context_bytes = record.build.context_bytes.or(engine.context_bytes);
    }
    record
}

/// A plan whose bytes are not those that were built.
fn damaged_plan(path: &Path, found: &str, expected: &str, again: &str) -> anyhow::Error {
    anyhow!(
        "{} is damaged: found {found}, expected {expected}; build it again with: {again}",
        path.display()
    )
}
