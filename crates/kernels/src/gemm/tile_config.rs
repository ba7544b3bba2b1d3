/*!
Tile configurations of the GEMM kernels for Hopper (`cuda/tiles.cuh`): persistent thread block
clusters, fed by TMA. All GEMM kernels use them: with a bias alone, with GELU, with a LayerNorm, and
with the moments of rows.
*/

use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use super::{bias_gelu, residual_layernorm, residual_moments};
use crate::images::{self, Topic};
use cuda::module::{Arg, Function, Launch, LaunchMode};
use cuda::tensor_map::TensorMap;
use cuda::{Gpu, Stream, View};

/// Rows of an output tile.
const TILE_M: u32 = 128;
/// Terms of one tensor core instruction, and of one stage of the pipeline.
const MMA_K: usize = 16;
const TILE_K: usize = 64;

/// Names of the GEMM kernels for this GPU. Whether the driver takes them and a cluster fits is not
/// asked.
pub(crate) fn kernel_names(gpu: &Gpu) -> Vec<&'static str> {
    if !gpu.runs_hopper_kernels() {
        return Vec::new();
    }
    let added = residual_layernorm::configs().chain(residual_moments::configs());
    let gemms = bias_gelu::configs().chain(added);
    gemms.map(|config| config.name).collect()
}

/// Whether the kernels support this K: multiples of 16 from 64 on.
pub(super) fn supports_k(k: usize) -> bool {
    k.is_multiple_of(MMA_K) && k >= TILE_K
}

/// Whether two views have a byte in common.
pub(super) fn overlap(a: &View, b: &View) -> bool {
    let [from, other] = [a, b].map(|view| view.address() as usize);
    from < other + b.len() && other < from + a.len()
}

/// An instance of a kernel template.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileConfig {
    pub name: &'static str,
    /// Columns of an output tile; it has 128 rows.
    pub tile_n: u32,
    /// Blocks of a cluster along M and N.
    pub cluster_m: u32,
    pub cluster_n: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, bytes.
    pub shared: u32,
}

/// An instance with the constants of its source.
macro_rules! config {
    ($name:literal) => {
        $crate::gemm::tile_config::TileConfig {
            name: $name,
            tile_n: instance!($name, "tile_n"),
            cluster_m: instance!($name, "cluster_m"),
            cluster_n: instance!($name, "cluster_n"),
            threads: threads!($name),
            shared: instance!($name, "shared"),
        }
    };
}
pub(super) use config;

impl TileConfig {
    /// Blocks of a cluster.
    fn blocks(&self) -> u32 {
        self.cluster_m * self.cluster_n
    }

    /// Columns of a cluster.
    pub fn cluster_columns(&self) -> usize {
        (self.tile_n * self.cluster_n) as usize
    }

    /// Rows of a TMA box of A: each block along N copies one, or each of the first two of three.
    fn box_rows(&self) -> u32 {
        if TILE_M.is_multiple_of(self.cluster_n) { TILE_M / self.cluster_n } else { TILE_M / 2 }
    }

    /// Cluster tiles of an output of `m` x `n`.
    pub fn cluster_tiles(&self, m: usize, n: usize) -> usize {
        m.div_ceil((TILE_M * self.cluster_m) as usize) * n.div_ceil(self.cluster_columns())
    }
}

/// A loaded instance.
#[derive(Debug)]
pub(super) struct ClusterKernel {
    pub config: TileConfig,
    function: Function,
    /// Clusters that the GPU runs at once.
    resident: usize,
}

impl ClusterKernel {
    /// Loads these kernels; none on other GPUs than Hopper, or if the driver refuses them. `what`
    /// they compute, for the log.
    pub fn load_if_supported(gpu: &Gpu, configs: &[TileConfig], what: &str) -> Option<Arc<[Self]>> {
        if !gpu.runs_hopper_kernels() || configs.is_empty() {
            return None;
        }
        let loaded = Self::load(gpu, configs);
        if let Err(error) = &loaded {
            log::warn!(
                "the kernels for Hopper that {what} at once cannot be used, slower ones are: {error:#}"
            );
        }
        loaded.ok()
    }

    fn load(gpu: &Gpu, configs: &[TileConfig]) -> Result<Arc<[Self]>> {
        let mut topics: Vec<Topic> =
            configs.iter().filter_map(|config| Topic::with(config.name)).collect();
        // Configurations of a module need not be adjacent.
        topics.sort_unstable_by_key(|topic| *topic as usize);
        topics.dedup();
        let (modules, form) = images::load(gpu, &topics)?;
        log::debug!("kernels about {topics:?} from {form}");
        let load = |config: &TileConfig| {
            let (name, blocks) = (config.name, config.blocks());
            let module = modules.iter().find(|module| Topic::with(name) == Some(module.topic));
            let module = module.with_context(|| format!("no module has the kernel {name}"))?;
            let function = module.function(name)?.with_shared(config.shared)?;
            let resident = function.resident_clusters(config.threads, blocks)? as usize;
            log::debug!("kernel {name}: {resident} clusters at once");
            Ok(Self { config: *config, function, resident })
        };
        let loaded: Vec<Self> = configs.iter().map(load).collect::<Result<_>>()?;
        // Perhaps none of the larger clusters fits.
        let those: Arc<[Self]> = loaded.into_iter().filter(|one| one.resident > 0).collect();
        ensure!(!those.is_empty(), "no cluster of blocks fits");
        Ok(those)
    }

    /// The kernel of that name; `what` the kernels compute, for the error.
    pub fn named<'a>(all: &'a [Self], name: &str, what: &str) -> Result<&'a Self> {
        let found = all.iter().find(|one| one.config.name == name);
        found.with_context(|| format!("there is no kernel {name} that can {what} at once"))
    }

    /// TMA maps of A `[m, k]` and B `[n, k]`: each block of a cluster copies its share.
    ///
    /// # Errors
    /// As [`TensorMap::of_halves`].
    pub fn maps(&self, a: &View, b: &View, [m, n, k]: [usize; 3]) -> Result<[TensorMap; 2]> {
        let TileConfig { tile_n, cluster_m, .. } = self.config;
        let a = TensorMap::of_halves(a, m, k, self.config.box_rows())?;
        Ok([a, TensorMap::of_halves(b, n, k, tile_n / cluster_m)?])
    }

    /// Enqueues whole clusters, no more than run at once.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Safety
    /// As [`Function::launch`]; with PDL, a kernel must precede it.
    pub unsafe fn launch(
        &self,
        [m, n]: [usize; 2],
        args: &[Arg],
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let clusters = self.config.cluster_tiles(m, n).min(self.resident);
        let blocks = u32::try_from(clusters * self.config.blocks() as usize);
        let grid = (blocks.context("too many blocks")?, 1, 1);
        let launch = Launch { grid, threads: self.config.threads };
        // SAFETY: the caller's promise. The thread that copies tiles waits before the first
        // (`load_all_tiles` in the source), and all stores of a block depend on those tiles; other
        // reads of memory that earlier kernels write wait, too.
        Ok(unsafe { self.function.with_mode(mode).launch(launch, args, stream) }?)
    }
}
