/*!
The memory graph, which this program computes itself.

TensorRT takes 0.24 ms (SAM 2.1) and 0.41 ms (EdgeTAM) of a frame for it on an H200, several times what its bytes and products would take.
A bundle keeps the graph, which the CPU runs, and may hold its weights in a file of their own besides, in the layouts that the kernels take.
`manifest.toml` describes it in its table `[memory_encoder]`; `onnx/README.md` says what the tensors are.
*/

mod weights;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::manifest::{Contract, Manifest};
use super::ports::{has_shape, listed};
use super::role::Role;
pub use weights::MemoryWeights;

/// The file's name, as the exporter writes it.
pub const FILE: &str = "memory_encoder.safetensors";
/// What its weights are called among a bundle's graphs.
pub const GRAPH: &str = "memory_encoder";
/// Who takes what it is given, in messages.
const TAKERS: &str = "the memory encoder's kernels";
/// Channels of the features, of the mask behind its convolutions, and of a token between them and the memory.
pub const WIDTH: usize = 256;
/// Columns of a memory token, and of a latent.
pub const DEPTH: usize = 64;
/// Channels of the mask behind each of its four convolutions.
pub const STEPS: [usize; 4] = [4, 16, 64, WIDTH];
/// Places under a kernel of the mask's convolutions: 3 × 3.
pub const TAPS: usize = 9;
/// Places under a kernel of a block's depthwise convolution: 7 × 7.
pub const SPREAD: usize = 49;
/// Blocks that mix features and mask.
pub const BLOCKS: usize = 2;
/// Columns of the hidden layer of a block.
pub const HIDDEN: usize = 1024;
/// Latents that read all tokens, and latents that read a window each.
pub const LATENTS: usize = 256;
/// Windows along a side.
pub const WINDOWS: usize = 16;
/// Layers of the latents.
pub const LAYERS: usize = 2;
/// Columns of the hidden layers of a latent.
pub const LATENT_HIDDEN: usize = 256;
/// Elements of what a layer of the windows' latents multiplies with: two products for the attention and one for a lone latent's, two MLPs.
pub const WINDOW_HALVES: usize = 3 * DEPTH * DEPTH + 4 * LATENT_HIDDEN * DEPTH;
/// Norms of such a layer: of the memory, and in front of the attention, the MLP, the lone latent's product and the second MLP.
pub const WINDOW_NORMS: usize = 5;
/// Fewest tokens along a side that the kernels take, in steps of two.
const LEAST_GRID: usize = 4;

/// The manifest's table `[memory_encoder]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryEncoder {
    /// File of the weights beside the manifest, safetensors.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// 2 × multiply-accumulates for one object of one frame.
    #[serde(default)]
    pub flops: u64,
    /// Tokens along a side.
    pub grid: usize,
    /// The mask is multiplied with this before it is convolved,
    pub scale: f32,
    /// and this is added to it.
    pub offset: f32,
    /// Latents stand for the tokens: 256 of all of them, then 256 of a window each.
    pub latents: bool,
}

/// What tells one memory encoder's launches from another's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryShape {
    /// Tokens along a side: an even number, 4 at least; with latents a multiple of 16.
    pub grid: usize,
    /// The mask is multiplied with this before it is convolved,
    pub scale: f32,
    /// and this is added to it.
    pub offset: f32,
    /// Latents stand for the tokens.
    pub latents: bool,
}

impl MemoryShape {
    /// That there are kernels for it.
    ///
    /// # Errors
    /// What they do not take.
    pub fn check(&self) -> Result<()> {
        let Self { grid, scale, offset, latents } = *self;
        ensure!(
            grid >= LEAST_GRID && grid.is_multiple_of(2),
            "the memory has {grid} tokens a side, its kernels take even numbers from {LEAST_GRID} on"
        );
        ensure!(
            !latents || grid.is_multiple_of(WINDOWS),
            "the memory has {grid} tokens a side, its latents' kernels take multiples of {WINDOWS}"
        );
        ensure!(
            scale.is_finite() && offset.is_finite(),
            "the mask is to become {scale} times itself plus {offset}, expected two finite numbers"
        );
        Ok(())
    }

    /// Tokens of the image.
    pub fn tokens(&self) -> usize {
        self.grid * self.grid
    }

    /// Tokens of a memory: those of the image, or the latents that stand for them.
    pub fn memory_tokens(&self) -> usize {
        if self.latents { 2 * LATENTS } else { self.tokens() }
    }

    /// Pixels along a side of the logits.
    pub fn low_size(&self) -> usize {
        4 * self.grid
    }
}

impl MemoryEncoder {
    /// What its launches depend on.
    pub fn shape(&self) -> MemoryShape {
        let Self { grid, scale, offset, latents, .. } = *self;
        MemoryShape { grid, scale, offset, latents }
    }

    /// That it is of the contract's sizes, and takes and gives what the memory graph does.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, manifest: &Manifest) -> Result<()> {
        // It is written into engine folders and packs under this name.
        ensure!(
            self.file == FILE,
            "the memory encoder's weights are said to be in '{}', expected {FILE} beside the manifest",
            self.file
        );
        let Contract { grid, feature_channels, memory_channels, memory_tokens, .. } =
            manifest.contract;
        ensure!(
            self.grid == grid,
            "the memory encoder's map has {} tokens a side, the contract's {grid}",
            self.grid
        );
        let shape = self.shape();
        shape.check()?;
        ensure!(
            [feature_channels, memory_channels] == [WIDTH, DEPTH],
            "features and memories have {feature_channels} and {memory_channels} channels, the memory encoder's kernels \
             take {WIDTH} and {DEPTH}"
        );
        ensure!(
            memory_tokens == shape.memory_tokens(),
            "a memory has {memory_tokens} tokens, the memory encoder's kernels make {} {}",
            shape.memory_tokens(),
            if self.latents { "latents" } else { "without latents" }
        );
        let graph = manifest.graph(Role::Memory).context("the memory graph is missing")?;
        let low = shape.low_size();
        let inputs: [(&str, &[usize]); 4] = [
            ("feat", &[1, WIDTH, grid, grid]),
            ("low", &[1, 1, low, low]),
            ("score", &[1, 1]),
            ("binar", &[1]),
        ];
        for (name, expected) in inputs {
            has_shape(graph.input(name), expected, &format!("the memory graph's {name}"), TAKERS)?;
        }
        ensure!(
            graph.inputs.len() == inputs.len(),
            "the memory graph takes {}, the memory encoder's kernels feat, low, score and binar",
            listed(&graph.inputs)
        );
        ensure!(
            graph.outputs.len() == 1,
            "the memory graph gives {} tensors, the memory encoder's kernels mem alone",
            graph.outputs.len()
        );
        let given = graph.outputs.iter().find(|tensor| tensor.name == "mem");
        has_shape(given, &[1, memory_tokens, DEPTH], "the memory graph's mem", TAKERS)
    }
}

#[cfg(test)]
mod tests;
