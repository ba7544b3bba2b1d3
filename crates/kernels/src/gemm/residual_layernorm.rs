/*!
GEMM, residual add and LayerNorm in one kernel, on Hopper: `residual += a weightᵀ + bias` in f32 and
`out = norm(residual)` in f16. A LayerNorm by itself reads the residual that the GEMM has just
written; here a cluster holds whole rows in registers.
*/

use std::sync::Arc;

use anyhow::{Result, bail, ensure};

use super::tile_config::{ClusterKernel, TileConfig, config, overlap, supports_k};
use crate::constants::{instance, threads};
use crate::kernel::arguments;
use crate::{int, need_exactly};
use cuda::module::LaunchMode;
use cuda::{Gpu, Stream, View};

/// Alignment of TMA and vector loads.
const ALIGNMENT: usize = 16;
/// Bytes of an f16 and of an f32.
const F16: usize = 2;
const F32: usize = 4;
/// Bytes of a prefetch.
const LINE: usize = 128;
/// Their work, in messages.
const WHAT: &str = "multiply, add and normalise";

/// N of an instance, and its configuration.
macro_rules! rows {
    ($name:literal) => {
        (instance!($name, "n") as usize, config!($name))
    };
}

/// N, and the kernel for it: those of the second and third stage of Hiera tiny, small and base+,
/// and of large's first and second. Whole blocks of any first stage have kernels, too. A cluster
/// holds all columns of a row; the last tile of a row may be narrower. A row of a third stage has
/// three blocks: of clusters of four an H200 runs 30 at once, and 32 are needed. Clusters of six
/// blocks read the weights once for two rows of tiles. Clusters of three were never faster, and for
/// large's third stage cuBLASLt's matmul and a LayerNorm were.
const CONFIGS: [(usize, TileConfig); 6] = [
    rows!("gemm_residual_layernorm_144"),
    rows!("gemm_residual_layernorm_192"),
    rows!("gemm_residual_layernorm_224"),
    rows!("gemm_residual_layernorm_288"),
    rows!("gemm_residual_layernorm_384_by_6"),
    rows!("gemm_residual_layernorm_448_by_6"),
];

/// All of them.
pub(super) fn configs() -> impl Iterator<Item = TileConfig> {
    CONFIGS.into_iter().map(|(_, config)| config)
}

/// N of a kernel.
fn n_of(name: &str) -> Option<usize> {
    CONFIGS.iter().find(|(_, config)| config.name == name).map(|(n, _)| *n)
}

/// Operands of such a kernel.
#[derive(Clone, Copy, Debug)]
pub struct GemmLayerNormOperands<'a> {
    /// f16 `[m, k]`: tokens.
    pub a: &'a View,
    /// f16 `[n, k]`.
    pub weight: &'a View,
    /// f32 `[n]`.
    pub bias: &'a View,
    /// f32 `[m, n]`, added to in place.
    pub residual: &'a View,
    /// The norm's weight and bias, f32 `[n]` each.
    pub norm: [&'a View; 2],
    /// f16 `[m, n]`, normalised. May be the memory of `a` if N = K: a row is written after its last
    /// read.
    pub out: &'a View,
    /// Whole lines of 128 bytes to prefetch into the L2 cache: data that the next kernels read for
    /// the first time.
    pub prefetch: Option<&'a View>,
}

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GemmLayerNormKernels {
    /// As [`CONFIGS`].
    each: Arc<[ClusterKernel]>,
}

impl GemmLayerNormKernels {
    /// Loads the kernels whose name and N are `wanted`: the driver takes seconds to compile an
    /// unused one. None on other GPUs than Hopper, or if the driver refuses them; then GEMM and
    /// LayerNorm are two launches.
    pub fn load_if_supported(gpu: &Gpu, wanted: impl Fn(&str, usize) -> bool) -> Option<Self> {
        let configs = CONFIGS.into_iter().filter(|(n, config)| wanted(config.name, *n));
        let configs: Vec<TileConfig> = configs.map(|(_, config)| config).collect();
        let each = ClusterKernel::load_if_supported(gpu, &configs, WHAT)?;
        Some(Self { each })
    }

    /// Whether one of them supports this N and K: N of a kernel, K a multiple of 16 from 64 on.
    pub fn supports(n: usize, k: usize) -> bool {
        CONFIGS.iter().any(|(_, config)| supports(config.name, n, k))
    }

