/*!
The product of a hidden layer with its activation in one kernel, on Hopper: `out = gelu(a weightᵀ + bias)`, halves, sums in f32. What is
stored need not be read again to be activated, and the activation of one tile runs beside the product of the next.
*/

use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use super::images::{self, Topic};
use super::{int, need_exactly};
use crate::gpu::module::{Arg, Function, Launch};
use crate::gpu::tensor_map::TensorMap;
use crate::gpu::{Gpu, Stream, View};

/// Compute capability that the kernels are for.
const HOPPER: u32 = 90;
/// As in the source: threads of a block, rows of an output tile, and the memory of eight warps that store 16 rows of 128 bytes.
const THREADS: u32 = 384;
const ROWS: u32 = 128;
const STAGING: u32 = 8 * 16 * 128;
/// Bytes of a row of 64 halves, the chunks in which the depth is walked.
const ROW_BYTES: u32 = 128;
/// Columns that are stored at once; the terms of one step of the tensor cores, and of a chunk, of which the kernels want one whole.
const COLUMNS: usize = 64;
const STEP: usize = 16;
const CHUNK: usize = 64;
/// What copies and vector loads need.
const ALIGNMENT: usize = 16;
/// Bytes of a half.
const HALF: usize = 2;

/// One instance of the source's `Product`.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    /// Columns of an output tile.
    columns: u32,
    /// Chunks of tokens and weights that a block holds.
    slots: u32,
    /// Tiles of a cluster, one below the other and side by side.
    down: u32,
    across: u32,
}

/// Tiles of 192 columns read less; those of 128 leave less of the last one empty where columns are few or odd. Clusters of four blocks read less than
/// those of two; fewer of them may fit, as a cluster's blocks lie in one group of multiprocessors. None is the fastest everywhere.
const KINDS: [Kind; 4] = [
    Kind { name: "product_gelu_128_by_2", columns: 128, slots: 6, down: 2, across: 1 },
    Kind { name: "product_gelu_192_by_2", columns: 192, slots: 5, down: 2, across: 1 },
    Kind { name: "product_gelu_128_by_4", columns: 128, slots: 6, down: 2, across: 2 },
    Kind { name: "product_gelu_192_by_4", columns: 192, slots: 5, down: 2, across: 2 },
];

impl Kind {
    /// Blocks of a cluster.
    fn blocks(&self) -> u32 {
        self.down * self.across
    }

    /// Shared memory of a block, bytes: `Product::SHARED` in the source.
    fn shared(&self) -> u32 {
        let slot = (ROWS + self.columns) * ROW_BYTES;
        self.slots * slot + STAGING + 2 * 8 * self.slots
    }

    /// Clusters' worth of tiles.
    fn tiles(&self, rows: usize, columns: usize) -> usize {
        let down = rows.div_ceil((ROWS * self.down) as usize);
        down * columns.div_ceil((self.columns * self.across) as usize)
    }
}

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ActivatedKernels {
    /// As [`KINDS`], each with the clusters of it that run at once.
    each: Arc<[(Kind, Function, usize)]>,
}

impl ActivatedKernels {
    /// Loads the kernels where there may be any: none on another GPU than Hopper, nor where the driver takes none; then the product and the
    /// activation are launched one after the other.
    pub fn where_possible(gpu: &Gpu) -> Option<Self> {
        if gpu.facts().sm != HOPPER {
            return None;
        }
        let loaded = Self::load(gpu);
        if let Err(error) = &loaded {
            log::warn!(
                "the kernels for Hopper that multiply and activate at once cannot be used, slower ones are: {error:#}"
            );
        }
        loaded.ok()
    }

    /// Loads the kernels, for sm 90 alone.
    ///
    /// # Errors
    /// Another GPU, or a driver before CUDA 12.2.
    pub fn load(gpu: &Gpu) -> Result<Self> {
        let (modules, form) = images::load(gpu, &[Topic::ProductsHopper])?;
        log::debug!("the kernels that multiply and activate at once from {form}");
        let (_, module) = modules.first().context("no kernels were loaded")?;
        let each = KINDS.map(|kind| {
            let function = module.function(kind.name)?.with_shared(kind.shared())?;
            let clusters = function.resident_clusters(THREADS, kind.blocks())? as usize;
            ensure!(
                clusters > 0,
                "the GPU cannot run the kernel {}: no cluster of {} blocks fits",
                kind.name,
                kind.blocks()
            );
            log::debug!("kernel {}: {clusters} clusters at once", kind.name);
            Ok((kind, function, clusters))
        });
        Ok(Self { each: each.into_iter().collect::<Result<_>>()? })
    }

