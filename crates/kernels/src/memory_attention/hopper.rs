/*!
The norm and the projections on Hopper (`cuda/memory_attention_project_hopper.cu`), in place of
`memory_attention_project`: the same results of the same operands, with weights in their own order.
A query's kernel joins the parts of its attention too.
*/

use anyhow::{Context, Result};

use super::WIDTH;
use crate::attention::Parts;
use crate::constants::constant;
use crate::images::Topic;
use crate::int;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use cuda::tensor_map::TensorMap;
use cuda::{Gpu, View};

/// Tokens of a block.
const TOKENS: usize = constant!(MemoryAttentionProjectHopper, "PROJECT_TOKENS") as usize;
/// Blocks of a cluster.
const CLUSTER: u32 = constant!(MemoryAttentionProjectHopper, "PROJECT_CLUSTER");
/// Columns of a unit beside their partners, and rows of a box of weights.
const SPAN: u32 = constant!(MemoryAttentionProjectHopper, "SPAN");
const UNITS_OF_SECTION: usize =
    constant!(MemoryAttentionProjectHopper, "UNITS_OF_SECTION") as usize;
/// Units of a block, at most.
const MOST_UNITS: usize = constant!(MemoryAttentionProjectHopper, "MOST_UNITS") as usize;
/// Bytes of shared memory: of all units, and of each.
const SHARED: u32 =
    constant!(MemoryAttentionProjectHopper, "memory_attention_project_hopper_shared");
const UNIT: u32 = constant!(MemoryAttentionProjectHopper, "UNIT");
/// Bytes of shared memory where parts are joined.
const QUERY_SHARED: u32 =
    constant!(MemoryAttentionProjectHopper, "memory_attention_query_hopper_shared");
/// Tokens from which on a query joins the parts of its self-attention: those of 768 pixels. At 512
/// pixels, 1024 tokens, a kernel of its own is faster, probably as it has more blocks. At 768 pixels
/// only one H100 was measured: a layer takes 0.6 to 0.9 % less time (docs/results/kernels.md).
const LEAST_JOINED: usize = 48 * 48;

pub(super) const MODULE: Topic = Topic::MemoryAttentionProjectHopper;

/// What a launch reads and writes, as `memory_attention_project` does.
pub(super) struct ProjectOperands<'a> {
    /// Side of the map.
    pub grid: usize,
    pub sections: usize,
    pub source: i32,
    pub x: &'a View,
    pub added: Option<&'a View>,
    pub sum: Option<&'a View>,
    pub norm_weight: &'a View,
    pub norm_bias: &'a View,
    /// f16 `[256 sections, 256]`, row by row.
    pub rows: Option<&'a View>,
    pub bias: &'a View,
    pub turns: &'a View,
    pub out: &'a View,
}

/// The loaded kernels.
#[derive(Debug)]
pub(super) struct HopperProjection {
    kernel: Kernel,
    /// A query's, which joins parts.
    query: Kernel,
    multiprocessors: usize,
}

/// Whether the query of a frame of so many tokens joins the parts of its self-attention.
pub(super) fn joins_frame(tokens: usize) -> bool {
    tokens >= LEAST_JOINED
}

impl HopperProjection {
    /// Loads the kernels. None on other GPUs than Hopper, or if the driver refuses one.
    pub fn load_if_supported(gpu: &Gpu) -> Option<Self> {
        if !gpu.runs_hopper_kernels() {
            return None;
        }
        let loaded = Self::load(gpu);
        let refused = |error| {
            log::warn!("the projection for Hopper cannot be used, a slower one is: {error:#}");
        };
        loaded.map_err(refused).ok()
    }

    fn load(gpu: &Gpu) -> Result<Self> {
        let modules = Modules::load(gpu, &[MODULE], "the memory attention's projection")?;
        let kernel = modules.kernel("memory_attention_project_hopper", SHARED)?;
        let query = modules.kernel("memory_attention_query_hopper", QUERY_SHARED)?;
        for kernel in [&kernel, &query] {
            let resident = kernel.resident_clusters(CLUSTER)?;
            anyhow::ensure!(resident > 0, "the GPU holds no cluster of {CLUSTER} blocks");
        }
        Ok(Self { kernel, query, multiprocessors: gpu.multiprocessors()? as usize })
    }

