/*!
The trunk of an engine folder, before it is laid out on a device. It stays in this crate: the
folder's manifest holds its weights' hash and its autotuned choices.
*/

use std::cell::Cell;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::engine::{EngineManifest, open_part};
use cuda::{Gpu, Stream, View};
use kernels::{AttentionKernels, TrunkExecutor, TrunkSource};
use vos::bundle::trunk::{HieraWeights, Trunk, TrunkBlocks};
use vos::bundle::{MemoryKeyProjWeights, TrunkWeights};

/// The trunk that a folder's engines surround.
pub struct TrunkFile {
    dir: PathBuf,
    manifest: EngineManifest,
    trunk: Trunk,
    /// Kept from the reading of the keys' weights until the trunk is laid out: to read and hash
    /// hundreds of megabytes twice would double the wait.
    opened: Cell<Option<TrunkWeights>>,
}

impl TrunkFile {
    /// Of the engines in `dir`. Opens no file yet.
    pub fn new(dir: &Path, manifest: &EngineManifest, trunk: &Trunk) -> Self {
        let (dir, manifest, trunk) = (dir.to_owned(), manifest.clone(), trunk.clone());
        Self { dir, manifest, trunk, opened: Cell::new(None) }
    }

    /// The same file, not yet opened.
    pub fn again(&self) -> Self {
        Self::new(&self.dir, &self.manifest, &self.trunk)
    }

    /// The weights of the memory attention's keys. The file stays open for the blocks' weights.
    ///
    /// # Errors
    /// Weights that are missing or damaged, or a file without keys.
    pub(super) fn keys(&self) -> Result<MemoryKeyProjWeights> {
        let file = self.open()?;
        let keys = file.keys()?.context("the trunk's file has no keys")?;
        self.opened.set(Some(file));
        Ok(keys)
    }

    /// The weights of its blocks.
    ///
    /// # Errors
    /// Weights that are missing or damaged.
    fn open(&self) -> Result<TrunkWeights> {
        self.opened.take().map_or_else(|| open_part(&self.dir, &self.manifest), Ok)
    }

    /// The trunk on the device; see [`TrunkExecutor::new`].
    ///
    /// # Errors
    /// Weights that are missing or damaged, and those of [`TrunkExecutor::new`].
    pub(super) fn lay_out(
        &self,
        gpu: &Gpu,
        attention: Option<&AttentionKernels>,
        maps: &[View],
        scratch: &View,
        stream: &Stream,
    ) -> Result<TrunkExecutor> {
        let TrunkBlocks::Hiera(blocks) = &self.trunk.blocks else {
            bail!("there are no kernels for the blocks of a {}", self.trunk.blocks.kind());
        };
        let file = self.open()?;
        let weights = (0..blocks.len()).map(|at| file.hiera_block(at));
        let weights: Vec<HieraWeights> = weights.collect::<Result<_>>()?;
        let choices = self.manifest.products.as_ref();
        let source = TrunkSource { blocks, ends: &self.trunk.ends, weights: &weights, choices };
        TrunkExecutor::new(gpu, &source, attention, maps, scratch, stream)
    }

    /// Bytes of scratch memory that it needs.
    pub fn scratch_bytes(&self) -> u64 {
        self.trunk.blocks.hiera().map_or(0, TrunkExecutor::scratch_bytes) as u64
    }
}