    /// Whether they compute products of this many columns and terms: columns in 64s, terms in 16s from 64 on.
    pub fn serve(columns: usize, depth: usize) -> bool {
        columns > 0
            && columns.is_multiple_of(COLUMNS)
            && depth.is_multiple_of(STEP)
            && depth >= CHUNK
    }

    /// Their names, in an order that stays.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|kind| kind.name)
    }

    /// Enqueues `out = gelu(a weightᵀ + bias)` by the kernel of that name: `a` `[rows, depth]`, `weight` `[columns, depth]`, `bias` `[columns]` and
    /// `out` `[rows, columns]` in halves; `sizes` are rows, columns and depth. No allocation; may be recorded.
    ///
    /// # Errors
    /// No such kernel, sizes that they do not [`serve`](Self::serve), views of another size or at odd addresses, or what the driver says.
    pub fn enqueue(
        &self,
        name: &str,
        sizes: [usize; 3],
        [a, weight, bias, out]: [&View; 4],
        stream: &Stream,
    ) -> Result<()> {
        let [rows, columns, depth] = sizes;
        let found = self.each.iter().find(|(kind, ..)| kind.name == name);
        let (kind, function, clusters) = found.with_context(|| {
            format!("there is no kernel {name} that multiplies and activates at once")
        })?;
        ensure!(
            rows > 0 && Self::serve(columns, depth),
            "the kernel {name} takes columns in 64s and terms in 16s from 64 on, found {rows} x {columns} x {depth} (rows x columns x depth)"
        );
        need_exactly(a, HALF * rows * depth, ALIGNMENT, "'a'")?;
        need_exactly(weight, HALF * columns * depth, ALIGNMENT, "'weight'")?;
        need_exactly(bias, HALF * columns, ALIGNMENT, "'bias'")?;
        need_exactly(out, HALF * rows * columns, ALIGNMENT, "'out'")?;
        let tokens = TensorMap::of_halves(a, rows, depth, ROWS / kind.across)?;
        let weights = TensorMap::of_halves(weight, columns, depth, kind.columns / kind.down)?;
        let args = [
            Arg::Map(&tokens),
            Arg::Map(&weights),
            Arg::View(bias),
            Arg::View(out),
            Arg::I32(int(rows, "the number of rows")?),
            Arg::I32(int(columns, "the number of columns")?),
            Arg::I32(int(depth, "the number of terms")?),
        ];
        // Whole clusters, which stay until all tiles are done.
        let blocks = kind.tiles(rows, columns).min(*clusters) * kind.blocks() as usize;
        let launch = Launch {
            grid: (u32::try_from(blocks).context("too many blocks")?, 1, 1),
            threads: THREADS,
        };
        // SAFETY: the arguments are the kernel's own. The maps describe `a` and `weight` as they were measured above, and what lies outside
        // of them is not read; the kernel stores rows and columns of `out` alone, and reads `columns` biases.
        Ok(unsafe { function.launch(launch, &args, stream) }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_memory_that_the_source_counts() {
        let source = include_str!("../../../cuda/products_hopper.cu");
        for kind in KINDS {
            let Kind { name, columns, slots, down, across } = kind;
            let instance = format!("PRODUCT_GELU({name}, {columns}, {slots}, {down}, {across})");
            assert!(source.contains(&instance), "{instance}");
            assert!(kind.shared() <= 232_448, "{name}");
        }
        assert_eq!(KINDS.map(|kind| kind.shared()), [213_088, 221_264, 213_088, 221_264]);
    }

    #[test]
    fn tiles_of_clusters_cover_the_output_and_the_models_shapes_are_served() {
        assert_eq!(KINDS.map(|kind| kind.tiles(4096, 2304)), [16 * 18, 16 * 12, 16 * 9, 16 * 6]);
        assert_eq!(KINDS.map(|kind| kind.tiles(33, 64)), [1; 4]);
        assert_eq!(KINDS.map(|kind| kind.tiles(4097, 448)), [17 * 4, 17 * 3, 17 * 2, 17 * 2]);
        for width in [96, 112, 144] {
            for depth in [1, 2, 4, 8].map(|stage| stage * width) {
                assert!(ActivatedKernels::serve(4 * depth, depth), "{depth}");
            }
        }
        let refused = [(32, 8), (96, 96), (64, 72), (64, 48), (0, 64)];
        assert!(!refused.iter().any(|(columns, depth)| ActivatedKernels::serve(*columns, *depth)));
    }
}
