/*!
Files of weights on their way from the bundle to the engine folder: what this program's own kernels compute with lies beside the plans, so
that engines run where their bundle is not.
*/

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use super::planned::{ModelBuild, PlannedWeights};
use super::row::Row;
use runtime::build::{FailureKind, NotBuilt};
use runtime::engine::{EngineManifest, freshness};
use vos::bundle::fused_part::KNOWN;
use vos::bundle::{Bundle, Manifest, Role, WeightsRecord};
use vos::files::atomic;

/// The bundle's, those that go with plans of these graphs in `dir`, of which `there` is known; `own_memory`: the bundle's memory encoder is
/// this program's on the GPU that they are for.
pub fn planned(
    bundle: &Manifest,
    graphs: &[Role],
    own_memory: bool,
    dir: &Path,
    there: Option<&EngineManifest>,
) -> Vec<PlannedWeights> {
    let before = there.map(|manifest| &manifest.bundle);
    let new = |file: WeightsRecord<'_>, changed: Option<bool>| {
        let WeightsRecord { graph, what, file: name, .. } = file;
        let why = match changed {
            None => Some("not copied yet".to_owned()),
            Some(true) => Some(format!("the {what} has changed in the bundle")),
            Some(false) => freshness::damaged_weights(file, dir),
        };
        PlannedWeights { graph, file: name.to_owned(), why }
    };
    let trunk = bundle.trunk.as_ref().filter(|_| graphs.iter().any(|role| role.is_encoder_part()));
    let trunk = trunk.map(|trunk| {
        let before = before.and_then(|before| before.trunk.as_ref());
        new(trunk.weights_file(), before.map(|before| before != trunk))
    });
    let decoder = bundle.decoder.as_ref().filter(|_| graphs.contains(&Role::TrackImage));
    let decoder = decoder.map(|decoder| {
        let before = before.and_then(|before| before.decoder.as_ref());
        new(decoder.weights_file(), before.map(|before| before != decoder))
    });
    // With the steps, of which it is one.
    let steps = own_memory && graphs.contains(&Role::Prompt) && !graphs.contains(&Role::Memory);
    let memory = bundle.memory_encoder.as_ref().filter(|_| steps);
    let memory = memory.map(|memory| {
        let before = before.and_then(|before| before.memory_encoder.as_ref());
        new(memory.weights_file(), before.map(|before| before != memory))
    });
    trunk.into_iter().chain(decoder).chain(memory).collect()
}

/// Copies the model's files, where they must be; a row for each.
pub fn copy(model: &ModelBuild, manifest: &EngineManifest) -> Vec<Row> {
    model.weights.iter().map(|planned| copy_one(model, planned, manifest)).collect()
}

fn copy_one(model: &ModelBuild, planned: &PlannedWeights, manifest: &EngineManifest) -> Row {
    if planned.why.is_none() {
        let bytes = std::fs::metadata(model.dir.join(&planned.file)).ok().map(|meta| meta.len());
        return Row::of_weights(&model.name, planned, bytes, false);
    }
    let copied = install(&model.bundle, planned, &model.dir).and_then(|bytes| {
        // Plans that are there already run with these weights from here on; without any there is nothing to vouch for yet.
        match manifest.plans.is_empty() {
            true => Ok(bytes),
            false => manifest.write(&model.dir).map(|()| bytes).map_err(disk),
        }
    });
    match copied {
        Ok(bytes) => Row::of_weights(&model.name, planned, Some(bytes), true),
        Err(not) => Row::failed_weights(&model.name, planned, &not),
    }
}

fn disk(error: anyhow::Error) -> NotBuilt {
    NotBuilt { kind: FailureKind::Disk, reason: format!("{error:#}") }
}

/// Whole or not at all, and only what the manifest speaks of; the answer is its size.
fn install(bundle: &Bundle, planned: &PlannedWeights, dir: &Path) -> Result<u64, NotBuilt> {
    let unread = |error| NotBuilt { kind: FailureKind::Graph, reason: format!("{error:#}") };
    let bytes = bundle.weights(planned.graph).map_err(unread)?;
    let place = dir.join(&planned.file);
    atomic::write(&place, |out| Ok(out.write_all(&bytes)?)).map_err(disk)?;
    Ok(bytes.len() as u64)
}

/// After a build into `dir`: weights that its engines no longer need go; the answer is what the user should know, sentences.
///
/// # Errors
/// The folder's manifest cannot be read.
pub fn settle(dir: &Path) -> Result<Option<String>> {
    let Some(manifest) = EngineManifest::read(dir)? else { return Ok(None) };
    // As long as the manifest on disk speaks of a file, there may be engines that a build did not replace.
    let needed = |file: &str| manifest.bundle.weights_files().any(|known| known.file == file);
    let removed = KNOWN.into_iter().filter(|(file, _)| !needed(file));
    let removed = removed.filter(|(file, _)| std::fs::remove_file(dir.join(file)).is_ok());
    let said: Vec<String> = removed
        .map(|(file, what)| {
            format!("{file} removed from {}: no {what} goes with it now", dir.display())
        })
        .collect();
    Ok((!said.is_empty()).then(|| said.join("; ")))
}
