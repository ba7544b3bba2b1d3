//! Stems that custom CUDA kernels compute: their table, their limits and their tensors.

use anyhow::{Result, ensure};
use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};

use super::weights::{LayerBytes, MIXED, Types};
use super::{MapShape, STEP, TrunkBlocks, TrunkWeights};
use crate::bundle::tensors::Tensor;

/// Pixels of an image along the side of a token.
pub(super) const PATCH: usize = 4;
/// Channels of an image, and places of a 3 × 3 kernel.
pub(super) const IMAGE: usize = 3;
const PLACES: usize = 9;
/// Columns that the kernel of a RepViT's stem has room for: between its convolutions, and of its
/// tokens.
const MOST_MIDDLE: usize = 24;
const MOST_TOKEN: usize = 48;
/// Side of the patches that the kernel of a Hiera's stem takes, pixels.
const KERNEL: usize = 7;
/// Most columns of a Hiera's tokens for which its stem's kernel has shared memory on any GPU.
pub const MOST_EMBEDDED: usize = 192;

/// What makes tokens of an image, a token of 4 × 4 pixels. A RepViT has convolutions, a Hiera
/// patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StemShape {
    /// Two convolutions of 3 × 3 with stride 2, with GELU between them.
    Convolutions {
        /// Columns between the convolutions.
        middle: usize,
    },
    /// A patch embedding, one convolution with stride 4; the map's position embedding is added.
    Patches {
        /// Side of the convolution's kernel, pixels. Around the image are half as many zeros,
        /// rounded down.
        kernel: usize,
    },
}

/// What a stem computes with. A row of a convolution's weight has the channels one after the other,
/// each with the places of its kernel row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StemWeights<'a> {
    /// Of [`StemShape::Convolutions`].
    Convolutions {
        /// f16\[middle, 27\], bias f32.
        first: LayerBytes<'a>,
        /// f16\[columns, 9 middle\], bias f32.
        second: LayerBytes<'a>,
    },
    /// Of [`StemShape::Patches`].
    Patches {
        /// f16\[columns, 147\], bias f32.
        patch: LayerBytes<'a>,
        /// f16\[grid, grid, columns\], which is added to the tokens in f32.
        position: &'a [u8],
    },
}

impl StemShape {
    /// 2 × multiply-accumulates for the tokens of one image.
    pub(super) fn flops(self, MapShape { grid, columns }: MapShape) -> usize {
        let of_token = match self {
            Self::Convolutions { middle } => PLACES * middle * (4 * IMAGE + columns),
            Self::Patches { kernel } => IMAGE * kernel * kernel * columns,
        };
        2 * grid * grid * of_token
    }

    /// Of the file, for these tokens.
    pub(super) fn tensors(self, MapShape { grid, columns }: MapShape) -> Vec<Tensor> {
        match self {
            Self::Convolutions { middle } => {
                let mut both = layer("stem.first", [middle, IMAGE * PLACES], MIXED).to_vec();
                both.extend(layer("stem.second", [columns, middle * PLACES], MIXED));
                both
            }
            Self::Patches { kernel } => {
                let mut all =
                    layer("stem.patch", [columns, IMAGE * kernel * kernel], MIXED).to_vec();
                let (name, shape) = ("stem.position".to_owned(), vec![grid, grid, columns]);
                all.push(Tensor { name, dtype: Dtype::F16, shape });
                all
            }
        }
    }

    /// That a kernel computes it in front of these blocks.
    pub(super) fn check(self, blocks: &TrunkBlocks, tokens: MapShape) -> Result<()> {
        let MapShape { grid, columns } = tokens;
        ensure!(
            grid.is_multiple_of(2),
            "the stem makes a map of {grid} x {grid} tokens, expected an even side"
        );
        match (self, blocks) {
            (Self::Convolutions { middle }, TrunkBlocks::RepVit(_)) => ensure!(
                middle > 0
                    && middle.is_multiple_of(STEP)
                    && middle <= MOST_MIDDLE
                    && columns <= MOST_TOKEN,
                "the stem makes {columns} columns of {middle}, expected multiples of {STEP}, at \
                 most {MOST_TOKEN} of {MOST_MIDDLE}"
            ),
            (Self::Patches { kernel }, TrunkBlocks::Hiera(_)) => ensure!(
                kernel == KERNEL && columns <= MOST_EMBEDDED,
                "the stem makes {columns} columns of patches of {kernel} pixels a side, expected \
                 at most {MOST_EMBEDDED} of {KERNEL}"
            ),
            (Self::Convolutions { .. }, _) => anyhow::bail!(
                "[trunk.stem] with 'middle' is a RepViT's, the blocks are {}'s",
                blocks.kind()
            ),
            (Self::Patches { .. }, _) => anyhow::bail!(
                "[trunk.stem] with 'kernel' is a Hiera's, the blocks are {}'s",
                blocks.kind()
            ),
        }
        Ok(())
    }
}

/// The weight \[rows, depth\] and the bias \[rows\] of a layer.
pub(super) fn layer(name: &str, [rows, depth]: [usize; 2], types: Types) -> [Tensor; 2] {
    let [of_weight, of_bias] = types;
    let tensor = |part: &str, dtype, shape| Tensor { name: format!("{name}.{part}"), dtype, shape };
    [tensor("weight", of_weight, vec![rows, depth]), tensor("bias", of_bias, vec![rows])]
}

impl TrunkWeights {
    /// Those of the stem.
    ///
    /// # Errors
    /// The file has none.
    pub(super) fn stem(&self) -> Result<StemWeights<'_>> {
        if self.has("stem.patch.weight") {
            let (patch, position) = (self.named("stem.patch")?, self.get("stem.position")?);
            return Ok(StemWeights::Patches { patch, position });
        }
        let (first, second) = (self.named("stem.first")?, self.named("stem.second")?);
        Ok(StemWeights::Convolutions { first, second })
    }

    /// A layer outside of the blocks.
    pub(super) fn named(&self, name: &str) -> Result<LayerBytes<'_>> {
        let get = |part: &str| self.get(&format!("{name}.{part}"));
        Ok(LayerBytes { weight: get("weight")?, bias: get("bias")? })
    }
}
