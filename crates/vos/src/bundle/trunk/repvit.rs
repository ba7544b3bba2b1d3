//! A RepViT block: its table, its limits and its tensors.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::blocks::{Block, MapShape, STEP};
use super::weights::{LayerBytes, Layers, MIXED, TrunkWeights};
use crate::bundle::tensors::Tensor;

/// Most columns of tokens, of a hidden layer and of a squeeze-and-excite that the kernels take.
const MOST_COLUMNS: usize = 1024;
const MOST_HIDDEN: usize = 2048;
const MOST_SQUEEZE: usize = 256;
/// Places of a depthwise convolution's 3 × 3 kernel.
const PLACES: usize = 9;

/// One block: a depthwise convolution, with squeeze-and-excite behind it or a product to other
/// columns, then a hidden layer whose result is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepVitBlock {
    /// Columns of the tokens that it takes.
    pub dim: usize,
    /// Columns of the tokens that it gives.
    pub dim_out: usize,
    /// Side of the map that it takes, tokens.
    pub grid: usize,
    /// Stride of its depthwise convolution, 1 or 2.
    pub stride: usize,
    /// Columns within its squeeze-and-excite; 0 where it has none.
    pub squeeze: usize,
    /// Columns of its hidden layer.
    pub hidden: usize,
}

/// What one block computes with: d columns in and e out, s within the squeeze-and-excite, h hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepVitWeights<'a> {
    /// f16\[9,d\], the kernel's places row by row; bias f32\[d\].
    pub depthwise: LayerBytes<'a>,
    /// f16\[s,d\], bias f32; none where s is 0.
    pub squeeze: Option<LayerBytes<'a>>,
    /// f16\[d,s\], bias f32; none where s is 0.
    pub excite: Option<LayerBytes<'a>>,
    /// f16\[e,d\], bias f32; only where d and e differ.
    pub pointwise: Option<LayerBytes<'a>>,
    /// f16\[h,e\], bias f32.
    pub up: LayerBytes<'a>,
    /// f16\[e,h\], bias f32.
    pub down: LayerBytes<'a>,
}

impl RepVitBlock {
    /// Side of the map that it gives, tokens.
    pub fn grid_out(&self) -> usize {
        self.grid / self.stride.max(1)
    }

    /// Tokens that it takes.
    pub fn tokens(&self) -> usize {
        self.grid * self.grid
    }

    /// Tokens that it gives.
    pub fn tokens_out(&self) -> usize {
        self.grid_out() * self.grid_out()
    }

    /// It gives tokens of other columns than those that it takes, by a product.
    pub fn changes_columns(&self) -> bool {
        self.dim != self.dim_out
    }
}

impl Block for RepVitBlock {
    fn takes(&self) -> MapShape {
        MapShape { grid: self.grid, columns: self.dim }
    }

    fn gives(&self) -> MapShape {
        MapShape { grid: self.grid_out(), columns: self.dim_out }
    }

    fn check(&self) -> Result<()> {
        let Self { dim, dim_out, grid, stride, squeeze, hidden } = *self;
        ensure!(
            dim.max(dim_out) <= MOST_COLUMNS,
            "it takes {dim} columns to {dim_out}, expected at most {MOST_COLUMNS}"
        );
        ensure!(
            hidden > 0 && hidden.is_multiple_of(STEP) && hidden <= MOST_HIDDEN,
            "its hidden layer has {hidden} columns, expected a multiple of {STEP} up to {MOST_HIDDEN}"
        );
        ensure!(
            squeeze.is_multiple_of(STEP) && squeeze <= MOST_SQUEEZE,
            "its squeeze-and-excite has {squeeze} columns, expected a multiple of {STEP} up to \
             {MOST_SQUEEZE}, or 0 for none"
        );
        ensure!(
            matches!(stride, 1 | 2) && grid.is_multiple_of(stride),
            "it has stride {stride} in a map of {grid}: expected 1, or 2 in a map of an even side"
        );
        ensure!(
            stride == 2 || !self.changes_columns(),
            "it takes {dim} columns to {dim_out} with stride 1: expected other columns with stride \
             2 alone"
        );
        ensure!(
            squeeze == 0 || (stride == 1 && grid > 1),
            "it has squeeze-and-excite with stride {stride} in a map of {grid}: expected stride 1, \
             and more than one token"
        );
        Ok(())
    }

    /// The map shrinks once in each later stage: in the first one the blocks work in place.
    fn check_stage(stage: usize, first: usize, blocks: &[Self]) -> Result<()> {
        let shrinks = blocks.iter().filter(|block| block.stride == 2).count();
        let expected = usize::from(stage > 0);
        ensure!(
            shrinks == expected,
            "{shrinks} blocks of the trunk's stage {stage}, from block {first} to {}, have stride \
             2: expected {expected}",
            first + blocks.len().saturating_sub(1)
        );
        Ok(())
    }

    fn tensors(&self, at: usize) -> Vec<Tensor> {
        let Self { dim, dim_out, squeeze, hidden, .. } = *self;
        let mut layers = Layers::of(at);
        layers.put_with_bias("dw", vec![PLACES, dim], vec![dim], MIXED);
        if squeeze > 0 {
            layers.put("squeeze", &[squeeze, dim], MIXED);
            layers.put("excite", &[dim, squeeze], MIXED);
        }
        if self.changes_columns() {
            layers.put("pw", &[dim_out, dim], MIXED);
        }
        layers.put("up", &[hidden, dim_out], MIXED);
        layers.put("down", &[dim_out, hidden], MIXED);
        layers.all
    }
}

impl TrunkWeights {
    /// Those of a RepViT's block `at`.
    ///
    /// # Errors
    /// There is no such block.
    pub fn repvit_block(&self, at: usize) -> Result<RepVitWeights<'_>> {
        Ok(RepVitWeights {
            depthwise: self.layer(at, "dw")?,
            squeeze: self.layer_if_any(at, "squeeze")?,
            excite: self.layer_if_any(at, "excite")?,
            pointwise: self.layer_if_any(at, "pw")?,
            up: self.layer(at, "up")?,
            down: self.layer(at, "down")?,
        })
    }
}
