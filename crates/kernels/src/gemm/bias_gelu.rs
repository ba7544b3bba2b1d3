/*!
f16 GEMMs on Hopper with f32 accumulators: `out = a weightᵀ + bias`, and with the GELU of an MLP's
hidden layer in the epilogue, `out = gelu(a weightᵀ + bias)`. The fused kernel does not read the
output again, and overlaps the epilogue of one tile with the matmul of the next.

A `[m, k]`, weight `[n, k]`, bias `[n]` and out `[m, n]` are f16.

The same of `LayerNorm(a)`, where the kernel before has measured the rows ([`FoldedNorm`]): the
norm's weight and bias are folded into `weight` and an f32 bias, and mean and deviation of each row
are applied to the sums.
*/

use std::sync::Arc;

use anyhow::{Result, ensure};

use super::GemmMomentsKernels;
use super::tile_config::{ClusterKernel, TileConfig, config, supports_k};
use crate::constants::{instance, threads};
use crate::kernel::arguments;
use crate::{int, need_exactly};
use cuda::module::LaunchMode;
use cuda::{Gpu, Stream, View};

/// Columns of one store: N is a multiple.
const STORE_N: usize = 64;
/// Alignment of TMA and vector loads.
const ALIGNMENT: usize = 16;
/// Bytes of an f16 and of an f32.
const F16: usize = 2;
const F32: usize = 4;
/// Their work, in messages.
const WHAT: &str = "multiply, and activate";

/// Tiles of 192 columns read less; tiles of 128 waste less of the last one for a small or odd N.
/// With GELU two or three warpgroups take the tiles in turn. None is the fastest for all shapes.
const CONFIGS: [TileConfig; 8] = [
    config!("gemm_bias_gelu_128_two_groups"),
    config!("gemm_bias_gelu_128_three_groups"),
    config!("gemm_bias_128_by_2"),
    config!("gemm_bias_192_by_2"),
    config!("gemm_normed_gelu_128_two_groups"),
    config!("gemm_normed_gelu_128_three_groups"),
    config!("gemm_normed_128_by_2"),
    config!("gemm_normed_192_by_2"),
];
/// Names of the kernels with GELU begin so, of tokens and of normalised tokens; other names of the
/// latter begin with the last.
const GELU: [&str; 2] = ["gemm_bias_gelu_", "gemm_normed_gelu_"];
const NORMED: &str = "gemm_normed_";

/// All of them.
pub(super) fn configs() -> impl Iterator<Item = TileConfig> {
    CONFIGS.into_iter()
}

/// A LayerNorm of the tokens x of a matmul, with weight g, bias h and epsilon 10⁻⁶. It is folded:
/// the matmul's weight is `W' = f16(W g)`, and x is not normalised.
#[derive(Clone, Copy, Debug)]
pub struct FoldedNorm<'a> {
    /// f32 `[parts, m, 2]`, as [`GemmMomentsKernels`] measure: mean and sum of squared differences
    /// from it, of equal parts of each row of x in their order.
    pub moments: &'a View,
    /// Parts of a row.
    pub parts: usize,
    /// f32 `[n]`: the sum of each row of W', as it is rounded.
    pub column_sums: &'a View,
    /// f32 `[n]`: the matmul's bias, and `W h`.
    pub bias: &'a View,
}

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GemmKernels {
    /// As [`CONFIGS`].
    each: Arc<[ClusterKernel]>,
}

impl GemmKernels {
    /// Loads the kernels whose names are `wanted`: the driver takes seconds to compile an unused
    /// one. None on other GPUs than Hopper, or if the driver refuses them; then cuBLASLt computes
    /// the GEMMs, and GELU is a kernel by itself.
    pub fn load_if_supported(gpu: &Gpu, wanted: impl Fn(&str) -> bool) -> Option<Self> {
        let configs: Vec<TileConfig> = configs().filter(|config| wanted(config.name)).collect();
        let each = ClusterKernel::load_if_supported(gpu, &configs, WHAT)?;
        Some(Self { each })
    }

    /// Whether they support this N and K: N a multiple of 64, K a multiple of 16 from 64 on.
    pub fn supports(n: usize, k: usize) -> bool {
        n > 0 && n.is_multiple_of(STORE_N) && supports_k(k)
    }

