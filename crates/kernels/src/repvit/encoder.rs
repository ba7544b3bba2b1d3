/*!
A whole image encoder: stem, blocks and neck, with the maps between them.
*/

use anyhow::{Context, Result, ensure};

use super::executor::NextSums;
use super::{RepVitExecutor, RepVitSource, stem, stem::Stem};
use crate::device_weights::DeviceWeights;
use crate::kernel::{Chain, Modules};
use crate::neck::{self, Neck};
use crate::stage_maps;
use cuda::{Gpu, LaunchMode, Stream, View};
use vos::bundle::trunk::{STAGES, StemAndNeck, StemAndNeckWeights};

/// Image to features without an engine. For sm 80 and newer.
#[derive(Debug)]
pub struct RepVitEncoder {
    stem: Stem,
    blocks: RepVitExecutor,
    neck: Neck,
    /// Of the first block, which the stem adds up.
    next: Option<NextSums>,
    shape: StemAndNeck,
    maps: [View; STAGES],
}

impl RepVitEncoder {
    /// Loads the kernels, copies the weights to the device, and allocates the maps. `scratch`: as
    /// [`RepVitExecutor::new`] takes it.
    ///
    /// # Errors
    /// Sizes that the kernels do not serve, weights of other sizes, too little memory, or another
    /// error of the driver.
    pub fn new(
        gpu: &Gpu,
        source: &RepVitSource,
        shape: &StemAndNeck,
        weights: &StemAndNeckWeights,
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        let ends = source.ends.iter().zip(shape.stages);
        let fits = ends.into_iter().all(|(end, stage)| {
            let block = source.blocks.get(*end);
            block.is_some_and(|block| {
                [block.grid_out(), block.dim_out] == [stage.grid, stage.columns]
            })
        });
        let first = source.blocks.first().map(|block| [block.grid, block.dim]);
        ensure!(
            fits && first == Some([shape.tokens.grid, shape.tokens.columns]),
            "stem and neck have other maps than the blocks between them"
        );
        let maps = stage_maps::allocate(gpu, shape)?;
        let modules = Modules::load(gpu, &[stem::MODULE, neck::MODULE], "RepViT's stem and neck")?;
        let mut tensors = stem::laid_out(shape, &weights.stem)?;
        tensors.extend(neck::laid_out(shape, weights)?);
        let views: Vec<(String, &[u8])> =
            tensors.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect();
        let loaded =
            DeviceWeights::upload(gpu, &views, stream).context("the weights of stem and neck")?;
        let blocks = RepVitExecutor::new(gpu, source, &maps, scratch, stream)?;
        Ok(Self {
            stem: Stem::new(&modules, &loaded, shape)?,
            next: blocks.first_sums(),
            blocks,
            neck: Neck::new(&modules, &loaded, shape)?,
            shape: *shape,
            maps,
        })
    }

    /// What it takes and gives.
    pub fn shape(&self) -> &StemAndNeck {
        &self.shape
    }

    /// Enqueues everything. `image`: f16 `[3, side, side]`, normalised; `features`: f16, `feat`,
    /// `hr0`, `hr1`, each `[channels, grid, grid]`. No allocation; may be recorded.
    ///
    /// # Errors
    /// Views of other sizes, or those of the driver.
    pub fn enqueue(&self, image: &View, features: [&View; 3], stream: &Stream) -> Result<()> {
        self.enqueue_in(LaunchMode::Pdl, image, features, stream)
    }

    /// The same in a launch mode.
    pub(super) fn enqueue_in(
        &self,
        mode: LaunchMode,
        image: &View,
        features: [&View; 3],
        stream: &Stream,
    ) -> Result<()> {
        self.blocks.clear(stream)?;
        let chain = &Chain::begin(stream, mode);
        let [tokens, ..] = &self.maps;
        self.stem.enqueue(image, tokens, self.next.as_ref(), chain)?;
        self.blocks.enqueue_chain(self.next.is_some(), chain)?;
        self.neck.enqueue(&self.maps, features, chain)
    }

    /// The image to the first block's tokens, without its sums.
    pub(super) fn enqueue_stem(&self, image: &View, stream: &Stream) -> Result<()> {
        let [tokens, ..] = &self.maps;
        self.stem.enqueue(image, tokens, None, &Chain::begin(stream, LaunchMode::Pdl))
    }

    /// All blocks, which add up their sums themselves.
    pub(super) fn enqueue_blocks(&self, stream: &Stream) -> Result<()> {
        self.blocks.enqueue(stream)
    }

    /// The stages' tokens to the features.
    pub(super) fn enqueue_neck(&self, features: [&View; 3], stream: &Stream) -> Result<()> {
        self.neck.enqueue(&self.maps, features, &Chain::begin(stream, LaunchMode::Pdl))
    }

    /// The stages' tokens; those of the first one are the stem's before the blocks run.
    pub(super) fn maps(&self) -> &[View; STAGES] {
        &self.maps
    }
}
