/*!
An MLP of tokens of 256 columns in one launch, on Hopper (`cuda/mlp_hopper.cu`): `residual + down
act(up x + up_bias) + down_bias`, and behind it, where asked for, a LayerNorm or the projection to the
columns of a memory. x may be tokens without their LayerNorm. Its hidden columns are never in memory.

On other GPUs, and where its clusters do not run all at once, memory attention and memory encoder
have kernels of their own.
*/

use anyhow::{Result, ensure};

use crate::constants::constant;
use crate::device_weights::Affine;
use crate::images::Topic;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use crate::{int, need_exactly};
use cuda::tensor_map::TensorMap;
use cuda::{Gpu, View};

/// Tokens of a cluster.
const TOKENS: u32 = constant!(MlpHopper, "MLP_TOKENS");
/// Blocks of a cluster.
const CLUSTER: u32 = constant!(MlpHopper, "MLP_CLUSTER");
const SHARED: u32 = constant!(MlpHopper, "mlp_hopper_shared");
/// Columns of a token, and of a memory.
const WIDTH: usize = constant!(MlpHopper, "MLP_WIDTH") as usize;
const MEMORY: usize = constant!(MlpHopper, "MLP_MEMORY") as usize;
/// Hidden columns of a chunk, and rows of a box of weights.
const PART: u32 = constant!(MlpHopper, "PART");
/// Alignment of TMA and vector loads.
const ALIGNMENT: usize = 16;
/// Bytes of an f16 and of an f32.
const F16: usize = 2;
const F32: usize = 4;
/// Tokens from which on it is used: of fewer, two clusters at the most would have all the work.
const LEAST_TOKENS: usize = 2 * TOKENS as usize;
/// Hidden columns of a cluster's chunk, and the least that the kernel takes: the residual comes to
/// the place of the last chunk but one.
const CHUNK: usize = (CLUSTER * PART) as usize;
const LEAST_HIDDEN: usize = 2 * CHUNK;

/// The activation of the hidden columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    /// The memory attention's.
    Relu,
    /// The memory encoder's.
    Gelu,
}

/// What an MLP reads and writes; weights f16, biases f32.
pub(crate) struct MlpOperands<'a> {
    pub tokens: usize,
    /// Hidden columns: a multiple of 256, 512 at the least.
    pub hidden: usize,
    pub activation: Activation,
    /// f16 `[tokens, 256]`.
    pub x: &'a View,
    /// `[hidden, 256]`.
    pub up: &'a Affine,
    /// `[256, hidden]`.
    pub down: &'a Affine,
    /// f16 `[tokens, 256]`.
    pub residual: &'a View,
    /// f16 `[tokens, 256]`, which may be the residual's memory; of a memory `[tokens, 64]`, which
    /// may not.
    pub out: &'a View,
    pub norms: MlpNorms<'a>,
    pub memory: Option<MlpMemory<'a>>,
}

/// The LayerNorms around an MLP that its kernel computes; none are the default.
#[derive(Clone, Copy, Default)]
pub(crate) struct MlpNorms<'a> {
    /// f32 `[hidden]`, where x needs its norm: the sums of the rows of `up`. The norm's weights and
    /// bias are in `up` then, and the activation is [`Activation::Relu`].
    pub up_sums: Option<&'a View>,
    /// f32 `[256]` both: the norm of the result, if not of a memory.
    pub of_result: Option<&'a Affine>,
}

/// The projection behind an MLP.
pub(crate) struct MlpMemory<'a> {
    /// `[64, 256]`.
    pub product: &'a Affine,
    /// f32 `[1]`: at most 0 where the object is not there.
    pub score: &'a View,
    /// f32 `[64]`, which is added then.
    pub absent: &'a View,
}

/// The loaded kernel.
#[derive(Debug)]
pub(crate) struct HopperMlp(Kernel);

impl HopperMlp {
    /// Loads the kernel for so many tokens. None for few tokens, on other GPUs than Hopper, if the
    /// driver refuses it, or if not all clusters run at once: the last ones would take as long
    /// again.
    pub fn load_if_useful(gpu: &Gpu, tokens: usize) -> Option<Self> {
        if tokens < LEAST_TOKENS { None } else { Self::load_if_supported(gpu, tokens) }
    }

    /// The same for any number of tokens.
    pub fn load_if_supported(gpu: &Gpu, tokens: usize) -> Option<Self> {
        if !gpu.runs_hopper_kernels() {
            return None;
        }
        match Self::load(gpu) {
            Ok((kernel, resident)) => {
                let needed = tokens.div_ceil(TOKENS as usize);
                log::debug!("kernel mlp_hopper: {resident} clusters at once, {needed} are needed");
                (resident >= needed).then_some(Self(kernel))
            }
            Err(error) => {
                log::warn!("the MLP for Hopper cannot be used, slower ones are: {error:#}");
                None
            }
        }
    }

    fn load(gpu: &Gpu) -> Result<(Kernel, usize)> {
        let modules = Modules::load(gpu, &[Topic::MlpHopper], "the MLP")?;
        let kernel = modules.kernel("mlp_hopper", SHARED)?;
        let resident = kernel.resident_clusters(CLUSTER)?;
        Ok((kernel, resident))
    }

