/*!
What becomes of plans whose profiles were divided otherwise, once they lie in others.

They go when every plan of the division that is wanted is there, and not before. Until then a build that fails or is stopped leaves
whatever its own plans did not replace under the same name: between two divisions of several plans each that may be too few for every
fill level, and a bench refuses them by name.
*/

use std::path::Path;

use anyhow::Result;

use super::build_resolve::Planned;
use crate::engine::EngineManifest;
use crate::engine::division::is_file_of;

/// After a build into `dir`; the answer is what the user should know, a sentence.
///
/// # Errors
/// The manifest cannot be written.
pub fn settle(
    dir: &Path,
    manifest: &mut EngineManifest,
    planned: &[Planned],
) -> Result<Option<String>> {
    // Of a division that is there whole; failed builds leave their role as it is.
    let is_whole = |of: &Planned| {
        planned.iter().filter(|plan| plan.job.role == of.job.role).all(|plan| {
            let there = manifest.plan_in(plan.job.role, &plan.file);
            there.is_some_and(|there| there.settings.profiles == plan.job.settings.profiles)
        })
    };
    let whole: Vec<&Planned> = planned.iter().filter(|plan| is_whole(plan)).collect();
    let is_stale = |file: &str| {
        whole.iter().any(|plan| is_file_of(plan.job.role, file))
            && planned.iter().all(|plan| plan.file != file)
    };
    let before = manifest.plans.len();
    manifest.plans.retain(|plan| !is_stale(&plan.file));
    if manifest.plans.len() < before {
        manifest.write(dir)?;
    }
    // By their names: one whose record is gone already, or never came, goes too.
    let mut removed = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        if is_stale(&file) && std::fs::remove_file(entry.path()).is_ok() {
            removed.push(file);
        }
    }
    removed.sort();
    Ok((!removed.is_empty()).then(|| {
        format!(
            "{} removed from {}: the profiles lie in other plans now",
            removed.join(", "),
            dir.display()
        )
    }))
}
