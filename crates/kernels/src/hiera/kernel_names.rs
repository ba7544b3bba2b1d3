//! The kernels that autotuning tries.

use super::fused::{SHAPES, TRANSITIONS};
use super::kernels::LAYERNORM_PDL;
use crate::gemm;
use cuda::Gpu;

/// Names of the kernels that autotuning tries on this GPU: GEMMs, the LayerNorm with PDL, whole
/// blocks and attention halves. A build writes them into the manifest. So the next build of a
/// program with other kernels autotunes again.
pub fn autotuned_kernels(gpu: &Gpu) -> Vec<&'static str> {
    let layernorm = gpu.runs_hopper_kernels().then_some(LAYERNORM_PDL);
    let blocks = SHAPES.iter().chain(&TRANSITIONS).map(|shape| shape.kernel);
    gemm::kernel_names(gpu).into_iter().chain(layernorm).chain(blocks).collect()
}