    /// Names of the kernels that support this N and K, in a fixed order.
    pub fn names(&self, n: usize, k: usize) -> impl Iterator<Item = &'static str> {
        let names = self.each.iter().map(|one| one.config.name);
        names.filter(move |name| supports(name, n, k))
    }

    /// Enqueues `residual += a weightᵀ + bias` and `out = norm(residual)`, with epsilon 10⁻⁶, by
    /// the kernel of that name; `sizes` are M, N and K. With PDL, a kernel must precede it. No
    /// allocation; may be recorded.
    ///
    /// # Errors
    /// No such kernel for this N and K ([`names`](Self::names)), views of another size or
    /// unaligned, an `out` that overlaps `a`, or an error of the driver.
    pub fn enqueue(
        &self,
        name: &str,
        sizes: [usize; 3],
        operands: &GemmLayerNormOperands,
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let [m, n, k] = sizes;
        let kernel = ClusterKernel::named(&self.each, name, WHAT)?;
        ensure!(
            m > 0 && supports(name, n, k),
            "the kernel {name} takes N = {}, and K in multiples of 16 from 64 on; found M x N x K \
             = {m} x {n} x {k}",
            n_of(name).unwrap_or_default()
        );
        let GemmLayerNormOperands {
            a,
            weight,
            bias,
            residual,
            norm: [norm_weight, norm_bias],
            out,
            prefetch,
        } = *operands;
        need_exactly(a, F16 * m * k, ALIGNMENT, "'a'")?;
        need_exactly(weight, F16 * n * k, ALIGNMENT, "'weight'")?;
        need_exactly(bias, F32 * n, ALIGNMENT, "'bias'")?;
        need_exactly(residual, F32 * m * n, ALIGNMENT, "'residual'")?;
        need_exactly(norm_weight, F32 * n, ALIGNMENT, "the norm's weight")?;
        need_exactly(norm_bias, F32 * n, ALIGNMENT, "the norm's bias")?;
        need_exactly(out, F16 * m * n, ALIGNMENT, "'out'")?;
        let lines = prefetch.map_or(0, View::len) / LINE;
        if let Some(prefetch) = prefetch {
            need_exactly(prefetch, lines * LINE, LINE, "'prefetch'")?;
        }
        if overlap(a, out) && !(a.address() == out.address() && n == k) {
            bail!(
                "'out' overlaps 'a': both may be the same memory if N = K (found N = {n}, K = \
                 {k}), or must be disjoint"
            );
        }
        let [a, b] = kernel.maps(a, weight, sizes)?;
        let args = arguments!(
            ["gemm_residual_layernorm_*"];
            Map(&a),
            Map(&b),
            View(bias),
            View(residual),
            View(norm_weight),
            View(norm_bias),
            View(out),
            I32(int(m, "M")?),
            I32(int(k, "K")?),
            Optional(prefetch),
            I32(int(lines, "the number of lines")?),
        );
        // SAFETY: the arguments are the kernel's own. The maps describe `a` and `weight` as they
        // were measured above, and nothing outside of them is read; the kernel has N columns,
        // stores only M rows of `residual` and `out`, and reads `lines` lines.
        unsafe { kernel.launch([m, n], &args, mode, stream) }
    }
}

/// Whether the kernel of that name supports this N and K.
fn supports(name: &str, n: usize, k: usize) -> bool {
    n_of(name) == Some(n) && supports_k(k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::Topic;

    #[test]
    fn blocks_have_the_memory_of_their_rows() {
        for (n, config) in CONFIGS {
            let TileConfig { name, tile_n, shared, .. } = config;
            assert!(shared <= 232_448, "{name}");
            assert!(
                n <= config.cluster_columns() && n + tile_n as usize > config.cluster_columns(),
                "{name}"
            );
        }
        let bytes = CONFIGS.map(|(_, config)| config.shared);
        let (first, others) = bytes.split_at(4);
        assert_eq!(first, [216_864, 204_016, 220_592, 218_912]);
        assert_eq!(others, [206_432, 198_608]);
    }

    /// The module of every N has no other kernels than those of the list.
    #[test]
    fn all_kernels_of_the_sources_are_listed() {
        let of_modules = Topic::ALL.iter().flat_map(|topic| topic.entries());
        let named = |name: &&str| name.starts_with("gemm_residual_layernorm_");
        let mut found: Vec<&str> = of_modules.map(|entry| entry.name).filter(named).collect();
        let mut listed = CONFIGS.map(|(_, config)| config.name);
        found.sort_unstable();
        listed.sort_unstable();
        assert_eq!(found, listed);
    }

    #[test]
    fn the_stages_without_kernels_of_whole_blocks_are_served_and_clusters_cover_their_rows() {
        let names = |n, k| {
            let names = CONFIGS.iter().map(|(_, config)| config.name);
            names.filter(|name| supports(name, n, k)).collect::<Vec<_>>()
        };
        for (width, first, third) in [(96, 0, 1), (112, 0, 1), (144, 1, 0)] {
            for (stage, kernels) in [(1, first), (2, 1), (4, third), (8, 0)] {
                let n = stage * width;
                for k in [n, 4 * n] {
                    let found = names(n, k);
                    assert_eq!(found.len(), kernels, "{n} x {k}: {found:?}");
                }
            }
        }
        let refused = [(144, 48), (144, 72), (145, 144), (0, 64), (432, 432), (480, 448)];
        assert!(!refused.iter().any(|(n, k)| GemmLayerNormKernels::supports(*n, *k)));
        let tiles = |name: &str, m| {
            let (n, config) = CONFIGS.iter().find(|(_, config)| config.name == name).unwrap();
            config.cluster_tiles(m, *n)
        };
        assert_eq!(
            [1, 128, 129, 257].map(|m| tiles("gemm_residual_layernorm_288", m)),
            [1, 1, 2, 3]
        );
        assert_eq!([1, 256, 257].map(|m| tiles("gemm_residual_layernorm_448_by_6", m)), [1, 1, 2]);
        assert_eq!(tiles("gemm_residual_layernorm_144", 65_536), 256);
    }
}
