/*!
The trunk of an engine folder, before it is laid out on a device. It stays in this crate: the
folder's manifest holds its weights' hash and its autotuned choices.
*/

use std::cell::Cell;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::engine::{EngineManifest, open_part};
use cuda::{Gpu, Stream, View};
use kernels::{
    AttentionKernels, HieraEncoder, ImageEncoder, RepVitEncoder, RepVitExecutor, RepVitSource,
    Trunk, TrunkExecutor, TrunkSource,
};
use vos::bundle::trunk::{Trunk as TrunkTable, TrunkBlocks};
use vos::bundle::{
    HieraBlock, HieraWeights, MemoryKeyProjWeights, RepVitBlock, RepVitWeights, TrunkWeights,
};

/// The trunk that a folder's engines surround.
pub struct TrunkFile {
    dir: PathBuf,
    manifest: EngineManifest,
    table: TrunkTable,
    /// Kept from the reading of the keys' weights until the trunk is laid out: to read and hash
    /// hundreds of megabytes twice would double the wait.
    opened: Cell<Option<TrunkWeights>>,
}

impl TrunkFile {
    /// Of the engines in `dir`. Opens no file yet.
    pub fn new(dir: &Path, manifest: &EngineManifest, table: &TrunkTable) -> Self {
        let (dir, manifest, table) = (dir.to_owned(), manifest.clone(), table.clone());
        Self { dir, manifest, table, opened: Cell::new(None) }
    }

    /// The same file, not yet opened.
    pub fn again(&self) -> Self {
        Self::new(&self.dir, &self.manifest, &self.table)
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

    /// The trunk on the device; see [`TrunkExecutor::new`] and [`RepVitExecutor::new`].
    ///
    /// # Errors
    /// Weights that are missing or damaged, and those of the two.
    pub(super) fn lay_out(
        &self,
        gpu: &Gpu,
        attention: Option<&AttentionKernels>,
        maps: &[View],
        scratch: &View,
        stream: &Stream,
    ) -> Result<Trunk> {
        let file = self.open()?;
        match &self.table.blocks {
            TrunkBlocks::Hiera(blocks) => {
                let weights = self.each(|at| file.hiera_block(at))?;
                let source = self.hiera(blocks, &weights);
                let run = TrunkExecutor::new(gpu, &source, attention, maps, scratch, stream)?;
                Ok(Trunk::Hiera(Box::new(run)))
            }
            TrunkBlocks::RepVit(blocks) => {
                let weights = self.each(|at| file.repvit_block(at))?;
                let source = self.repvit(blocks, &weights);
                let run = RepVitExecutor::new(gpu, &source, maps, scratch, stream)?;
                Ok(Trunk::RepVit(Box::new(run)))
            }
        }
    }

    /// Stem, blocks and neck on the device; see [`HieraEncoder::new`] and [`RepVitEncoder::new`].
    ///
    /// # Errors
    /// A trunk without stem and neck, weights that are missing or damaged, and those of the two.
    pub(super) fn lay_out_whole(
        &self,
        gpu: &Gpu,
        attention: Option<&AttentionKernels>,
        scratch: &View,
        stream: &Stream,
    ) -> Result<ImageEncoder> {
        let shape = self.table.stem_and_neck().context("no kernels compute its stem and neck")?;
        let file = self.open()?;
        let outer = file.stem_and_neck()?;
        match &self.table.blocks {
            TrunkBlocks::Hiera(blocks) => {
                let weights = self.each(|at| file.hiera_block(at))?;
                let source = self.hiera(blocks, &weights);
                let outer = (&shape, &outer);
                let run = HieraEncoder::new(gpu, &source, outer, attention, scratch, stream)?;
                Ok(ImageEncoder::Hiera(Box::new(run)))
            }
            TrunkBlocks::RepVit(blocks) => {
                let weights = self.each(|at| file.repvit_block(at))?;
                let source = self.repvit(blocks, &weights);
                let run = RepVitEncoder::new(gpu, &source, &shape, &outer, scratch, stream)?;
                Ok(ImageEncoder::RepVit(Box::new(run)))
            }
        }
    }

    /// What `read` gives of each block.
    fn each<T>(&self, read: impl Fn(usize) -> Result<T>) -> Result<Vec<T>> {
        (0..self.table.blocks.count()).map(read).collect()
    }

    fn hiera<'a>(
        &'a self,
        blocks: &'a [HieraBlock],
        weights: &'a [HieraWeights<'a>],
    ) -> TrunkSource<'a> {
        let choices = self.manifest.products.as_ref();
        TrunkSource { blocks, ends: &self.table.ends, weights, choices }
    }

    fn repvit<'a>(
        &'a self,
        blocks: &'a [RepVitBlock],
        weights: &'a [RepVitWeights<'a>],
    ) -> RepVitSource<'a> {
        RepVitSource { blocks, ends: &self.table.ends, weights, hopper_side: None }
    }

    /// Whether its blocks have attention, for which they need the attention kernels.
    pub fn is_hiera(&self) -> bool {
        self.table.is_hiera()
    }

    /// Bytes of scratch memory that it needs.
    pub fn scratch_bytes(&self) -> u64 {
        let bytes = match &self.table.blocks {
            TrunkBlocks::Hiera(blocks) => TrunkExecutor::scratch_bytes(blocks),
            TrunkBlocks::RepVit(blocks) => RepVitExecutor::scratch_bytes(blocks),
        };
        bytes as u64
    }
}
