//! The blocks of either kind of trunk as one value, for programs that run them between engines.

use anyhow::Result;

use crate::hiera::TrunkExecutor;
use crate::repvit::RepVitExecutor;
use cuda::cublaslt::Library;
use cuda::{Stream, View};

/// The blocks between an encoder's stem and its neck, on their stream.
pub enum Trunk {
    /// Of SAM 2.1.
    Hiera(Box<TrunkExecutor>),
    /// Of EdgeTAM.
    RepVit(Box<RepVitExecutor>),
}

impl Trunk {
    /// Enqueues all blocks. No allocation; may be recorded.
    ///
    /// # Errors
    /// Those of the driver or of cuBLASLt.
    pub fn enqueue(&self, stream: &Stream) -> Result<()> {
        match self {
            Self::Hiera(blocks) => blocks.enqueue(stream),
            Self::RepVit(blocks) => blocks.enqueue(stream),
        }
    }

    /// Memory that it clears before its first product, for cuBLASLt to find it clear.
    pub fn counters(&self) -> Option<&View> {
        match self {
            Self::Hiera(blocks) => Some(blocks.counters()),
            Self::RepVit(_) => None,
        }
    }

    /// The library of its products; none where this crate's kernels compute all of them.
    pub fn library(&self) -> Option<&Library> {
        match self {
            Self::Hiera(blocks) => Some(blocks.library()),
            Self::RepVit(_) => None,
        }
    }
}