    /// Names of the kernels with GELU, or without, in a fixed order: of tokens as they come.
    pub fn names(&self, gelu: bool) -> impl Iterator<Item = &'static str> {
        self.all_names(gelu).filter(|name| !is_normed(name))
    }

    /// The same of LayerNorm(tokens).
    pub fn normed_names(&self, gelu: bool) -> impl Iterator<Item = &'static str> {
        self.all_names(gelu).filter(|name| is_normed(name))
    }

    fn all_names(&self, gelu: bool) -> impl Iterator<Item = &'static str> {
        let names = self.each.iter().map(|one| one.config.name);
        names.filter(move |name| has_gelu(name) == gelu)
    }

    /// Enqueues the GEMM by the kernel of that name; `sizes` are M, N and K. With PDL, a kernel
    /// must precede it. No allocation; may be recorded.
    ///
    /// # Errors
    /// No such kernel, sizes that they do not [`support`](Self::supports), views of another size or
    /// unaligned, or an error of the driver.
    pub fn enqueue(
        &self,
        name: &str,
        sizes: [usize; 3],
        [a, weight, bias, out]: [&View; 4],
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let [m, n, k] = sizes;
        let kernel = self.checked(name, false, sizes, [a, weight, out])?;
        need_exactly(bias, F16 * n, ALIGNMENT, "'bias'")?;
        let [a, b] = kernel.maps(a, weight, sizes)?;
        let args = arguments!(
            ["gemm_bias_*"];
            Map(&a),
            Map(&b),
            View(bias),
            View(out),
            I32(int(m, "M")?),
            I32(int(n, "N")?),
            I32(int(k, "K")?),
        );
        // SAFETY: the arguments are the kernel's own. The maps describe `a` and `weight` as they
        // were measured above, and nothing outside of them is read; the kernel stores only M rows
        // of N columns of `out`, and reads N biases.
        unsafe { kernel.launch([m, n], &args, mode, stream) }
    }

    /// Enqueues the GEMM of `LayerNorm(a)` by the kernel of that name, one of
    /// [`normed_names`](Self::normed_names); `sizes` are M, N and K, and `weight` is the folded
    /// one. With PDL, a kernel must precede it. No allocation; may be recorded.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue), or K in no such parts.
    pub fn enqueue_normed(
        &self,
        name: &str,
        sizes: [usize; 3],
        [a, weight, out]: [&View; 3],
        norm: &FoldedNorm,
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let [m, n, k] = sizes;
        let kernel = self.checked(name, true, sizes, [a, weight, out])?;
        let FoldedNorm { moments, parts, column_sums, bias } = *norm;
        ensure!(
            parts > 0 && k.is_multiple_of(parts),
            "rows of {k} columns have no {parts} equal parts"
        );
        let bytes = GemmMomentsKernels::moments_bytes(parts, m);
        need_exactly(moments, bytes, ALIGNMENT, "'moments'")?;
        need_exactly(column_sums, F32 * n, ALIGNMENT, "'column_sums'")?;
        need_exactly(bias, F32 * n, ALIGNMENT, "'bias'")?;
        let [a, b] = kernel.maps(a, weight, sizes)?;
        let args = arguments!(
            ["gemm_normed_*"];
            Map(&a),
            Map(&b),
            View(moments),
            View(column_sums),
            View(bias),
            View(out),
            I32(int(m, "M")?),
            I32(int(n, "N")?),
            I32(int(k, "K")?),
            I32(int(parts, "the number of parts")?),
        );
        // SAFETY: the arguments are the kernel's own. The maps describe `a` and `weight` as they
        // were measured, and nothing outside of them is read; the kernel stores only M rows of N
        // columns of `out`, and reads the moments of M rows, N sums and N biases.
        unsafe { kernel.launch([m, n], &args, mode, stream) }
    }

    /// The kernel of that name, whose operands are as large as it takes them.
    fn checked(
        &self,
        name: &str,
        normed: bool,
        [m, n, k]: [usize; 3],
        [a, weight, out]: [&View; 3],
    ) -> Result<&ClusterKernel> {
        let kernel = ClusterKernel::named(&self.each, name, WHAT)?;
        ensure!(
            is_normed(name) == normed,
            "the kernel {name} {} the tokens",
            if normed { "does not normalise" } else { "normalises" }
        );
        ensure!(
            m > 0 && Self::supports(n, k),
            "the kernel {name} takes N in multiples of 64, and K in multiples of 16 from 64 on; \
             found M x N x K = {m} x {n} x {k}"
        );
        need_exactly(a, F16 * m * k, ALIGNMENT, "'a'")?;
        need_exactly(weight, F16 * n * k, ALIGNMENT, "'weight'")?;
        need_exactly(out, F16 * m * n, ALIGNMENT, "'out'")?;
        Ok(kernel)
    }
}

fn has_gelu(name: &str) -> bool {
    GELU.iter().any(|start| name.starts_with(start))
}

/// Whether the kernel of that name is one of normalised tokens.
fn is_normed(name: &str) -> bool {
    name.starts_with(NORMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_memory_of_their_stages() {
        // Six or five stages with two barriers each, and 16 rows of 128 bytes for each of eight
        // warps.
        let of = |tile_n| if tile_n == 128 { 213_088 } else { 221_264 };
        for TileConfig { name, tile_n, threads, shared, .. } in CONFIGS {
            // A third warpgroup has as many rows for its four warps.
            let third = if threads == 512 { 4 * 16 * 128 } else { 0 };
            // What 128 rows of each warpgroup are multiplied by.
            let groups = threads / 128 - 1;
            let scales = if is_normed(name) && has_gelu(name) { groups * 128 * 4 } else { 0 };
            assert_eq!(shared, of(tile_n) + third + scales, "{name}");
            assert!(shared <= 232_448, "{name}");
        }
        let count = |kind: fn(&str) -> bool| CONFIGS.iter().filter(|one| kind(one.name)).count();
        assert_eq!([count(has_gelu), count(is_normed)], [4, 4]);
        assert_eq!(count(|name| has_gelu(name) && is_normed(name)), 2);
    }

    #[test]
    fn tiles_of_clusters_cover_the_output_and_the_models_shapes_are_served() {
        let tiles = |m, n| {
            let all = CONFIGS.map(|config| config.cluster_tiles(m, n));
            let [two, three, narrow, wide, ..] = all;
            assert_eq!([narrow; 2], [two, three], "warpgroups change no tile");
            assert_eq!(all[..4], all[4..], "norms change no tile");
            [narrow, wide]
        };
        assert_eq!(tiles(4096, 2304), [16 * 18, 16 * 12]);
        assert_eq!(tiles(33, 64), [1; 2]);
        assert_eq!(tiles(4097, 448), [17 * 4, 17 * 3]);
        for width in [96, 112, 144] {
            for k in [1, 2, 4, 8].map(|stage| stage * width) {
                assert!(GemmKernels::supports(4 * k, k), "{k}");
            }
        }
        let refused = [(32, 8), (96, 96), (64, 72), (64, 48), (0, 64)];
        assert!(!refused.iter().any(|(n, k)| GemmKernels::supports(*n, *k)));
    }
}