    /// Enqueues it as the next launch of a chain. No allocation; may be recorded.
    ///
    /// # Errors
    /// Hidden columns that the kernel does not take, views of another size or unaligned, or an
    /// error of the driver.
    pub fn enqueue(&self, operands: &MlpOperands<'_>, chain: &Chain<'_>) -> Result<()> {
        let MlpOperands {
            tokens,
            hidden,
            activation,
            x,
            up,
            down,
            residual,
            out,
            norms,
            ref memory,
        } = *operands;
        ensure!(
            hidden.is_multiple_of(CHUNK) && hidden >= LEAST_HIDDEN,
            "an MLP of {hidden} hidden columns; its kernel takes multiples of {CHUNK} from \
             {LEAST_HIDDEN} on"
        );
        ensure!(
            norms.up_sums.is_none() || activation == Activation::Relu,
            "an MLP of tokens without their norm has ReLU"
        );
        ensure!(norms.of_result.is_none() || memory.is_none(), "a memory has no norm");
        let columns = if memory.is_some() { MEMORY } else { WIDTH };
        if let Some(sums) = norms.up_sums {
            need_exactly(sums, F32 * hidden, ALIGNMENT, "the sums of the rows of U")?;
        }
        if let Some(Affine { weight, bias }) = norms.of_result {
            need_exactly(weight, F32 * WIDTH, ALIGNMENT, "the norm's weights")?;
            need_exactly(bias, F32 * WIDTH, ALIGNMENT, "the norm's bias")?;
        }
        need_exactly(&up.bias, F32 * hidden, ALIGNMENT, "the bias of the hidden columns")?;
        need_exactly(&down.bias, F32 * WIDTH, ALIGNMENT, "the bias")?;
        need_exactly(out, F16 * tokens * columns, ALIGNMENT, "'out'")?;
        if let Some(MlpMemory { product, score, absent }) = memory {
            need_exactly(&product.bias, F32 * MEMORY, ALIGNMENT, "a memory's bias")?;
            need_exactly(score, F32, F32, "'score'")?;
            need_exactly(absent, F32 * MEMORY, ALIGNMENT, "what a memory has of no object")?;
        }
        let memory = memory.as_ref();
        let [x, residual] =
            [x, residual].map(|view| TensorMap::of_halves(view, tokens, WIDTH, TOKENS));
        let (x, residual) = (x?, residual?);
        let up_map = TensorMap::of_halves(&up.weight, hidden, WIDTH, PART)?;
        let down_map = TensorMap::of_halves(&down.weight, WIDTH, hidden, PART)?;
        let projection = memory.map_or(Ok(up_map), |memory| {
            TensorMap::of_halves(&memory.product.weight, MEMORY, WIDTH, PART)
        })?;
        let chunks = hidden / CHUNK;
        let args = arguments!(
            ["mlp_hopper"];
            Map(&x),
            Map(&up_map),
            Map(&down_map),
            Map(&projection),
            Map(&residual),
            View(&up.bias),
            Optional(norms.up_sums),
            View(&down.bias),
            Optional(norms.of_result.map(|norm| &norm.weight)),
            Optional(norms.of_result.map(|norm| &norm.bias)),
            Optional(memory.map(|memory| &memory.product.bias)),
            Optional(memory.map(|memory| memory.score)),
            Optional(memory.map(|memory| memory.absent)),
            View(out),
            I32(int(tokens, "the number of tokens")?),
            I32(int(chunks, "the number of chunks")?),
            I32(i32::from(activation == Activation::Gelu)),
        );
        let clusters = crate::blocks(tokens, TOKENS as usize)?;
        // SAFETY: the arguments are the kernel's own. The maps describe views that they were made
        // to fit, and nothing outside of them is read. The kernel reads as many biases as were
        // measured above, of as many chunks as it needs, and stores only rows of `tokens`. `out`
        // may be the residual's memory: each block reads the elements that it writes before, and
        // no others. It may be x's: a cluster has read its tokens before one of its blocks stores.
        unsafe { self.0.launch((CLUSTER * clusters, 1, 1), &args, chain) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_hidden_columns_are_whole_chunks_of_a_cluster() {
        use vos::bundle::{memory_attention, memory_encoder};
        for hidden in [memory_attention::HIDDEN, memory_encoder::HIDDEN] {
            assert!(hidden.is_multiple_of(CHUNK) && hidden >= LEAST_HIDDEN);
        }
        assert_eq!((WIDTH, WIDTH), (memory_attention::WIDTH, memory_encoder::WIDTH));
        assert_eq!(MEMORY, memory_encoder::DEPTH);
        // Clusters of four that an H200 runs at once are 30.
        let clusters = [4096, 2304, 1024].map(|tokens: u32| tokens.div_ceil(TOKENS));
        assert_eq!(clusters, [29, 16, 8]);
        assert_eq!((TOKENS, CHUNK, SHARED), (144, 256, 226_728));
    }
}
