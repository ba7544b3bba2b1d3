/*!
The memory graph, which this program computes itself.

TensorRT takes 0.24 ms (SAM 2.1) and 0.41 ms (EdgeTAM) of a frame for it on an H200, several times
what its bytes and products would take. A bundle keeps the graph, which the CPU runs, and may hold
its weights in a file of their own besides, in the layouts that the kernels take. `manifest.toml`
describes it in its table `[memory_encoder]`; `onnx/README.md` says what the tensors are.
*/

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use safetensors::tensor::Dtype;

use super::fused_part::{FusedPart, Plans, ReplacedEngine, WeightsFile, WeightsRecord};
use super::manifest::{Contract, Manifest};
use super::ports::{has_shape, listed};
use super::role::Role;
use super::tensors::{Tensor, put_norm};

/// Who takes what it is given, in messages.
const TAKERS: &str = "the memory encoder's kernels";
/// Channels of the features, of the mask behind its convolutions, and of a token between them and
/// the memory.
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
/// Elements of what a layer of the windows' latents multiplies with: two products for the attention
/// and one for a lone latent's, two MLPs.
pub const WINDOW_HALVES: usize = 3 * DEPTH * DEPTH + 4 * LATENT_HIDDEN * DEPTH;
/// Norms of such a layer: of the memory, and in front of the attention, the MLP, the lone latent's
/// product and the second MLP.
pub const WINDOW_NORMS: usize = 5;
/// Fewest tokens along a side that the kernels take, in steps of two.
const LEAST_GRID: usize = 4;

/// The manifest's table `[memory_encoder]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryEncoderPart {
    /// File of the weights beside the manifest, safetensors.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// 2 × multiply-accumulates for one object of one frame.
    #[serde(default)]
    pub flops: u64,
    /// Its sizes.
    #[serde(flatten)]
    pub shape: MemoryEncoderShape,
}

/// The weights' file.
pub type MemoryEncoderWeights = WeightsFile<MemoryEncoderPart>;

/// Determines the launches of a memory encoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryEncoderShape {
    /// Tokens along a side: an even number, 4 at least; with latents a multiple of 16.
    pub grid: usize,
    /// The mask is multiplied with this before it is convolved,
    pub scale: f32,
    /// and this is added to it.
    pub offset: f32,
    /// Latents stand for the tokens: 256 of all of them, then 256 of a window each.
    pub latents: bool,
}

impl MemoryEncoderShape {
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

impl FusedPart for MemoryEncoderPart {
    type Shape = MemoryEncoderShape;

    const NAME: &'static str = "memory encoder";
    const TABLE: &'static str = "memory_encoder";
    const GRAPH: &'static str = "memory_encoder";
    const FILE: &'static str = "memory_encoder.safetensors";
    const LABEL: &'static str = "memory";

    fn engine(_: &Manifest) -> Option<ReplacedEngine> {
        let what = "the engine of the memory encoder";
        Some(ReplacedEngine { role: Role::Memory, what, beside: Role::Prompt })
    }

    fn of(manifest: &Manifest) -> Option<&Self> {
        manifest.memory_encoder.as_ref()
    }

    fn shape(&self) -> &MemoryEncoderShape {
        &self.shape
    }

    fn record(&self) -> WeightsRecord<'_> {
        let Self { file, sha256, flops, .. } = self;
        let (graph, what, bytes) = (Self::GRAPH, Self::NAME, Some(self.bytes));
        WeightsRecord { graph, what, file, sha256, bytes, flops: *flops }
    }

    /// Shapes are `[rows out, columns in]`, of a convolution `[rows out, places, channels in]`,
    /// unless a comment says otherwise. Scales of queries are in the queries' weights, those of
    /// layers in their last matmul's.
    fn tensors(shape: &MemoryEncoderShape) -> Vec<Tensor> {
        let mut all = Vec::new();
        let mut put = |name: &str, dtype: Dtype, shape: &[usize]| {
            all.push(Tensor { name: name.to_owned(), dtype, shape: shape.to_vec() });
        };
        let (half, float) = (Dtype::F16, Dtype::F32);
        let [first, second, third, last] = STEPS;
        // Its one channel in has no axis.
        put("memory.mask.weight1", float, &[first, TAPS]);
        put("memory.mask.bias1", float, &[first]);
        put_norm(&mut put, "memory.mask.norm1", first);
        put("memory.mask.weight2", float, &[second, TAPS, first]);
        put("memory.mask.bias2", float, &[second]);
        put_norm(&mut put, "memory.mask.norm2", second);
        put("memory.widen.weight", half, &[third, TAPS, second]);
        put("memory.widen.bias", float, &[third]);
        put_norm(&mut put, "memory.widen.norm", third);
        put("memory.join.weight", half, &[last, TAPS, third]);
        put("memory.join.bias", float, &[last]);
        put_norm(&mut put, "memory.join.norm", last);
        put("memory.join.mask", half, &[WIDTH, last]);
        put("memory.join.feature", half, &[WIDTH, WIDTH]);
        // Of both products.
        put("memory.join.sum_bias", float, &[WIDTH]);
        for block in 0..BLOCKS {
            let name = |part: &str| format!("memory.blocks.{block}.{part}");
            // Places first: a channel has a kernel of its own.
            put(&name("spread"), float, &[SPREAD, WIDTH]);
            put(&name("spread_bias"), float, &[WIDTH]);
            put_norm(&mut put, &name("norm"), WIDTH);
            put(&name("up"), half, &[HIDDEN, WIDTH]);
            put(&name("up_bias"), float, &[HIDDEN]);
            put(&name("down"), half, &[WIDTH, HIDDEN]);
            put(&name("down_bias"), float, &[WIDTH]);
        }
        put("memory.out", half, &[DEPTH, WIDTH]);
        put("memory.out_bias", float, &[DEPTH]);
        // What is added where the object is not there.
        put("memory.absent", float, &[DEPTH]);
        if shape.latents {
            put_latents(&mut put, *shape);
        }
        all
    }

