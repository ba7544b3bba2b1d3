/*!
What becomes of an encoder in one piece where its parts were built after it.

`bench` runs the whole where its plan is there, for `--graphs encoder` asked for it. One that can no longer run would be refused for
ever by who builds the usual graphs, its parts (the command that a refusal names builds it too); so it goes when they are there. A
sound one stays, aloud.
*/

use std::path::Path;

use anyhow::Result;

use crate::bundle::Role;
use crate::engine::EngineManifest;
use crate::engine::freshness::damaged;

/// After a build of the usual graphs into `dir`; the answer is what the user should know, a sentence.
///
/// # Errors
/// The manifest cannot be written.
pub fn settle(dir: &Path, manifest: &mut EngineManifest) -> Result<Option<String>> {
    let parts = manifest.bundle.encoder_parts();
    let parts: Option<Vec<_>> = parts.iter().map(|part| manifest.plan(part.role)).collect();
    let parts = parts.unwrap_or_default();
    let (Some(part), Some(whole)) = (parts.first(), manifest.plan(Role::Encoder)) else {
        return Ok(None);
    };
    let path = dir.join(&whole.file);
    let (made, parts_made) = (&whole.made_by, &part.made_by);
    let why = if made.tensorrt != parts_made.tensorrt {
        Some(format!("it was built by {}, its parts by {}", made.tensorrt, parts_made.tensorrt))
    } else if parts_made.sm.iter().any(|sm| !made.sm.contains(sm)) {
        Some("it was built for another GPU than its parts".to_owned())
    } else {
        damaged(whole, dir)
    };
    let shown = path.display();
    let Some(why) = why else {
        return Ok(Some(format!(
            "bench runs {shown}, the encoder in one piece, and not its parts, because it is there; to run the parts, remove that \
             file and give this command again"
        )));
    };
    manifest.plans.retain(|plan| plan.role != Role::Encoder);
    manifest.write(dir)?;
    // It may be gone already.
    let _ = std::fs::remove_file(&path);
    Ok(Some(format!("{shown}, the encoder in one piece, is given up for its parts: {why}")))
}
