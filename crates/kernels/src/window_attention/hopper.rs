/*!
The kernels of window attention for Hopper (`cuda/window_attention_hopper.cu`): the shapes that they
serve, and their launches.
*/

use anyhow::{Context, Result, ensure};

use super::{COLUMNS, DivisionArgs, F16, MAX_WINDOW, UNIT, WindowAttention, WindowShape};
use crate::constants::{constant, instance};
use crate::images::KernelModule;
use crate::{blocks, int};
use cuda::module::{Function, Launch};

/// Queries of a warpgroup.
const QUERIES: usize = 64;
/// Threads of a warpgroup.
const WARPGROUP: usize = 128;
/// Columns of a chunk of shared memory, and the bytes of its rows.
const CHUNK: usize = 64;
const ROW: usize = CHUNK * F16;
/// Bytes of the barriers.
const BARRIERS: usize = instance!("window_attention_96_hopper", "barriers") as usize * 8;
/// The limit of the grid's last dimension.
const MOST_WINDOWS: usize = 65_535;

/// An instance of the kernel template.
#[derive(Clone, Copy, Debug)]
struct TileConfig {
    name: &'static str,
    /// Padded columns of a head.
    columns: usize,
    /// Keys of a step, and of the last step.
    keys: usize,
    last: usize,
    /// Warpgroups of a block, at the most.
    groups: usize,
}

/// An instance with the constants of the source.
macro_rules! config {
    ($name:literal) => {
        TileConfig {
            name: $name,
            columns: instance!($name, "head") as usize,
            keys: instance!($name, "keys") as usize,
            last: instance!($name, "last") as usize,
            groups: instance!($name, "groups") as usize,
        }
    };
}

/// As [`COLUMNS`].
const CONFIGS: [TileConfig; 3] = [
    config!("window_attention_56_hopper"),
    config!("window_attention_72_hopper"),
    config!("window_attention_96_hopper"),
];
const _: () = {
    assert!(CONFIGS[0].columns == COLUMNS[0]);
    assert!(CONFIGS[1].columns == COLUMNS[1]);
    assert!(CONFIGS[2].columns == COLUMNS[2]);
};

/// Whether these kernels serve a valid shape: windows of more than 64 keys, queries not pooled.
pub(super) fn serves(shape: &WindowShape) -> bool {
    !shape.pooled && shape.keys() > QUERIES && shape.side().pow(2) <= MOST_WINDOWS
}

impl TileConfig {
    /// The index of a shape's kernel.
    fn at(shape: &WindowShape) -> Option<usize> {
        CONFIGS.iter().position(|config| shape.depth <= config.columns)
    }

    /// Warpgroups of a block, and blocks of a window: one block if it holds all queries.
    fn division(&self, keys: usize) -> (usize, usize) {
        let tiles = keys.div_ceil(QUERIES);
        let groups = tiles.min(self.groups);
        (groups, tiles.div_ceil(groups))
    }

    /// Shared memory of a block, bytes: chunks of keys and values (a third chunk for the columns of
    /// both beyond 64), chunks of queries, barriers.
    fn shared(&self, keys: usize) -> usize {
        let rows = keys.saturating_sub(self.last).div_ceil(self.keys) * self.keys + self.last;
        let rest = self.columns.next_multiple_of(2 * UNIT).saturating_sub(CHUNK) / UNIT;
        let (groups, _) = self.division(keys);
        // Units of the queries beyond 64 columns lie side by side, eight in a row.
        let queries = groups + (groups * rest).div_ceil(UNIT);
        let chunks = if rest > 0 { 3 } else { 2 };
        (chunks * rows + queries * QUERIES) * ROW + BARRIERS
    }
}

/// The kernels, as [`CONFIGS`].
#[derive(Clone, Debug)]
pub(super) struct HopperKernels([Function; 3]);

impl HopperKernels {
    /// # Errors
    /// Those of the driver.
    pub fn load(module: &KernelModule) -> Result<Self> {
        let load = |config: &TileConfig| -> Result<Function> {
            let keys = MAX_WINDOW * MAX_WINDOW;
            let most = u32::try_from(config.shared(keys)).context("shared memory of a window")?;
            let function = module.function(config.name)?.with_shared(most)?;
            let threads = WARPGROUP * config.division(keys).0;
            let resident = function.resident_blocks(u32::try_from(threads).context("threads")?)?;
            ensure!(
                resident > 0,
                "the GPU cannot run the kernel {}: a block of {threads} threads with {most} bytes \
                 of shared memory does not fit",
                config.name
            );
            Ok(function)
        };
        let [a, b, c] = &CONFIGS;
        Ok(Self([load(a)?, load(b)?, load(c)?]))
    }

