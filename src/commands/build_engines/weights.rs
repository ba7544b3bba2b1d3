/*!
Copies the weights files of the CUDA kernels from the bundle into the engine folder, so that engines
run without their bundle.
*/

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use super::planned::{ModelBuild, PlannedWeights};
use super::row::BuildRow;
use runtime::builder::{FailureKind, NotBuilt};
use runtime::engine::{EngineManifest, freshness};
use vos::bundle::{Bundle, Manifest, PARTS, PartKind, Plans, Role, WeightsRecord};
use vos::files::atomic;

/// Parts that CUDA kernels compute on the target GPU, whatever plans there are.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// What replaces engines of its own: there are kernels for the target GPU that compute in fp16
    /// as the plans do.
    pub halves: bool,
    /// What lies between the track step's attentions.
    pub memory_attention: bool,
}

/// The weights files for plans of these graphs in `dir`, whose manifest is `there`.
pub fn planned(
    bundle: &Manifest,
    graphs: &[Role],
    kernels: Kernels,
    dir: &Path,
    there: Option<&EngineManifest>,
) -> Vec<PlannedWeights> {
    let before = there.map(|manifest| &manifest.bundle);
    let has = |role: Role| graphs.contains(&role);
    let Kernels { halves, memory_attention } = kernels;
    let plans = Plans { has: &has, halves, memory_attention };
    let new = |(part, file): (PartKind, WeightsRecord<'_>)| {
        let known = before.filter(|before| (part.record)(before).is_some());
        let why = match known.map(|before| part.is_same(before, bundle)) {
            None => Some("not copied yet".to_owned()),
            Some(false) => Some(format!("the {} has changed in the bundle", part.name)),
            Some(true) => freshness::damaged_weights(file, dir),
        };
        PlannedWeights { graph: part.graph, file: file.file.to_owned(), why }
    };
    bundle.weights_files_with(&plans).map(new).collect()
}

/// Copies the model's missing or changed files; a row for each.
pub fn copy(model: &ModelBuild, manifest: &EngineManifest) -> Vec<BuildRow> {
    model.weights.iter().map(|planned| copy_one(model, planned, manifest)).collect()
}

fn copy_one(model: &ModelBuild, planned: &PlannedWeights, manifest: &EngineManifest) -> BuildRow {
    if planned.why.is_none() {
        let bytes = std::fs::metadata(model.dir.join(&planned.file)).ok().map(|meta| meta.len());
        return BuildRow::of_weights(&model.name, planned, bytes, false);
    }
    let copied = install(&model.bundle, planned, &model.dir).and_then(|bytes| {
        // Existing plans use these weights from now on; without plans there is no manifest to
        // update.
        match manifest.plans.is_empty() {
            true => Ok(bytes),
            false => manifest.write(&model.dir).map(|()| bytes).map_err(disk),
        }
    });
    match copied {
        Ok(bytes) => BuildRow::of_weights(&model.name, planned, Some(bytes), true),
        Err(not) => BuildRow::failed_weights(&model.name, planned, &not),
    }
}

fn disk(error: anyhow::Error) -> NotBuilt {
    NotBuilt { kind: FailureKind::Disk, reason: format!("{error:#}") }
}

/// Writes a file of the manifest atomically; returns its size.
fn install(bundle: &Bundle, planned: &PlannedWeights, dir: &Path) -> Result<u64, NotBuilt> {
    let unread = |error| NotBuilt { kind: FailureKind::Graph, reason: format!("{error:#}") };
    let bytes = bundle.weights(planned.graph).map_err(unread)?;
    let place = dir.join(&planned.file);
    atomic::write(&place, |out| Ok(out.write_all(&bytes)?)).map_err(disk)?;
    Ok(bytes.len() as u64)
}

/// After a build into `dir`: removes weights that its engines no longer need; returns notes for the
/// user.
///
/// # Errors
/// The folder's manifest cannot be read.
pub fn settle(dir: &Path) -> Result<Option<String>> {
    let Some(manifest) = EngineManifest::read(dir)? else { return Ok(None) };
    // While the manifest on disk names a file, engines that were not rebuilt may need it.
    let needed = |file: &str| manifest.bundle.weights_files().any(|known| known.file == file);
    let removed = PARTS.into_iter().filter(|part| !needed(part.file));
    let removed = removed.filter(|part| std::fs::remove_file(dir.join(part.file)).is_ok());
    let said: Vec<String> = removed
        .map(|PartKind { file, name, .. }| {
            format!("{file} removed from {}: no {name} needs it any more", dir.display())
        })
        .collect();
    Ok((!said.is_empty()).then(|| said.join("; ")))
}
