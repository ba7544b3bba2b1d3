/*!
The weights of an encoder's trunk on their way from the bundle to the engine folder: they lie beside the plans, so that engines run
where their bundle is not. And the algorithms of its products, which are found by time.
*/

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::build_resolve::ModelBuild;
use super::build_table::Row;
use crate::build::{FailureKind, NotBuilt};
use crate::bundle::trunk::FILE;
use crate::bundle::{Bundle, Trunk};
use crate::engine::{EngineManifest, freshness, open_trunk};
use crate::files::atomic;
use crate::gpu::Gpu;
use crate::gpu::cublaslt::{Choices, CublasLt, CublasLtError};
use crate::gpu::kernels::kernels_of_turns;
use crate::pipeline::{choose_products, shapes_of};

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
        // Plans that are there already run with these weights from here on; without any there is nothing to vouch for yet.
        match manifest.plans.is_empty() {
            true => Ok(bytes),
            false => manifest.write(&model.dir).map(|()| bytes).map_err(disk),
        }
    });
    Some(match copied {
        Ok(bytes) => Row::of_trunk(&model.name, &planned.file, Some(bytes), true),
        Err(not) => Row::failed_trunk(&model.name, &planned.file, &not),
    })
}

fn disk(error: anyhow::Error) -> NotBuilt {
    NotBuilt { kind: FailureKind::Disk, reason: format!("{error:#}") }
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

/// After a build on the GPU at hand, when nothing of ours runs there any more: times the algorithms of the trunk's products, unless that
/// was done with this library and these kernels of this program's on such a GPU; the answer is what the user should know, a sentence.
///
/// # Errors
/// Products that cuBLASLt cannot compute, too little memory, or a manifest that cannot be written.
pub fn choose(dir: &Path, manifest: &mut EngineManifest) -> Result<Option<String>> {
    let Some(shapes) = manifest.trunk().map(shapes_of) else {
        return Ok(None);
    };
    let gpu = Gpu::open(0)?;
    let library = match CublasLt::open(&gpu) {
        Ok(library) => library,
        // It was said before the build.
        Err(CublasLtError::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let known = manifest.products.as_ref();
    let kernels = kernels_of_turns(&gpu);
    let holds =
        |known: &Choices| known.fit(&library) && known.have(&shapes) && known.tried(&kernels);
    if known.is_some_and(holds) {
        return Ok(None);
    }
    let measure = || -> Result<Choices> {
        let trunk = manifest.trunk().context("no trunk")?;
        let weights = open_trunk(dir, manifest)?;
        let blocks = (0..trunk.blocks.len()).map(|at| weights.block(at));
        choose_products(&gpu, trunk, &blocks.collect::<Result<Vec<_>>>()?)
    };
    let choices = measure().context(
        "the algorithms of the trunk's products could not be timed; cuBLASLt's own are taken",
    )?;
    let (others, all, [before, after]) = (choices.others(), choices.products.len(), choices.us);
    let early = match choices.begin_early {
        none if none.is_none() => String::new(),
        kinds => format!(", and {kinds} begin before the kernel in front has ended"),
    };
    manifest.products = Some(choices);
    manifest.write(dir)?;
    Ok(Some(format!(
        "{others} of the trunk's {all} products by another algorithm than {library}'s first{early}: {after:.0} us for all blocks, \
         {before:.0} with the first"
    )))
}

/// Whole or not at all, and only what the manifest speaks of; the answer is its size.
fn install(bundle: &Bundle, dir: &Path) -> Result<u64, NotBuilt> {
    let read = || -> Result<_> {
        let trunk = bundle.manifest.trunk.as_ref().context("the bundle has no trunk")?;
        let weights = bundle.trunk_weights()?.context("the bundle has no trunk")?;
        Ok((dir.join(&trunk.file), weights))
    };
    let unread = |error| NotBuilt { kind: FailureKind::Graph, reason: format!("{error:#}") };
    let (place, weights) = read().map_err(unread)?;
    let bytes = weights.file();
    atomic::write(&place, |out| Ok(out.write_all(bytes)?)).map_err(disk)?;
    Ok(bytes.len() as u64)
}