    /// Objects can be prompted, and no engine was built that writes memories. The kernels compute
    /// in fp16, so engines of another precision always have one.
    fn replaces_plan(_: &Manifest, plans: &Plans<'_>) -> bool {
        plans.halves && (plans.has)(Role::Prompt) && !(plans.has)(Role::Memory)
    }

    /// That it is of the contract's sizes, and takes and gives what the memory graph does.
    ///
    /// # Errors
    /// What does not fit.
    fn check_against(&self, manifest: &Manifest) -> Result<()> {
        // It is written into engine folders and packs under this name.
        ensure!(
            self.file == Self::FILE,
            "the memory encoder's weights are said to be in '{}', expected {} beside the manifest",
            self.file,
            Self::FILE
        );
        let Contract { grid, feature_channels, memory_channels, memory_tokens, .. } =
            manifest.contract;
        ensure!(
            self.shape.grid == grid,
            "the memory encoder's map has {} tokens a side, the contract's {grid}",
            self.shape.grid
        );
        let shape = self.shape;
        shape.check()?;
        ensure!(
            [feature_channels, memory_channels] == [WIDTH, DEPTH],
            "features and memories have {feature_channels} and {memory_channels} channels, the \
             memory encoder's kernels take {WIDTH} and {DEPTH}"
        );
        ensure!(
            memory_tokens == shape.memory_tokens(),
            "a memory has {memory_tokens} tokens, the memory encoder's kernels make {} {}",
            shape.memory_tokens(),
            if shape.latents { "latents" } else { "without latents" }
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

fn put_latents(put: &mut impl FnMut(&str, Dtype, &[usize]), shape: MemoryEncoderShape) {
    let (half, float) = (Dtype::F16, Dtype::F32);
    put("latents.flat", float, &[LATENTS, DEPTH]);
    put("latents.map", float, &[LATENTS, DEPTH]);
    // Layer 0's queries of all tokens: constants.
    put("latents.first", half, &[LATENTS, DEPTH]);
    put("latents.positions", half, &[shape.tokens(), DEPTH]);
    for layer in 0..LAYERS {
        let name = |part: &str| format!("latents.layers.{layer}.{part}");
        // Of the memory.
        put_norm(put, &name("norm"), DEPTH);
        put(&name("kv"), half, &[2 * DEPTH, DEPTH]);
        put(&name("out"), half, &[DEPTH, DEPTH]);
        put_mlp(put, &name("ff"));
        put_norm(put, &name("self.norm"), DEPTH);
        put(&name("self.qkv"), half, &[3 * DEPTH, DEPTH]);
        put(&name("self.out"), half, &[DEPTH, DEPTH]);
        put_mlp(put, &name("self_ff"));
    }
    put_norm(put, "latents.layers.1.query.norm", DEPTH);
    put("latents.layers.1.query.weight", half, &[DEPTH, DEPTH]);
    put_norm(put, "latents.last", DEPTH);
    // Those of the windows' latents, one after the other: both layers' products; both layers' norms
    // and the last one's.
    put("latents.windows.halves", half, &[LAYERS * WINDOW_HALVES]);
    put("latents.windows.floats", float, &[(LAYERS * WINDOW_NORMS + 1) * 2 * DEPTH]);
}

fn put_mlp(put: &mut impl FnMut(&str, Dtype, &[usize]), name: &str) {
    put_norm(put, &format!("{name}.norm"), DEPTH);
    put(&format!("{name}.up"), Dtype::F16, &[LATENT_HIDDEN, DEPTH]);
    put(&format!("{name}.down"), Dtype::F16, &[DEPTH, LATENT_HIDDEN]);
}

#[cfg(test)]
mod tests;
