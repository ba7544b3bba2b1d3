/*!
What becomes of an engine whose work parts or this program's own kernels have taken over: an encoder in one piece where its parts were
built after it, a memory engine or the last segment of a track step where the bundle has the kernels' weights.

`bench` runs the engine where its plan is there, for `--graphs encoder`, `--graphs memory` or `--graphs track_seg8` asked for it. One that can no longer run would
be refused for ever by who builds the usual graphs (the command that a refusal names builds it too); so it goes when what replaces it is
there. A sound one stays, aloud.
*/

use std::path::Path;

use anyhow::Result;

use runtime::builder::recipe::makes_memories;
use runtime::engine::EngineManifest;
use runtime::engine::freshness::damaged;
use vos::bundle::Role;

/// An engine, and what would run without it.
struct Replaced {
    role: Role,
    /// "the encoder in one piece".
    what: &'static str,
    /// "its parts".
    by: &'static str,
    /// A plan of the usual ones, by the TensorRT and for the GPU that the folder is for.
    beside: Role,
}

/// After a build of the usual graphs into `dir`; the answer is what the user should know, sentences.
///
/// # Errors
/// The manifest cannot be written.
pub fn settle(dir: &Path, manifest: &mut EngineManifest) -> Result<Option<String>> {
    let parts = manifest.bundle.encoder_parts();
    let first = parts.first().map(|part| part.role);
    let first = first.filter(|_| parts.iter().all(|part| manifest.plan(part.role).is_some()));
    let encoder = first.map(|beside| Replaced {
        role: Role::Encoder,
        what: "the encoder in one piece",
        by: "its parts",
        beside,
    });
    let prompt = manifest.plan(Role::Prompt);
    let oldest = prompt.and_then(|plan| plan.made_by.sm.iter().min().copied());
    let own = |sm: u32| makes_memories(&manifest.bundle, sm, manifest.precision);
    let memory = oldest.filter(|sm| own(*sm)).map(|_| Replaced {
        role: Role::Memory,
        what: "the memory encoder as an engine",
        by: "this program's kernels",
        beside: Role::Prompt,
    });
    let last = manifest.bundle.segments().last().map(|segment| segment.role);
    let decoder = last.filter(|_| manifest.bundle.mask_decoder.is_some()).map(|role| Replaced {
        role,
        what: "the last segment with the mask decoder in it",
        by: "this program's kernels",
        beside: Role::TrackImage,
    });
    let mut said = Vec::new();
    for replaced in [encoder, memory, decoder].into_iter().flatten() {
        said.extend(settle_one(dir, manifest, &replaced)?);
    }
    Ok((!said.is_empty()).then(|| said.join("; ")))
}

fn settle_one(
    dir: &Path,
    manifest: &mut EngineManifest,
    replaced: &Replaced,
) -> Result<Option<String>> {
    let Replaced { role, what, by, beside } = *replaced;
    let (Some(beside), Some(whole)) = (manifest.plan(beside), manifest.plan(role)) else {
        return Ok(None);
    };
    let path = dir.join(&whole.file);
    let (made, usual) = (&whole.made_by, &beside.made_by);
    let why = if made.tensorrt != usual.tensorrt {
        Some(format!("it was built by {}, the other engines by {}", made.tensorrt, usual.tensorrt))
    } else if usual.sm.iter().any(|sm| !made.sm.contains(sm)) {
        Some("it was built for another GPU than the other engines".to_owned())
    } else {
        damaged(whole, dir)
    };
    let shown = path.display();
    let Some(why) = why else {
        return Ok(Some(format!(
            "bench runs {shown}, {what}, and not {by}, because it is there; to run {by}, remove that file and give this command again"
        )));
    };
    manifest.plans.retain(|plan| plan.role != role);
    manifest.write(dir)?;
    // It may be gone already.
    let _ = std::fs::remove_file(&path);
    Ok(Some(format!("{shown}, {what}, is given up for {by}: {why}")))
}
