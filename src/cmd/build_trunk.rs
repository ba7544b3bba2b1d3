/*!
The weights of an encoder's trunk on their way from the bundle to the engine folder: they lie beside the plans, so that engines run
where their bundle is not.
*/

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::build_resolve::ModelBuild;
use super::build_table::Row;
use crate::build::{FailureKind, NotBuilt};
use crate::bundle::trunk::FILE;
use crate::bundle::{Bundle, Trunk};
use crate::engine::{EngineManifest, freshness};
use crate::files::atomic;

/// The file that goes with the plans.
pub struct PlannedTrunk {
    /// Its name, in the bundle and in the engine folder.
    pub file: String,
    /// Why it must be copied; none where it is there.
    pub why: Option<String>,
}

impl PlannedTrunk {
    /// The bundle's, for plans in `dir`, of which `there` is known.
    pub fn new(trunk: &Trunk, dir: &Path, there: Option<&EngineManifest>) -> Self {
        let before = there.and_then(|manifest| manifest.bundle.trunk.as_ref());
        let why = match before {
            None => Some("not copied yet".to_owned()),
            Some(before) if before != trunk => Some("the bundle's trunk has changed".to_owned()),
            Some(_) => freshness::damaged_trunk(trunk, dir),
        };
        Self { file: trunk.file.clone(), why }
    }
}

/// Copies the model's file, where it must be; its row, none where the model has none.
pub fn copy(model: &ModelBuild, manifest: &EngineManifest) -> Option<Row> {
    let planned = model.trunk.as_ref()?;
    if planned.why.is_none() {
        let bytes = std::fs::metadata(model.dir.join(&planned.file)).ok().map(|meta| meta.len());
        return Some(Row::of_trunk(&model.name, &planned.file, bytes, false));
    }
    let copied = install(&model.bundle, &model.dir).and_then(|bytes| {
        // Plans that are there already run with other weights from here on; without any there is nothing to vouch for yet.
        if !manifest.plans.is_empty() {
            manifest.write(&model.dir)?;
        }
        Ok(bytes)
    });
    Some(match copied {
        Ok(bytes) => Row::of_trunk(&model.name, &planned.file, Some(bytes), true),
        Err(error) => {
            let not = NotBuilt { kind: FailureKind::Graph, reason: format!("{error:#}") };
            Row::failed_trunk(&model.name, &planned.file, &not)
        }
    })
}

/// After a build into `dir`: weights that its engines no longer need go; the answer is what the user should know, a sentence.
///
/// # Errors
/// The folder's manifest cannot be read.
pub fn settle(dir: &Path) -> Result<Option<String>> {
    let place = dir.join(FILE);
    // As long as the manifest on disk speaks of a trunk, there may be engines that a build did not replace.
    let needed = EngineManifest::read(dir)?.is_none_or(|manifest| manifest.bundle.trunk.is_some());
    if needed || std::fs::remove_file(&place).is_err() {
        return Ok(None);
    }
    Ok(Some(format!("{FILE} removed from {}: its encoder has no trunk now", dir.display())))
}

/// Whole or not at all, and only what the manifest speaks of; the answer is its size.
fn install(bundle: &Bundle, dir: &Path) -> Result<u64> {
    let weights = bundle.trunk_weights()?.context("the bundle has no trunk")?;
    let file = &bundle.manifest.trunk.as_ref().context("the bundle has no trunk")?.file;
    let bytes = weights.file();
    atomic::write(&dir.join(file), |out| Ok(out.write_all(bytes)?))?;
    Ok(bytes.len() as u64)
}
