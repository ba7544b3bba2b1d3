//! The division of a shape into blocks.

use super::*;
use crate::constants::{instance, threads};

const TINY: WindowShape = WindowShape { grid: 64, window: 14, heads: 4, depth: 96, pooled: false };
const BASE: WindowShape = WindowShape { heads: 8, depth: 56, ..TINY };
const LARGE: WindowShape = WindowShape { window: 16, heads: 8, depth: 72, ..TINY };

/// Tile, warps, windows of a block, blocks of a window.
fn plain(division: Division) -> (Tile, usize, usize, usize) {
    (division.tile, division.warps, division.together, division.parts)
}

#[test]
fn every_query_has_a_warp_and_every_pair_its_memory() {
    for window in 1..=MAX_WINDOW {
        for pooled in [false, true].into_iter().filter(|pooled| !pooled || window % 2 == 0) {
            for columns in COLUMNS {
                let shape = WindowShape { window, pooled, depth: columns, ..TINY };
                shape.check().unwrap();
                let pair = pair_shared(shape.keys(), columns);
                for division in Division::of(&shape, pair) {
                    // 512 threads are what bounds the registers of narrow tiles; 256 of some wide
                    // ones.
                    assert!((1..=8).contains(&division.warps), "{shape:?} {division:?}");
                    assert!(division.warps <= SHARED_WARPS || division.tile == Tile::Wide);
                    // Several windows share a block only where each has one warp and that costs no
                    // permission.
                    let shared = division.together == division.warps
                        && division.parts == 1
                        && shape.queries() <= division.tile.queries()
                        && division.together * pair <= SHARED_BYTES;
                    assert!(division.together == 1 || shared, "{shape:?} {division:?}");
                    let blocks = division.blocks(&shape);
                    assert!(blocks * division.together >= shape.side().pow(2) * shape.heads);
                }
            }
        }
    }
}

/// Registers by ptxas for sm 90, 64 K of them and 227 KB of shared memory to a multiprocessor,
/// which gives them out by warps.
fn chosen(shape: WindowShape, processors: usize) -> (Tile, usize, usize, usize) {
    let at = COLUMNS.iter().position(|columns| shape.depth <= *columns).unwrap();
    let pair = pair_shared(shape.keys(), COLUMNS[at]);
    let resident = |division: &Division| {
        let registers = match division.tile {
            Tile::Narrow => 128,
            Tile::Wide => [168, 224, 256][at],
        };
        let warps = 16_384 / (32 * registers) * 4 / division.warps;
        Some(warps.min((227 << 10) / (division.together * pair + 1024)) as u32)
    };
    plain(choose(&shape, pair, processors, resident).unwrap())
}

#[test]
fn a_large_gpu_is_filled_and_a_small_one_reads_once() {
    // 128 pairs, one to each of 132 multiprocessors; 100 as well.
    assert_eq!(chosen(LARGE, 132), (Tile::Wide, 8, 1, 1));
    assert_eq!(chosen(TINY, 132), (Tile::Wide, 7, 1, 1));
    // 200 pairs: three blocks of half a window to a multiprocessor.
    assert_eq!(chosen(BASE, 132), (Tile::Wide, 4, 1, 2));
    assert_eq!(chosen(BASE, 16), (Tile::Wide, 4, 1, 1));
    let small = |shape: WindowShape, window: usize, grid: usize, pooled: bool| {
        chosen(WindowShape { grid, window, pooled, ..shape }, 132)
    };
    assert_eq!(small(LARGE, 8, 256, false), (Tile::Narrow, 4, 1, 1));
    assert_eq!(small(BASE, 8, 256, false), (Tile::Wide, 2, 1, 1));
    assert_eq!(small(LARGE, 4, 128, false), (Tile::Narrow, 4, 4, 1));
    assert_eq!(small(TINY, 8, 256, true), (Tile::Narrow, 1, 1, 1));
    assert_eq!(small(LARGE, 16, 64, true), (Tile::Narrow, 4, 1, 1));
    // What holds no block of the first division takes another; what holds none at all, none.
    let pair = pair_shared(LARGE.keys(), 72);
    let held = |division: &Division| Some(u32::from(division.parts == 2));
    assert_eq!(choose(&LARGE, pair, 132, held).map(plain), Some((Tile::Wide, 4, 1, 2)));
    assert_eq!(choose(&LARGE, pair, 132, |_| None), None);
}

#[test]
fn shapes_that_no_kernel_takes_are_refused() {
    for wrong in [
        WindowShape { window: 17, ..TINY },
        WindowShape { window: 0, ..TINY },
        WindowShape { depth: 104, ..TINY },
        WindowShape { depth: 12, ..TINY },
        WindowShape { window: 7, pooled: true, ..TINY },
        WindowShape { grid: 63, pooled: true, ..TINY },
        WindowShape { heads: 0, ..TINY },
    ] {
        assert!(wrong.check().is_err(), "{wrong:?}");
    }
}

/// Every kernel has a tile's queries and eight warps; large's windows of 16 fit everywhere.
#[test]
fn kernels_have_the_sizes_of_their_tiles() {
    macro_rules! check {
        ($tile:expr, $($name:literal)+) => {
            $(
                assert_eq!(instance!($name, "queries") as usize, $tile.queries(), $name);
                assert!(threads!($name) >= 256, $name);
            )+
        };
    }
    check!(Tile::Narrow, "window_attention_56" "window_attention_72" "window_attention_96");
    check!(
        Tile::Wide,
        "window_attention_56_wide" "window_attention_72_wide" "window_attention_96_wide"
    );
    assert!(pair_shared(256, 72) <= LEAST_SHARED as usize);
    assert_eq!(pair_shared(256, 72), 2 * 256 * 144);
    assert_eq!(pair_shared(196, 56), 2 * 208 * 112);
    assert_eq!(pair_shared(196, 96), 2 * 208 * 208);
}

/// Dynamic shared memory in cuda/kernels.toml, from which scripts/resources.py computes occupancy.
pub(super) fn listed_shared(kernel: &str) -> usize {
    let list = std::fs::read_to_string("../../cuda/kernels.toml").unwrap();
    let list: toml::Table = list.parse().unwrap();
    usize::try_from(list["launch"][kernel]["shared"].as_integer().unwrap()).unwrap()
}

#[test]
fn the_list_of_launches_has_the_largest_windows_of_the_models() {
    for (columns, keys) in [(56, 14 * 14), (72, 16 * 16), (96, 14 * 14)] {
        for tile in ["", "_wide"] {
            let name = format!("window_attention_{columns}{tile}");
            assert_eq!(listed_shared(&name), pair_shared(keys, columns), "{name}");
        }
    }
}