    /// Enqueues it as the next launch of a chain.
    ///
    /// # Errors
    /// Weights of another size or not loaded, or an error of the driver.
    ///
    /// # Safety
    /// The views but `rows` have the elements of this map and these sections.
    pub unsafe fn enqueue(&self, operands: &ProjectOperands<'_>, chain: &Chain<'_>) -> Result<()> {
        let &ProjectOperands { grid, sections, source, x, added, sum, out, .. } = operands;
        let rows = operands.rows.context("the projection's rows are not on the device")?;
        let map = TensorMap::of_halves(rows, sections * WIDTH, WIDTH, SPAN)?;
        let args = arguments!(
            ["memory_attention_project_hopper"];
            Map(&map),
            View(x),
            Optional(added),
            Optional(sum),
            View(operands.norm_weight),
            View(operands.norm_bias),
            View(operands.bias),
            View(operands.turns),
            View(out),
            I32(int(grid, "the side of the map")?),
            I32(int(sections, "the number of sections")?),
            I32(source),
        );
        let blocks = crate::blocks(grid * grid, TOKENS)?.next_multiple_of(CLUSTER);
        let units = sections * UNITS_OF_SECTION;
        let parts = parts(blocks as usize, units, self.multiprocessors);
        let unused = UNIT * u32::try_from(MOST_UNITS - units / parts)?;
        let kernel = self.kernel.taking(SHARED - unused);
        // SAFETY: the arguments are the kernel's own, and the views the caller's. The map describes
        // a view that it was made to fit.
        unsafe { kernel.launch((blocks, u32::try_from(parts)?, 1), &args, chain) }
    }

    /// The same of a query, one section, with what is added in parts. It gives the bits of the two
    /// kernels that join the parts and project: `operands.added` and `source` are not used.
    ///
    /// # Errors
    /// As [`Self::enqueue`].
    ///
    /// # Safety
    /// As there, with parts of as many tokens.
    pub unsafe fn enqueue_query(
        &self,
        operands: &ProjectOperands<'_>,
        parts: &Parts,
        chain: &Chain<'_>,
    ) -> Result<()> {
        let &ProjectOperands { grid, sections, x, sum, out, .. } = operands;
        anyhow::ensure!(sections == 1, "a query with {sections} sections");
        let rows = operands.rows.context("the projection's rows are not on the device")?;
        let map = TensorMap::of_halves(rows, WIDTH, WIDTH, SPAN)?;
        let args = arguments!(
            ["memory_attention_query_hopper"];
            Map(&map),
            View(x),
            View(&parts.results),
            View(&parts.stats),
            Optional(sum),
            View(operands.norm_weight),
            View(operands.norm_bias),
            View(operands.bias),
            View(operands.turns),
            View(out),
            I32(int(grid, "the side of the map")?),
            I32(int(parts.count, "the number of parts")?),
        );
        let clusters = crate::blocks(grid * grid, TOKENS)?;
        // SAFETY: as above. The parts are those of the caller's attention.
        unsafe { self.query.launch((CLUSTER * clusters, 1, 1), &args, chain) }
    }
}

/// Among how many blocks the units are shared: as many as multiprocessors are there for, each with
/// equally many units, and no more than a block takes.
fn parts(blocks: usize, units: usize, multiprocessors: usize) -> usize {
    let possible = |parts: &usize| units.is_multiple_of(*parts) && units / parts <= MOST_UNITS;
    let mut all = (1..=units).filter(possible);
    let least = all.next().unwrap_or(units);
    all.rfind(|parts| blocks * parts <= multiprocessors).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_joins_parts_from_768_pixels_on() {
        // Images of 512, 768 and 1024 pixels.
        assert_eq!([32, 48, 64].map(|grid| joins_frame(grid * grid)), [false, true, true]);
    }

    #[test]
    fn a_block_has_few_units_where_multiprocessors_would_idle() {
        // Queries, keys and values; queries alone: of an H200 at 1024, 768 and 512 pixels.
        let of = |blocks: usize| [6, 2].map(|units| parts(blocks, units, 132));
        assert_eq!([64, 36, 16].map(of), [[2, 2], [3, 2], [6, 2]]);
        // More tokens than multiprocessors are there for.
        assert_eq!(of(144), [2, 1]);
        assert_eq!((TOKENS, CLUSTER, SHARED, UNIT), (64, 2, 231_424, 65_536));
        assert_eq!((QUERY_SHARED, UNITS_OF_SECTION), (100_352, CLUSTER as usize));
    }
}
