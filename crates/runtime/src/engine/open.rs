/*!
From a plan on disk to an engine: everything that can be known to be wrong is refused in a sentence
before TensorRT, which trusts what it reads, sees a byte.
*/

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use sha2::{Digest, Sha256};

use super::freshness::{Wanted, differs};
use super::manifest::{EngineManifest, PlanRecord};
use tensorrt::{Engine, Runtime};
use vos::bundle::{FusedPart, Role, WeightsFile};

/// Opens the plan with this role in an engine folder, on a GPU of compute capability `sm`.
///
/// # Errors
/// A role that the folder lacks; a plan of another TensorRT or GPU; a truncated or altered file;
/// what TensorRT refuses. Each names the file and the command that builds it again.
pub fn open_plan(
    runtime: &Runtime,
    sm: u32,
    dir: &Path,
    manifest: &EngineManifest,
    role: Role,
) -> Result<Engine> {
    let record = manifest.plan(role).with_context(|| {
        let again = manifest.rebuild_command();
        format!("{} has no {} engine; build it with: {again}", dir.display(), role.name())
    })?;
    open_record(runtime, sm, dir, manifest, record)
}

/// Opens the weights of a part that custom CUDA kernels compute, in an engine folder.
///
/// # Errors
/// A bundle without the part; a file that is missing, damaged, or not the manifest's. Each names
/// the file and the command that copies it again.
pub fn open_part<P: FusedPart>(dir: &Path, manifest: &EngineManifest) -> Result<WeightsFile<P>> {
    let again = || format!("get it again with: {}", manifest.rebuild_command());
    let part = P::of(&manifest.bundle).with_context(|| {
        format!("the engines in {} have no {}; {}", dir.display(), P::NAME, again())
    })?;
    WeightsFile::open(&dir.join(part.record().file), part).with_context(|| {
        format!("the weights of the {} in {} cannot be used; {}", P::NAME, dir.display(), again())
    })
}

/// Opens one of the manifest's plans, of which several may have the same role.
///
/// # Errors
/// As [`open_plan`].
pub fn open_record(
    runtime: &Runtime,
    sm: u32,
    dir: &Path,
    manifest: &EngineManifest,
    record: &PlanRecord,
) -> Result<Engine> {
    // Lazily, for an error only: it reads the platform table and looks for the bundle.
    let again = || format!("build it again with: {}", manifest.rebuild_command());
    let path = dir.join(&record.file);
    let refuse = |why: String| anyhow!("{} cannot be used: {why}; {}", path.display(), again());
    let tensorrt = runtime.library().version().to_string();
    let wanted = Wanted { onnx_sha256: None, tensorrt: &tensorrt, sm, settings: None };
    if let Some(why) = differs(record, &wanted) {
        return Err(refuse(why));
    }
    let plan = std::fs::read(&path).map_err(|error| refuse(error.to_string()))?;
    if plan.len() as u64 != record.bytes {
        return Err(refuse(format!(
            "it is damaged: {} bytes found, {} expected",
            plan.len(),
            record.bytes
        )));
    }
    if format!("{:x}", Sha256::digest(&plan)) != record.sha256 {
        return Err(refuse("it is damaged: its sha256 is not that of its manifest".to_owned()));
    }
    let what = format!("{} ({})", path.display(), record.role.name());
    runtime.deserialize(&plan, &what).with_context(again)
}
