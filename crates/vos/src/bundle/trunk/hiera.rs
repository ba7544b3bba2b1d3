//! A Hiera block: its table, its limits and its tensors.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::blocks::{Block, MapShape, STEP};
use super::weights::{FLOAT, HALF, LayerBytes, Layers, MIXED, TrunkWeights};
use crate::bundle::tensors::Tensor;

/// Most columns of a head, a multiple of [`STEP`], that the kernels take.
pub const DEEPEST: usize = 96;
/// Most tokens along a side of a window that the kernels take.
pub const WIDEST: usize = 16;

/// One block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HieraBlock {
    /// Columns of the tokens that it takes.
    pub dim: usize,
    /// Columns of the tokens that it gives.
    pub dim_out: usize,
    /// Heads of its attention.
    pub heads: usize,
    /// Side of the map that it takes, tokens.
    pub grid: usize,
    /// Side of the windows in that map within which it attends, tokens; 0 for the whole map.
    pub window: usize,
    /// Queries, and the tokens that go past the attention, are pooled: the largest of 2 × 2, each
    /// column for itself.
    pub pooled: bool,
}

/// What one block computes with, d columns in and e out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HieraWeights<'a> {
    /// f32\[d\], bias f32.
    pub norm1: LayerBytes<'a>,
    /// f16\[e,d\], bias f16; only where d and e differ.
    pub skip: Option<LayerBytes<'a>>,
    /// f16\[3e,d\], bias f16; rows \[q|k|v\]\[head\]\[depth\], those of q times depth^-0.5.
    pub qkv: LayerBytes<'a>,
    /// f16\[e,e\], bias f32.
    pub proj: LayerBytes<'a>,
    /// f32\[e\], bias f32.
    pub norm2: LayerBytes<'a>,
    /// f16\[4e,e\], bias f16.
    pub up: LayerBytes<'a>,
    /// f16\[e,4e\], bias f32.
    pub down: LayerBytes<'a>,
}

impl HieraBlock {
    /// Columns of a head.
    pub fn depth(&self) -> usize {
        self.dim_out / self.heads.max(1)
    }

    /// Side of the map that it gives, tokens.
    pub fn grid_out(&self) -> usize {
        if self.pooled { self.grid / 2 } else { self.grid }
    }

    /// Tokens that it takes.
    pub fn tokens(&self) -> usize {
        self.grid * self.grid
    }

    /// Tokens that it gives.
    pub fn tokens_out(&self) -> usize {
        self.grid_out() * self.grid_out()
    }

    /// The tokens that it takes have other columns than those that it gives: a projection leads
    /// past the attention.
    pub fn skips(&self) -> bool {
        self.dim != self.dim_out
    }
}

impl Block for HieraBlock {
    fn takes(&self) -> MapShape {
        MapShape { grid: self.grid, columns: self.dim }
    }

    fn gives(&self) -> MapShape {
        MapShape { grid: self.grid_out(), columns: self.dim_out }
    }

    fn check(&self) -> Result<()> {
        let Self { dim, dim_out, heads, grid, window, pooled } = *self;
        let depth = self.depth();
        ensure!(
            heads > 0
                && dim_out.is_multiple_of(heads)
                && depth > 0
                && depth.is_multiple_of(STEP)
                && depth <= DEEPEST,
            "its {heads} heads divide {dim_out} columns into {depth} each, expected a multiple of \
             {STEP} up to {DEEPEST}"
        );
        ensure!(
            window <= WIDEST,
            "its windows have a side of {window} tokens, expected at most {WIDEST}, or 0 for the whole map"
        );
        ensure!(
            pooled == self.skips(),
            "it {} pooled and takes {dim} columns to {dim_out}: expected more columns where the \
             tokens are pooled, and there alone",
            if pooled { "is" } else { "is not" }
        );
        ensure!(
            !pooled || (window > 0 && window.is_multiple_of(2) && grid.is_multiple_of(2)),
            "it is pooled in windows of {window} in a map of {grid}: expected even numbers, and \
             no whole map (window 0)"
        );
        Ok(())
    }

    /// The first block of each later stage is pooled, and no other.
    fn check_stage(stage: usize, first: usize, blocks: &[Self]) -> Result<()> {
        for (at, block) in blocks.iter().enumerate() {
            let begins = stage > 0 && at == 0;
            ensure!(
                block.pooled == begins,
                "block {} of the trunk {} pooled and {} a stage: expected the first block of each \
                 later stage to be pooled, and no other",
                first + at,
                if block.pooled { "is" } else { "is not" },
                if begins { "begins" } else { "does not begin" }
            );
        }
        Ok(())
    }

    fn tensors(&self, at: usize) -> Vec<Tensor> {
        let (d, e) = (self.dim, self.dim_out);
        let mut layers = Layers::of(at);
        layers.put("norm1", &[d], FLOAT);
        if self.skips() {
            layers.put("skip", &[e, d], HALF);
        }
        layers.put("qkv", &[3 * e, d], HALF);
        layers.put("proj", &[e, e], MIXED);
        layers.put("norm2", &[e], FLOAT);
        layers.put("up", &[4 * e, e], HALF);
        layers.put("down", &[e, 4 * e], MIXED);
        layers.all
    }
}

impl TrunkWeights {
    /// Those of a Hiera's block `at`.
    ///
    /// # Errors
    /// There is no such block.
    pub fn hiera_block(&self, at: usize) -> Result<HieraWeights<'_>> {
        let layer = |name: &str| self.layer(at, name);
        Ok(HieraWeights {
            norm1: layer("norm1")?,
            skip: self.layer_if_any(at, "skip")?,
            qkv: layer("qkv")?,
            proj: layer("proj")?,
            norm2: layer("norm2")?,
            up: layer("up")?,
            down: layer("down")?,
        })
    }
}