    /// For a shape that they serve.
    pub fn of(&self, shape: WindowShape) -> Result<WindowAttention> {
        let at = TileConfig::at(&shape).context("heads that are too wide")?;
        let config = &CONFIGS[at];
        let (groups, parts) = config.division(shape.keys());
        let shared = u32::try_from(config.shared(shape.keys())).context("shared memory")?;
        let launch = Launch {
            grid: (blocks(shape.heads, 1)?, blocks(parts, 1)?, blocks(shape.side().pow(2), 1)?),
            threads: u32::try_from(WARPGROUP * groups).context("threads")?,
        };
        let beyond = shape.grid % shape.window;
        let division = DivisionArgs::Hopper([
            int(reciprocal(shape.window), "the reciprocal of a window's side")?,
            int(reciprocal(beyond.max(1)), "the reciprocal of the last window's width")?,
        ]);
        WindowAttention::new(shape, self.0[at].taking(shared), launch, division)
    }
}

/// The kernel's reciprocal of a divisor: `reciprocal_of` in the source.
fn reciprocal(side: usize) -> usize {
    constant!(WindowAttentionHopper, "RECIPROCAL_ONE") as usize / side + 1
}

#[cfg(test)]
mod tests {
    use super::super::tests::listed_shared;
    use super::*;

    const LARGE: WindowShape =
        WindowShape { grid: 64, window: 16, heads: 8, depth: 72, pooled: false };
    const BASE: WindowShape = WindowShape { window: 14, depth: 56, ..LARGE };
    const TINY: WindowShape = WindowShape { window: 14, heads: 4, depth: 96, ..LARGE };

    /// Shared memory of a multiprocessor of Hopper, and the part reserved for each block.
    const SHARED: usize = 228 << 10;
    const RESERVED: usize = 1 << 10;

    #[test]
    fn large_windows_are_served_and_all_their_queries_have_a_warpgroup() {
        for window in 1..=MAX_WINDOW {
            for depth in (8..=96).step_by(8) {
                let shape = WindowShape { window, depth, ..LARGE };
                assert_eq!(serves(&shape), window > 8, "{shape:?}");
                assert!(!serves(&WindowShape { pooled: true, ..shape }));
                let config = CONFIGS[TileConfig::at(&shape).unwrap()];
                assert!(depth <= config.columns);
                if serves(&shape) {
                    let (groups, parts) = config.division(shape.keys());
                    assert!(groups <= config.groups && groups * parts * QUERIES >= shape.keys());
                    assert!(config.shared(shape.keys()) <= SHARED - RESERVED);
                    // One step at the least comes before the last one, and no more than the
                    // barriers are for.
                    let steps = (shape.keys() - config.last).div_ceil(config.keys);
                    assert!((1..BARRIERS / 8).contains(&steps), "{shape:?}");
                }
            }
        }
        assert!(!serves(&WindowShape { grid: 9 * 256, window: 9, ..LARGE }));
    }

    #[test]
    fn the_models_blocks_fill_a_multiprocessor() {
        let of = |shape: WindowShape| {
            let config = CONFIGS[TileConfig::at(&shape).unwrap()];
            let (groups, parts) = config.division(shape.keys());
            let shared = config.shared(shape.keys());
            // 128 registers a thread: four warpgroups.
            (groups, parts, shared, (SHARED / (shared + RESERVED)).min(4 / groups))
        };
        assert_eq!(of(LARGE), (4, 1, 3 * 256 * 128 + 5 * 8192 + 64, 1));
        assert_eq!(of(BASE), (2, 2, 2 * 208 * 128 + 2 * 8192 + 64, 2));
        assert_eq!(of(TINY), (2, 2, 3 * 208 * 128 + 3 * 8192 + 64, 2));
        for shape in [LARGE, BASE, TINY] {
            let config = CONFIGS[TileConfig::at(&shape).unwrap()];
            assert_eq!(listed_shared(config.name), config.shared(shape.keys()), "{}", config.name);
        }
    }

    #[test]
    fn reciprocals_divide_exactly_and_blocks_share_a_multiprocessor() {
        for side in 1..=MAX_WINDOW {
            for place in 0..300 {
                assert_eq!((place * reciprocal(side)) >> 16, place / side);
            }
        }
        // Four warpgroups of 128 registers a thread.
        let blocks = [
            instance!("window_attention_56_hopper", "blocks"),
            instance!("window_attention_72_hopper", "blocks"),
            instance!("window_attention_96_hopper", "blocks"),
        ];
        for (config, blocks) in CONFIGS.iter().zip(blocks) {
            assert_eq!(blocks as usize, 4 / config.groups, "{}", config.name);
        }
    }
}
