/*!
Handles engines that encoder parts or CUDA kernels replace: the whole encoder, its parts, the memory
encoder, the segments of the track step, and the last one of them.

`bench` runs such an engine while its plan exists, because `--graphs encoder`, `memory` or
`track_seg8` asked for it. A plan that can no longer run is removed once its replacement exists;
else every bench would refuse the folder. A sound one stays, with a note.
*/

use std::path::Path;

use anyhow::Result;

use runtime::builder::recipe::{computes, encodes};
use runtime::engine::EngineManifest;
use runtime::engine::freshness::damaged;
use vos::bundle::{PARTS, ReplacedEngine, Role};

/// An engine and its replacement.
struct Replaced {
    role: Role,
    /// "the whole encoder".
    what: &'static str,
    /// "its parts".
    by: &'static str,
    /// A plan of the default graphs, with the release and GPU of the folder.
    beside: Role,
}

/// After a build of the default graphs into `dir`; returns notes for the user.
///
/// # Errors
/// The manifest cannot be written.
pub fn settle(dir: &Path, manifest: &mut EngineManifest) -> Result<Option<String>> {
    let parts = manifest.bundle.encoder_parts();
    let first = parts.first().map(|part| part.role);
    let first = first.filter(|_| parts.iter().all(|part| manifest.plan(part.role).is_some()));
    let in_parts = first.is_some();
    let encoder = first.map(|beside| Replaced {
        role: Role::Encoder,
        what: "the whole encoder",
        by: "its parts",
        beside,
    });
    let prompt = manifest.plan(Role::Prompt);
    let oldest = prompt.and_then(|plan| plan.made_by.sm.iter().min().copied());
    let by_kernels = PARTS.iter().filter_map(|part| {
        oldest.filter(|sm| computes(part, &manifest.bundle, *sm, manifest.precision))?;
        let ReplacedEngine { role, what, beside } = (part.engine)(&manifest.bundle)?;
        Some(Replaced { role, what, by: "the CUDA kernels", beside })
    });
    // A single part never runs.
    let ends = [Role::EncoderCut0, Role::EncoderCut1].into_iter().filter(|_| in_parts);
    let of_encoder = [Role::Encoder]
        .into_iter()
        .chain(ends)
        .filter(|_| oldest.is_some_and(|sm| encodes(&manifest.bundle, sm, manifest.precision)));
    let of_encoder: Vec<Replaced> = of_encoder.map(replaced_by_kernels).collect();
    let encoder = encoder.filter(|_| of_encoder.is_empty()).into_iter();
    let replaced: Vec<Replaced> = encoder.chain(of_encoder).chain(by_kernels).collect();
    let mut said = Vec::new();
    for replaced in replaced {
        said.extend(settle_one(dir, manifest, &replaced)?);
    }
    Ok((!said.is_empty()).then(|| said.join("; ")))
}

/// An engine of an encoder that kernels compute as a whole.
fn replaced_by_kernels(role: Role) -> Replaced {
    let what = match role {
        Role::EncoderCut0 => "the engine of the encoder's stem",
        Role::EncoderCut1 => "the engine of the encoder's neck",
        _ => "the whole encoder",
    };
    Replaced { role, what, by: "the CUDA kernels", beside: Role::Prompt }
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
            "bench runs {what}, {shown}, in place of {by}; to run {by}, remove that file and \
             repeat this command"
        )));
    };
    // The first segment of the track step stands for all.
    let cut = |it: Role| Role::SEGMENTS.contains(&it) || it == Role::TrackImage;
    let gone = |it: Role| it == role || role == Role::TrackSeg0 && cut(it);
    let files: Vec<_> = manifest.plans.iter().filter(|plan| gone(plan.role)).collect();
    let files: Vec<_> = files.into_iter().map(|plan| dir.join(&plan.file)).collect();
    manifest.plans.retain(|plan| !gone(plan.role));
    manifest.write(dir)?;
    for file in files {
        // It may be gone already.
        let _ = std::fs::remove_file(file);
    }
    Ok(Some(format!("removed {what}, {shown}, replaced by {by}: {why}")))
}
