/*!
The kernels of `cuda/`: what a frame needs on the device besides the engines.

```text
frame (u8) ─ Preprocess ─→ image ─ encoder … track ─→ low ─ MaskMaker ─→ mask words ─→ host
                                     ↑ tidx, ptr_t, bias      └─ MaskCounts, against a ground truth
                                  BankState ←─ ptr
                  MemoryKeyProj: keys of the memory bank for each layer's cross-attention
                  Attention: between the engines of a segmented track step
                  MemoryAttention: norms, projections and MLPs around them, in place of those engines
                  MaskDecoder: after the last of those engines, features and tokens to masks and pointer
                  MemoryEncoder: in place of the memory engine, features and mask logits to a memory
                  TrunkExecutor: Hiera's blocks, between the engines of stem and neck
                  RepVitExecutor: RepViT's blocks, in the same place
                  HieraEncoder, RepVitEncoder: all of either, in place of these engines too
```

Each value is constructed once for the sizes of a clip. It uploads its tables and fixes all launch
arguments. So launches do not allocate, and a CUDA graph can replay them for every frame.
`Preprocess`, `MaskMaker`, `MaskCounts` and `BankState` equal the CPU code bit for bit. The others
are compared with float64 references within a tolerance (`cuda/README.md`). `segtrt selftest
--kernels` compares all of them on the GPU at hand.
*/
// The program's messages escape control characters; the standard library's macros do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![allow(unsafe_code)]

mod attention;
mod bank;
mod constants;
mod dependent;
mod device_weights;
mod gemm;
mod hiera;
mod image_encoder;
mod images;
mod kernel;
mod mask;
mod mask_decoder;
mod memory_attention;
mod memory_encoder;
mod memory_key_proj;
mod mlp;
mod neck;
mod preprocess;
mod repvit;
pub mod selftest;
mod stage_maps;
mod tables;
mod trunk;
mod window_attention;

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};

pub use attention::{
    Attended, Attention, AttentionKernels, AttentionShape, AttentionUse, HEAD, Parts, Values,
    WIDEST_HEAD,
};
pub use bank::BankState;
pub use gemm::{GemmKernels, GemmLayerNormKernels, GemmLayerNormOperands};
pub use hiera::{
    HieraEncoder, HieraKernels, StandaloneTrunk, TrunkExecutor, TrunkSource, autotune,
    autotuned_kernels, gemm_shapes,
};
pub use image_encoder::ImageEncoder;
pub use images::{Kept, Topic as Source, names};
pub use kernel::Chain;
pub use mask::{COUNTERS_BYTES, MaskCounts, MaskMaker, NON_FINITE_BYTES};
pub use mask_decoder::{MaskDecoder, MaskDecoderOutputs};
pub use memory_attention::{MemoryAttention, MemoryAttentionPiece};
pub use memory_encoder::MemoryEncoder;
pub use memory_key_proj::MemoryKeyProj;
pub use preprocess::{Frame, Preprocess};
pub use repvit::{RepVitEncoder, RepVitExecutor, RepVitSource};
pub use trunk::Trunk;
pub use window_attention::{WindowAttention, WindowShape};

pub use vos::preprocess::Filter;

use cuda::module::Function;
use cuda::{Element, Gpu, View};
use images::{KernelModule, Topic};

/// A tensor that a kernel writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its name in the graph that the kernel replaces.
    pub name: String,
    /// Type of its elements.
    pub element: Element,
    /// Its extents.
    pub shape: Vec<i64>,
}

/// The modules that every pipeline needs: preprocessing, mask and bank. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Kernels {
    modules: Arc<[KernelModule]>,
    form: Arc<str>,
}

impl Kernels {
    /// Loads them: cubins of this compute capability where the build has them (`SEGTRT_NVCC`), else
    /// the PTX that is part of every build.
    ///
    /// # Errors
    /// The driver refuses the PTX: it is older than CUDA 11.8, or the GPU is older than sm 75.
    pub fn load(gpu: &Gpu) -> Result<Self> {
        let (modules, form) = images::load(gpu, &images::USUAL)?;
        log::debug!("kernels from {form}");
        Ok(Self { modules: modules.into(), form: form.into() })
    }

    /// What they were loaded from: "cubins for sm 87", or "PTX 7.8 for sm_75 and newer".
    pub fn form(&self) -> &str {
        &self.form
    }

    fn function(&self, topic: Topic, name: &str) -> Result<Function> {
        let module = self.modules.iter().find(|module| module.topic == topic);
        module.with_context(|| format!("the module {topic:?} is not loaded"))?.function(name)
    }
}

/// `value` as a kernel's `int` argument.
fn int(value: usize, what: &str) -> Result<i32> {
    i32::try_from(value)
        .ok()
        .with_context(|| format!("{what} is {value}, above the kernels' limit of i32"))
}

/// Blocks of `size` that cover `length`.
fn blocks(length: usize, size: usize) -> Result<u32> {
    u32::try_from(length.div_ceil(size)).context("more blocks than a launch has")
}

/// `view` holds `bytes` bytes from a multiple of `alignment` on; `what` is its name in the error.
fn need(view: &View, bytes: usize, alignment: usize, what: &str) -> Result<()> {
    ensure!(view.len() >= bytes, "{what} is a view of {} bytes, {bytes} are expected", view.len());
    if !(view.address() as usize).is_multiple_of(alignment) {
        bail!("{what} starts at {:p}, no multiple of {alignment} bytes", view.address());
    }
    Ok(())
}

/// As [`need`], with exactly this length: a tensor of another type or size has another length.
fn need_exactly(view: &View, bytes: usize, alignment: usize, what: &str) -> Result<()> {
    ensure!(view.len() == bytes, "{what} is a view of {} bytes, {bytes} are expected", view.len());
    need(view, bytes, alignment, what)
}
