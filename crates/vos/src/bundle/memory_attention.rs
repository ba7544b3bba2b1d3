/*!
What lies between the attentions of a segmented track step, which this program computes itself:
norms, projections and MLPs of the memory attention's layers.

TensorRT takes 0.17 ms (EdgeTAM) and 0.33 ms (SAM 2.1) of a frame for the segments on an H200, most
of it in small launches and copies. A bundle keeps the segments' graphs and may hold their weights
in a file of their own besides. `manifest.toml` describes it in its table `[memory_attention]`;
`onnx/README.md` says what the tensors are.
*/

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use safetensors::tensor::Dtype;

use super::fused_part::{FusedPart, Plans, ReplacedEngine, WeightsFile, WeightsRecord};
use super::manifest::{Contract, Manifest};
use super::ports::has_shape;
use super::role::Role;
use super::tensors::{Tensor, put_norm};

/// Columns of a token.
pub const WIDTH: usize = 256;
/// Columns of a memory token.
pub const MEMORY: usize = 64;
/// Hidden columns of a layer's MLP.
pub const HIDDEN: usize = 2048;
/// Pairs of columns that turn with one coordinate of a token; as many turn with the other.
pub const TURNING: usize = WIDTH / 4;
/// Most layers that segments are written for.
const LAYERS: usize = 4;
/// Fewest tokens along a side that the kernels take, in steps of two.
const LEAST_GRID: usize = 4;

/// The manifest's table `[memory_attention]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryAttentionPart {
    /// File of the weights beside the manifest, safetensors.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// 2 × multiply-accumulates for one object of one frame, without the attentions'.
    #[serde(default)]
    pub flops: u64,
    /// Its sizes.
    #[serde(flatten)]
    pub shape: MemoryAttentionShape,
}

/// The weights' file.
pub type MemoryAttentionWeights = WeightsFile<MemoryAttentionPart>;

/// Determines the launches between the attentions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryAttentionShape {
    /// Tokens along a side: an even number, 4 at least.
    pub grid: usize,
    /// Layers, 1 to 4.
    pub layers: usize,
}

impl MemoryAttentionShape {
    /// That there are kernels for it.
    ///
    /// # Errors
    /// What they do not take.
    pub fn check(&self) -> Result<()> {
        let Self { grid, layers } = *self;
        ensure!(
            grid >= LEAST_GRID && grid.is_multiple_of(2),
            "the memory attention's map has {grid} tokens a side, its kernels take even numbers \
             from {LEAST_GRID} on"
        );
        ensure!(
            (1..=LAYERS).contains(&layers),
            "the memory attention has {layers} layers, its kernels take 1 to {LAYERS}"
        );
        Ok(())
    }

    /// Tokens of a frame.
    pub fn tokens(&self) -> usize {
        self.grid * self.grid
    }
}

impl FusedPart for MemoryAttentionPart {
    type Shape = MemoryAttentionShape;

    const NAME: &'static str = "memory attention";
    const TABLE: &'static str = "memory_attention";
    const GRAPH: &'static str = "memory_attention";
    const FILE: &'static str = "memory_attention.safetensors";
    const LABEL: &'static str = "attention";

    fn engine(manifest: &Manifest) -> Option<ReplacedEngine> {
        // The first of them stands for all.
        let role = manifest.segments().first()?.role;
        let what = "the engines of the memory attention";
        Some(ReplacedEngine { role, what, beside: Role::Prompt })
    }

    fn of(manifest: &Manifest) -> Option<&Self> {
        manifest.memory_attention.as_ref()
    }

    fn shape(&self) -> &MemoryAttentionShape {
        &self.shape
    }

    fn record(&self) -> WeightsRecord<'_> {
        let Self { file, sha256, flops, .. } = self;
        let (graph, what, bytes) = (Self::GRAPH, Self::NAME, Some(self.bytes));
        WeightsRecord { graph, what, file, sha256, bytes, flops: *flops }
    }

    /// Shapes are `[rows out, columns in]` unless a comment says otherwise. Rows of queries and
    /// keys are in the order of pairs that turn together, c and c + 128; scales of queries are in
    /// their weights.
    fn tensors(shape: &MemoryAttentionShape) -> Vec<Tensor> {
        let mut all = Vec::new();
        let mut put = |name: &str, dtype: Dtype, shape: &[usize]| {
            all.push(Tensor { name: format!("attention.{name}"), dtype, shape: shape.to_vec() });
        };
        let (half, float) = (Dtype::F16, Dtype::F32);
        // As features: channels first.
        put("positions", half, &[WIDTH, shape.tokens()]);
        // Of a coordinate: cosine and sine of each pair's angle.
        put("turns", float, &[shape.grid, TURNING, 2]);
        for layer in 0..shape.layers {
            let name = |part: &str| format!("layers.{layer}.{part}");
            let mut product = |part: &str, rows: usize, columns: usize| {
                put(&name(part), half, &[rows, columns]);
                put(&name(&format!("{part}_bias")), float, &[rows]);
            };
            // Queries, keys, and values with the output projection.
            product("qkv", 3 * WIDTH, WIDTH);
            product("query", WIDTH, WIDTH);
            // Values with the output projection, of what was attended to in the bank.
            product("value", WIDTH, MEMORY);
            product("up", HIDDEN, WIDTH);
            product("down", WIDTH, HIDDEN);
            for norm in ["norm1", "norm2", "norm3"] {
                put_norm(&mut put, &name(norm), WIDTH);
            }
        }
        put_norm(&mut put, "norm", WIDTH);
        all
    }

    /// The build chose them, and no segment has a plan.
    fn replaces_plan(manifest: &Manifest, plans: &Plans<'_>) -> bool {
        let built = manifest.segments().iter().any(|segment| (plans.has)(segment.role));
        plans.memory_attention && !built
    }

    /// That it is of the contract's sizes, and that the mask decoder's kernels follow it.
    ///
    /// # Errors
    /// What does not fit.
    fn check_against(&self, manifest: &Manifest) -> Result<()> {
        // It is written into engine folders and packs under this name.
        ensure!(
            self.file == Self::FILE,
            "the memory attention's weights are said to be in '{}', expected {} beside the manifest",
            self.file,
            Self::FILE
        );
        let Contract { grid, feature_channels, memory_channels, .. } = manifest.contract;
        ensure!(
            self.shape.grid == grid,
            "the memory attention's map has {} tokens a side, the contract's {grid}",
            self.shape.grid
        );
        self.shape.check()?;
        ensure!(
            [feature_channels, memory_channels] == [WIDTH, MEMORY],
            "features and memories have {feature_channels} and {memory_channels} channels, the \
             memory attention's kernels take {WIDTH} and {MEMORY}"
        );
        let segments = manifest.segments().len();
        ensure!(
            segments == 2 * self.shape.layers + 1,
            "the track step has {segments} segments, a memory attention of {} layers has {}",
            self.shape.layers,
            2 * self.shape.layers + 1
        );
        ensure!(
            manifest.mask_decoder.is_some(),
            "there is no table [mask_decoder], whose kernels take what the memory attention's give"
        );
        let encoder = manifest.graph(Role::Encoder).context("the encoder graph is missing")?;
        let feat = encoder.outputs.iter().find(|tensor| tensor.name == "feat");
        let takers = "the memory attention's kernels";
        has_shape(feat, &[1, WIDTH, grid, grid], "the encoder's feat", takers)
    }
}

#[cfg(test)]
mod tests;
