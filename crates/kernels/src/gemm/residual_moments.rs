/*!
GEMM and residual add on Hopper, with what the following LayerNorm needs: `residual += a weightᵀ +
bias` in f32, `out = residual` in f16, and the moments of each row's columns in each tile. No block
waits for another one's numbers; the next GEMM combines and applies them
([`GemmKernels::enqueue_normed`](super::GemmKernels::enqueue_normed)).
*/

use std::sync::Arc;

use anyhow::{Result, ensure};

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
/// Bytes of a row's moments in a tile: its mean, and the sum of squared differences from that.
const MOMENTS: usize = 2 * F32;
/// Bytes of a prefetch.
const LINE: usize = 128;
/// Their work, in messages.
const WHAT: &str = "multiply, add and measure rows";

/// By tile columns: an even part of the rows of Hiera tiny and small, base+, and large. 4096 rows of
/// a third stage make 128 tiles.
const CONFIGS: [TileConfig; 3] = [
    config!("gemm_residual_moments_96"),
    config!("gemm_residual_moments_112"),
    config!("gemm_residual_moments_144"),
];

/// All of them.
pub(super) fn configs() -> impl Iterator<Item = TileConfig> {
    CONFIGS.into_iter()
}

/// Operands of such a kernel.
#[derive(Clone, Copy, Debug)]
pub struct GemmMomentsOperands<'a> {
    /// f16 `[m, k]`: tokens.
    pub a: &'a View,
    /// f16 `[n, k]`.
    pub weight: &'a View,
    /// f32 `[n]`.
    pub bias: &'a View,
    /// f32 `[m, n]`, added to in place.
    pub residual: &'a View,
    /// f16 `[m, n]`: the residual, not normalised. No byte of it is one of `a`.
    pub out: &'a View,
    /// f32 `[parts, m, 2]`: of each row's columns in a tile their mean, and the sum of squared
    /// differences from it ([`GemmMomentsKernels::parts`]).
    pub moments: &'a View,
    /// Whole lines of 128 bytes to prefetch into the L2 cache: data that the next kernels read for
    /// the first time.
    pub prefetch: Option<&'a View>,
}

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GemmMomentsKernels {
    /// As [`CONFIGS`].
    each: Arc<[ClusterKernel]>,
}

impl GemmMomentsKernels {
    /// Loads the kernels whose name and tile columns are `wanted`: the driver takes seconds to
    /// compile an unused one. None on other GPUs than Hopper, or if the driver refuses them.
    pub fn load_if_supported(gpu: &Gpu, wanted: impl Fn(&str, usize) -> bool) -> Option<Self> {
        let configs = configs().filter(|config| wanted(config.name, config.tile_n as usize));
        let configs: Vec<TileConfig> = configs.collect();
        let each = ClusterKernel::load_if_supported(gpu, &configs, WHAT)?;
        Some(Self { each })
    }

    /// Whether one of them supports this N and K: N in whole clusters of tiles, K a multiple of 16
    /// from 64 on.
    pub fn supports(n: usize, k: usize) -> bool {
        CONFIGS.iter().any(|config| supports(config, n, k))
    }

