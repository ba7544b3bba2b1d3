/*!
From a plan on disk to an engine: everything that can be known to be wrong is refused in a sentence before TensorRT,
which trusts what it reads, sees a byte.
*/

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use sha2::{Digest, Sha256};

use super::freshness::{Wanted, differs};
use super::manifest::{EngineManifest, PlanRecord};
use tensorrt::{Engine, Runtime};
use vos::bundle::{DecoderWeights, MemoryWeights, Role, TrunkWeights};

/// Opens the plan with this role in an engine folder, on a GPU of compute capability `sm`.
///
/// # Errors
/// A role that the folder lacks; a plan of another TensorRT or GPU; a truncated or altered file; what TensorRT refuses.
/// Each names the file and the command that builds it again.
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

/// Opens the weights of the encoder's trunk in an engine folder.
///
/// # Errors
/// A folder whose encoder has no trunk; a file that is missing, damaged, or not that of the manifest. Each names the file and the
/// command that copies it again.
pub fn open_trunk(dir: &Path, manifest: &EngineManifest) -> Result<TrunkWeights> {
    let again = || format!("get it again with: {}", manifest.rebuild_command());
    let trunk =
        manifest.bundle.trunk.as_ref().with_context(|| {
            format!("the engines in {} have no trunk; {}", dir.display(), again())
        })?;
    TrunkWeights::open(&dir.join(&trunk.file), trunk).with_context(|| {
        format!(
            "the weights of the encoder's trunk in {} cannot be used; {}",
            dir.display(),
            again()
        )
    })
}

/// Opens the weights of the track step's mask decoder in an engine folder.
///
/// # Errors
/// A folder whose engines decode themselves; a file that is missing, damaged, or not that of the manifest. Each names the file and
/// the command that copies it again.
pub fn open_decoder(dir: &Path, manifest: &EngineManifest) -> Result<DecoderWeights> {
    let again = || format!("get it again with: {}", manifest.rebuild_command());
    let decoder = manifest.bundle.decoder.as_ref().with_context(|| {
        format!("the engines in {} have no mask decoder beside them; {}", dir.display(), again())
    })?;
    DecoderWeights::open(&dir.join(&decoder.file), decoder).with_context(|| {
        format!("the weights of the mask decoder in {} cannot be used; {}", dir.display(), again())
    })
}

/// Opens the weights of the memory encoder in an engine folder.
///
/// # Errors
/// A folder of a bundle that has none; a file that is missing, damaged, or not that of the manifest. Each names the file and the
/// command that copies it again.
pub fn open_memory(dir: &Path, manifest: &EngineManifest) -> Result<MemoryWeights> {
    let again = || format!("get it again with: {}", manifest.rebuild_command());
    let encoder = manifest.bundle.memory_encoder.as_ref().with_context(|| {
        format!("the engines in {} have no memory encoder beside them; {}", dir.display(), again())
    })?;
    MemoryWeights::open(&dir.join(&encoder.file), encoder).with_context(|| {
        format!(
            "the weights of the memory encoder in {} cannot be used; {}",
            dir.display(),
            again()
        )
    })
}

/// Opens one of the manifest's plans; where several have the same role, they are told apart so.
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
    // Only where it is said: it reads the platform table and looks for the bundle.
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
