//! How blocks are made up, and that they are the source's own.

use super::*;

const TINY: WindowShape = WindowShape { grid: 64, window: 14, heads: 4, depth: 96, pooled: false };

#[test]
fn every_warp_has_queries_and_every_pair_its_memory() {
    for window in 1..=MAX_WINDOW {
        for pooled in [false, true].into_iter().filter(|pooled| !pooled || window % 2 == 0) {
            for (columns, _) in WINDOWS {
                let shape = WindowShape { window, pooled, depth: columns, ..TINY };
                shape.check().unwrap();
                let pair = pair_shared(shape.keys(), columns);
                for division in Division::of(&shape, pair) {
                    let tiles = shape.queries().div_ceil(ROWS);
                    assert!((1..=tiles).contains(&division.warps) && division.pairs > 0);
                    assert!(division.threads() <= 512, "the source's bound: {division:?}");
                    // Several pairs share a block only where that costs no permission and fills no more than four warps.
                    let small = division.pairs * pair <= SHARED_BYTES
                        && division.warps * division.pairs <= SHARED_WARPS;
                    assert!(division.pairs == 1 || small, "{shape:?} {division:?}");
                }
            }
        }
    }
    let of = |shape: WindowShape| {
        let divisions = Division::of(&shape, pair_shared(shape.keys(), 96));
        divisions.iter().map(|one| (one.warps, one.pairs)).collect::<Vec<_>>()
    };
    assert_eq!(of(TINY), [(13, 1), (7, 1)]);
    assert_eq!(of(WindowShape { pooled: true, ..TINY }), [(4, 1)]);
    assert_eq!(of(WindowShape { window: 4, ..TINY }), [(1, 4)]);
    assert_eq!(of(WindowShape { window: 8, pooled: true, ..TINY }), [(1, 1)]);
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

/// The constants are the source's own, and large's windows of 16 fit where blocks have least.
#[test]
fn launches_are_what_the_source_declares() {
    let source = std::fs::read_to_string("cuda/windows.cu").unwrap();
    for (columns, name) in WINDOWS {
        assert!(source.contains(&format!("WINDOWS({name}, {columns}, ")), "{name}");
    }
    assert!(source.contains("__launch_bounds__(512)"));
    assert!(source.contains("PITCH = DEPTH * 2 + 16;"));
    assert!(pair_shared(256, 80) <= LEAST_SHARED as usize);
    assert_eq!(pair_shared(196, 96), 2 * 208 * 208);
}
