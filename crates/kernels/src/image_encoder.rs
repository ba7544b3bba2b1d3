//! A whole image encoder of either network as one value, for programs that run it without engines.

use anyhow::Result;

use crate::hiera::HieraEncoder;
use crate::repvit::RepVitEncoder;
use cuda::cublaslt::Library;
use cuda::{Stream, View};
use vos::bundle::trunk::StemAndNeck;

/// Image to features, on its stream.
pub enum ImageEncoder {
    /// Of SAM 2.1.
    Hiera(Box<HieraEncoder>),
    /// Of EdgeTAM.
    RepVit(Box<RepVitEncoder>),
}

impl ImageEncoder {
    /// What it takes and gives.
    pub fn shape(&self) -> &StemAndNeck {
        match self {
            Self::Hiera(encoder) => encoder.shape(),
            Self::RepVit(encoder) => encoder.shape(),
        }
    }

    /// Enqueues everything. `image`: f16 `[3, side, side]`, normalised; `features`: f16, `feat`,
    /// `hr0`, `hr1`, each `[channels, grid, grid]`. No allocation; may be recorded.
    ///
    /// # Errors
    /// Views of other sizes, or those of the driver or of cuBLASLt.
    pub fn enqueue(&self, image: &View, features: [&View; 3], stream: &Stream) -> Result<()> {
        match self {
            Self::Hiera(encoder) => encoder.enqueue(image, features, stream),
            Self::RepVit(encoder) => encoder.enqueue(image, features, stream),
        }
    }

    /// Memory that it clears before its first kernel, for cuBLASLt to find it clear.
    pub fn counters(&self) -> Option<&View> {
        match self {
            Self::Hiera(encoder) => Some(encoder.blocks().counters()),
            Self::RepVit(_) => None,
        }
    }

    /// The library of its products; none where this crate's kernels compute all of them.
    pub fn library(&self) -> Option<&Library> {
        match self {
            Self::Hiera(encoder) => Some(encoder.blocks().library()),
            Self::RepVit(_) => None,
        }
    }
}
