/*!
f16 GEMMs on Hopper with f32 accumulators: `out = a weightᵀ + bias`, and with the GELU of an MLP's
hidden layer in the epilogue, `out = gelu(a weightᵀ + bias)`. The fused kernel does not read the
output again, and overlaps the epilogue of one tile with the matmul of the next.

A `[m, k]`, weight `[n, k]`, bias `[n]` and out `[m, n]` are f16.
*/

use std::sync::Arc;

use anyhow::{Result, ensure};

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
/// Bytes of an f16.
const F16: usize = 2;
/// Their work, in messages.
const WHAT: &str = "multiply, and activate";

/// Tiles of 192 columns read less; tiles of 128 waste less of the last one for a small or odd N.
/// With GELU two or three warpgroups take the tiles in turn. None is the fastest for all shapes.
const CONFIGS: [TileConfig; 5] = [
    config!("gemm_bias_gelu_128_two_groups"),
    config!("gemm_bias_gelu_128_three_groups"),
    config!("gemm_bias_gelu_192_two_groups"),
    config!("gemm_bias_128_by_2"),
    config!("gemm_bias_192_by_2"),
];
/// Names of the kernels with GELU begin so.
const GELU: &str = "gemm_bias_gelu_";
/// In its last tile one warpgroup stores in the stages. Both have read them before, if that tile
/// refilled all five of them: with K beyond four stages.
const HALVING: &str = "gemm_bias_gelu_192_two_groups";
const LEAST_HALVED_K: usize = 4 * 64 + 16;

/// All of them.
pub(super) fn configs() -> impl Iterator<Item = TileConfig> {
    CONFIGS.into_iter()
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

    /// Names of the kernels with GELU, or without, that take this K, in a fixed order.
    pub fn names(&self, gelu: bool, k: usize) -> impl Iterator<Item = &'static str> {
        let names = self.each.iter().map(|one| one.config.name);
        names.filter(move |name| name.starts_with(GELU) == gelu && takes(name, k))
    }

    /// Enqueues the GEMM by the kernel of that name; `sizes` are M, N and K. With PDL, a kernel
    /// must precede it. No allocation; may be recorded.
    ///
    /// # Errors
    /// No such kernel, sizes that they do not [`support`](Self::supports) or a K that this one does
    /// not take, views of another size or unaligned, or an error of the driver.
    pub fn enqueue(
        &self,
        name: &str,
        sizes: [usize; 3],
        [a, weight, bias, out]: [&View; 4],
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let [m, n, k] = sizes;
        let kernel = ClusterKernel::named(&self.each, name, WHAT)?;
        ensure!(
            m > 0 && Self::supports(n, k),
            "the kernel {name} takes N in multiples of 64, and K in multiples of 16 from 64 on; \
             found M x N x K = {m} x {n} x {k}"
        );
        ensure!(
            takes(name, k),
            "the kernel {name} takes a K of {LEAST_HALVED_K} or more; found {k}: use another kernel"
        );
        need_exactly(a, F16 * m * k, ALIGNMENT, "'a'")?;
        need_exactly(weight, F16 * n * k, ALIGNMENT, "'weight'")?;
        need_exactly(bias, F16 * n, ALIGNMENT, "'bias'")?;
        need_exactly(out, F16 * m * n, ALIGNMENT, "'out'")?;
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
}

/// Whether a kernel takes this K, which they support.
fn takes(name: &str, k: usize) -> bool {
    name != HALVING || k >= LEAST_HALVED_K
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
            // The barrier of the half tile that one warpgroup gives the other.
            let given = if name == HALVING { 8 } else { 0 };
            assert_eq!(shared, of(tile_n) + third + given, "{name}");
            assert!(shared <= 232_448, "{name}");
        }
        assert_eq!(CONFIGS.iter().filter(|config| config.name.starts_with(GELU)).count(), 3);
    }

    #[test]
    fn tiles_of_clusters_cover_the_output_and_the_models_shapes_are_served() {
        let tiles = |m, n| {
            let [two, three, wide_gelu, narrow, wide] =
                CONFIGS.map(|config| config.cluster_tiles(m, n));
            assert_eq!([narrow, narrow, wide], [two, three, wide_gelu], "GELU changes no tile");
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
        assert_eq!([256, 272].map(|k| takes(HALVING, k)), [false, true]);
        assert!(CONFIGS.iter().all(|config| takes(config.name, 64) == (config.name != HALVING)));
    }
}