    /// Names of the loaded kernels that support this N and K, in a fixed order.
    pub fn names(&self, n: usize, k: usize) -> impl Iterator<Item = &'static str> {
        let configs = self.each.iter().map(|one| one.config);
        configs.filter(move |config| supports(config, n, k)).map(|config| config.name)
    }

    /// Parts of a row of N columns that the kernel of that name measures: its tiles. 0 if there is
    /// no such kernel, or N is no multiple of its columns.
    pub fn parts(name: &str, n: usize) -> usize {
        let config = CONFIGS.iter().find(|config| config.name == name);
        let columns = config.map(|config| config.tile_n as usize);
        columns.filter(|columns| n.is_multiple_of(*columns)).map_or(0, |columns| n / columns)
    }

    /// Bytes of the moments of M rows of so many parts.
    pub fn moments_bytes(parts: usize, m: usize) -> usize {
        MOMENTS * parts * m
    }

    /// Enqueues `residual += a weightᵀ + bias`, `out = residual` and the rows' moments by the
    /// kernel of that name; `sizes` are M, N and K. With PDL, a kernel must precede it. No
    /// allocation; may be recorded.
    ///
    /// # Errors
    /// No such kernel for this N and K ([`names`](Self::names)), views of another size or
    /// unaligned, an `out` that overlaps `a`, or an error of the driver.
    pub fn enqueue(
        &self,
        name: &str,
        sizes: [usize; 3],
        operands: &GemmMomentsOperands,
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let [m, n, k] = sizes;
        let kernel = ClusterKernel::named(&self.each, name, WHAT)?;
        ensure!(
            m > 0 && supports(&kernel.config, n, k),
            "the kernel {name} takes N in multiples of {}, and K in multiples of 16 from 64 on; \
             found M x N x K = {m} x {n} x {k}",
            kernel.config.cluster_columns()
        );
        let GemmMomentsOperands { a, weight, bias, residual, out, moments, prefetch } = *operands;
        need_exactly(a, F16 * m * k, ALIGNMENT, "'a'")?;
        need_exactly(weight, F16 * n * k, ALIGNMENT, "'weight'")?;
        need_exactly(bias, F32 * n, ALIGNMENT, "'bias'")?;
        need_exactly(residual, F32 * m * n, ALIGNMENT, "'residual'")?;
        need_exactly(out, F16 * m * n, ALIGNMENT, "'out'")?;
        let bytes = Self::moments_bytes(Self::parts(name, n), m);
        need_exactly(moments, bytes, ALIGNMENT, "'moments'")?;
        let lines = prefetch.map_or(0, View::len) / LINE;
        if let Some(prefetch) = prefetch {
            need_exactly(prefetch, lines * LINE, LINE, "'prefetch'")?;
        }
        ensure!(!overlap(a, out), "'out' overlaps 'a', which other blocks still read");
        let [a, b] = kernel.maps(a, weight, sizes)?;
        let args = arguments!(
            ["gemm_residual_moments_*"];
            Map(&a),
            Map(&b),
            View(bias),
            View(residual),
            View(out),
            View(moments),
            I32(int(m, "M")?),
            I32(int(n, "N")?),
            I32(int(k, "K")?),
            Optional(prefetch),
            I32(int(lines, "the number of lines")?),
        );
        // SAFETY: the arguments are the kernel's own. The maps describe `a` and `weight` as they
        // were measured above, and nothing outside of them is read; the kernel stores only M rows
        // of `residual`, `out` and each part of `moments`, in whole tiles of N columns, and reads N
        // biases and `lines` lines.
        unsafe { kernel.launch([m, n], &args, mode, stream) }
    }
}

/// Whether a kernel supports this N and K.
fn supports(config: &TileConfig, n: usize, k: usize) -> bool {
    n > 0 && n.is_multiple_of(config.cluster_columns()) && supports_k(k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_memory_of_their_stages_and_rows() {
        let bytes = CONFIGS.map(|config| config.shared);
        assert_eq!(bytes, [227_440, 215_136, 213_072]);
        assert!(bytes.iter().all(|bytes| *bytes <= 232_448));
    }

    #[test]
    fn rows_of_all_models_are_served_by_one_kernel_each_and_fill_whole_clusters() {
        for (width, name) in [
            (96, "gemm_residual_moments_96"),
            (112, "gemm_residual_moments_112"),
            (144, "gemm_residual_moments_144"),
        ] {
            for stage in [2, 4, 8] {
                let n = stage * width;
                for k in [n, 4 * n] {
                    let served = CONFIGS.iter().filter(|config| supports(config, n, k));
                    let names: Vec<&str> = served.map(|config| config.name).collect();
                    assert!(names.contains(&name), "{n} x {k}: {names:?}");
                }
                assert_eq!(GemmMomentsKernels::parts(name, n), stage);
            }
        }
        assert_eq!(GemmMomentsKernels::parts("gemm_residual_moments_96", 224), 0);
        assert_eq!(GemmMomentsKernels::parts("gemm_residual_moments_64", 192), 0);
        let refused = [(0, 64), (192, 48), (192, 72), (96, 96), (200, 64)];
        assert!(!refused.iter().any(|(n, k)| GemmMomentsKernels::supports(*n, *k)));
        let tiles = |name, m, n| {
            let config = CONFIGS.into_iter().find(|config| config.name == name).unwrap();
            config.cluster_tiles(m, n)
        };
        assert_eq!(tiles("gemm_residual_moments_96", 4096, 384), 64);
        assert_eq!(tiles("gemm_residual_moments_112", 4096, 448), 64);
        assert_eq!(tiles("gemm_residual_moments_144", 4096, 576), 64);
        assert_eq!(tiles("gemm_residual_moments_144", 129, 144), 1);
    }
}
