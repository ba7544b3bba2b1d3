/*!
A whole image encoder: stem, blocks and neck, with the tokens between them.
*/

use anyhow::{Context, Result};

use super::stem::{self, Stem};
use super::{TrunkExecutor, TrunkSource};
use crate::attention::AttentionKernels;
use crate::device_weights::DeviceWeights;
use crate::kernel::{Chain, Modules};
use crate::neck::{self, Neck};
use crate::stage_maps;
use cuda::{Gpu, LaunchMode, Stream, View};
use vos::bundle::trunk::{STAGES, StemAndNeck, StemAndNeckWeights};

/// Image to features without an engine. For sm 80 and newer.
pub struct HieraEncoder {
    stem: Stem,
    blocks: TrunkExecutor,
    neck: Neck,
    shape: StemAndNeck,
    /// The residual of each stage, f32.
    maps: [View; STAGES],
}

impl HieraEncoder {
    /// Loads the kernels, copies the weights to the device, and allocates the maps. `attention` and
    /// `scratch`: as [`TrunkExecutor::new`] takes them.
    ///
    /// # Errors
    /// Sizes that the kernels do not serve, weights of other sizes, and those of
    /// [`TrunkExecutor::new`].
    pub fn new(
        gpu: &Gpu,
        source: &TrunkSource,
        (shape, weights): (&StemAndNeck, &StemAndNeckWeights),
        attention: Option<&AttentionKernels>,
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        let maps = stage_maps::allocate(gpu, shape)?;
        let modules = Modules::load(gpu, &[stem::MODULE, neck::MODULE], "Hiera's stem and neck")?;
        let mut tensors = stem::laid_out(shape, &weights.stem)?;
        tensors.extend(neck::laid_out(shape, weights)?);
        let views: Vec<(String, &[u8])> =
            tensors.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect();
        let loaded =
            DeviceWeights::upload(gpu, &views, stream).context("the weights of stem and neck")?;
        Ok(Self {
            stem: Stem::new(&modules, &loaded, shape)?,
            blocks: TrunkExecutor::new(gpu, source, attention, &maps, scratch, stream)?,
            neck: Neck::new(&modules, &loaded, shape)?,
            shape: *shape,
            maps,
        })
    }

    /// What it takes and gives.
    pub fn shape(&self) -> &StemAndNeck {
        &self.shape
    }

    /// Its blocks.
    pub fn blocks(&self) -> &TrunkExecutor {
        &self.blocks
    }

    /// Enqueues everything. `image`: f16 `[3, side, side]`, normalised; `features`: f16, `feat`,
    /// `hr0`, `hr1`, each `[channels, grid, grid]`. No allocation; may be recorded.
    ///
    /// # Errors
    /// Views of other sizes, or those of the driver or of cuBLASLt.
    pub fn enqueue(&self, image: &View, features: [&View; 3], stream: &Stream) -> Result<()> {
        // In front of the stem, so that the first norm follows a kernel.
        self.blocks.clear(stream)?;
        self.enqueue_stem(image, stream)?;
        self.blocks.enqueue_behind_a_kernel(stream)?;
        self.enqueue_neck(features, self.blocks.mode_of_norms(), stream)
    }

    /// The image to the first block's tokens.
    pub(super) fn enqueue_stem(&self, image: &View, stream: &Stream) -> Result<()> {
        let [tokens, ..] = &self.maps;
        self.stem.enqueue(image, tokens, &Chain::begin(stream, LaunchMode::Ordered))
    }

    /// The stages' tokens to the features, behind the blocks' last kernel.
    pub(super) fn enqueue_neck(
        &self,
        features: [&View; 3],
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        // SAFETY: callers that ask for PDL enqueue it behind a kernel.
        let chain = unsafe { Chain::behind_a_kernel(stream, mode) };
        self.neck.enqueue(&self.maps, features, &chain)
    }

    /// The stages' tokens; those of the first one are the stem's before the blocks run.
    pub(super) fn maps(&self) -> &[View; STAGES] {
        &self.maps
    }
}
