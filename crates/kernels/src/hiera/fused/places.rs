//! The fused kernels of a trunk at the places of the blocks that they serve, and which are used.

use anyhow::Result;

use super::{FusedBlock, FusedKernel, FusedTransition, load, load_transitions};
use cuda::{Gpu, Stream};
use vos::bundle::trunk::{HieraBlock, HieraWeights};

/// At the place of each block the kernel that serves it, if one does.
pub(in crate::hiera) struct FusedPlaces {
    /// Of whole blocks.
    blocks: Vec<Option<FusedBlock>>,
    /// Of attention halves.
    transitions: Vec<Option<FusedTransition>>,
}

impl FusedPlaces {
    /// Loads those kernels whose names are `wanted`, and uploads their weights. All are used.
    ///
    /// # Errors
    /// Weights of other sizes, too little memory, or another error of the driver.
    pub fn load(
        gpu: &Gpu,
        blocks: &[HieraBlock],
        weights: &[HieraWeights],
        wanted: impl Fn(&str) -> bool,
        stream: &Stream,
    ) -> Result<Self> {
        let transitions = load_transitions(gpu, blocks, weights, &wanted, stream)?;
        Ok(Self { blocks: load(gpu, blocks, weights, wanted, stream)?, transitions })
    }

    /// The kernel that computes a whole block, if one does.
    pub fn block(&self, at: usize) -> Option<&FusedBlock> {
        self.blocks.get(at)?.as_ref().filter(|one| one.kernel.used.get())
    }

    /// The kernel that computes a block's attention half, if one does.
    pub fn transition(&self, at: usize) -> Option<&FusedTransition> {
        self.transitions.get(at)?.as_ref().filter(|one| one.kernel.used.get())
    }

    /// Names of the kernels, each once.
    pub fn names(&self) -> Vec<&'static str> {
        let mut all: Vec<_> = self.kernels().map(|one| one.shape.kernel).collect();
        all.dedup();
        all
    }

    /// Lets a kernel compute what it serves, or several kernels (`fused` is false), from the next
    /// launch on.
    pub fn fuse(&self, kernel: &str, fused: bool) {
        let named = |one: &&FusedKernel| one.shape.kernel == kernel;
        self.kernels().filter(named).for_each(|one| one.used.set(fused));
    }

    /// The same for all kernels. Returns the number of blocks that they serve.
    pub fn fuse_all(&self, fused: bool) -> usize {
        self.kernels().map(|one| one.used.set(fused)).count()
    }

    /// The kernel of each served place.
    fn kernels(&self) -> impl Iterator<Item = &FusedKernel> {
        let blocks = self.blocks.iter().flatten().map(|one| &*one.kernel);
        blocks.chain(self.transitions.iter().flatten().map(|one| &*one.kernel))
    }
}
