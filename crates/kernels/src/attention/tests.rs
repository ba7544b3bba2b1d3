//! How launches are divided, and that the kernels have the sizes which the host expects.

use super::kernels::{FRAME, HEADS, Kernels, MEMORY};
use super::*;
use crate::constants::instance;

/// Rows of blocks and tiles of a launch: at 1024 and 512 pixels the bank of SAM 2.1, of EdgeTAM, the
/// frame, and the trunks' heads of 4096 and 1024 tokens.
fn launches(keys: usize) -> [(usize, usize); 8] {
    [
        (32, 28_736_usize.div_ceil(keys)),
        (8, 7_232_usize.div_ceil(keys)),
        (32, 3_648_usize.div_ceil(keys)),
        (32, 4096_usize.div_ceil(keys)),
        (4 * 32, 4096_usize.div_ceil(keys)),
        (8 * 32, 4096_usize.div_ceil(keys)),
        (4 * 8, 1024_usize.div_ceil(keys)),
        (8 * 8, 1024_usize.div_ceil(keys)),
    ]
}

fn all_splits(resident: usize, keys: usize) -> [usize; 8] {
    launches(keys).map(|(rows, tiles)| splits(resident, rows, tiles))
}

#[test]
fn parts_fill_the_gpu_once_where_that_is_nearly_all_of_it() {
    // An H200 holds one block of the kernels for Hopper on each of its 132 multiprocessors.
    assert_eq!(all_splits(132, 128), [4, 16, 4, 4, 1, 1, 4, 2]);
    // The frame, in tiles of 64 keys.
    assert_eq!((splits(132, 32, 64), splits(132, 8, 16)), (4, 16));
    // Kernels for any GPU: one block, and two.
    assert_eq!(all_splits(132, 64), [4, 16, 4, 4, 1, 1, 4, 2]);
    assert_eq!(all_splits(264, 32), [8, 33, 8, 8, 2, 1, 8, 4]);
    // Few keys, many queries, many objects.
    assert_eq!(splits(132, 1, 3), 3);
    assert_eq!(splits(132, 8 * 32, 449), 1);
    // Orin's 16 multiprocessors, and 64: whole waves.
    assert_eq!(all_splits(16, 64), [1, 2, 1, 1, 1, 1, 1, 1]);
    assert_eq!(all_splits(64, 64), [2, 8, 2, 2, 1, 1, 2, 1]);
}

#[test]
fn more_parts_than_one_wave_fill_the_gpu_better() {
    // An RTX 3090 and an A100. One wave has 64 of 82 blocks, and 96 of 108.
    assert_eq!(splits(82, 32, 449), 5);
    assert_eq!(splits(108, 32, 449), 10);
    // Three objects on an H200: 96 of 132, or three waves with 384 of 396.
    assert_eq!(splits(132, 3 * 32, 225), 4);
    // What is combined must not cost more than is gained.
    assert_eq!(splits(82, 32, 8), 2);
    // Always a part for each block, and a tile for each part.
    for resident in [16, 64, 82, 108, 132, 264] {
        for rows in 1..=300 {
            for tiles in [1, 2, 3, 16, 57, 449] {
                let found = splits(resident, rows, tiles);
                assert!((1..=tiles).contains(&found), "{resident} {rows} {tiles}: {found}");
                assert!(rows * found <= (MOST_WAVES * resident).max(rows));
            }
        }
    }
}

/// Of an instance in a source: queries of a block, columns of Q, columns of V.
macro_rules! sizes {
    ($name:literal) => {
        [
            instance!($name, "queries") as usize,
            instance!($name, "width") as usize,
            instance!($name, "columns") as usize,
        ]
    };
}

#[test]
fn the_sources_have_instances_of_these_sizes_which_fit_the_gpus() {
    let sizes = [
        (MEMORY, sizes!("attention_cross"), sizes!("attention_cross_hopper"), Values::Memory),
        (FRAME, sizes!("attention_self"), sizes!("attention_self_hopper"), Values::Frame),
    ];
    let heads = [
        (sizes!("attention_heads_64"), sizes!("attention_heads_64_hopper")),
        (sizes!("attention_heads_80"), sizes!("attention_heads_80_hopper")),
        (sizes!("attention_heads_96"), sizes!("attention_heads_96_hopper")),
        (sizes!("attention_heads_128"), sizes!("attention_heads_128_hopper")),
    ];
    let of_heads = |(kernels, (any, hopper)): (Kernels, _)| {
        (kernels, any, hopper, Values::Heads(kernels.padded))
    };
    let heads = HEADS.into_iter().zip(heads).map(of_heads);
    for (kernels, any, hopper, values) in sizes.into_iter().chain(heads) {
        let expected = [QUERIES, values.width(), values.columns()];
        assert_eq!((any, hopper), (expected, expected), "{}", kernels.any.name);
        assert_eq!(kernels.padded, values.columns());
        // 227 KiB are the most that a block has on Hopper.
        assert!(kernels.hopper.shared <= 227 * 1024, "{}", kernels.hopper.name);
    }
    // The blocks of a multiprocessor, with 1 KiB more for each: 100 KiB on sm 86, 89 and 120.
    for (blocks, shared) in [
        (instance!("attention_cross", "blocks"), MEMORY.any.shared),
        (instance!("attention_self", "blocks"), FRAME.any.shared),
        (instance!("attention_heads_64", "blocks"), HEADS[0].any.shared),
        (instance!("attention_heads_80", "blocks"), HEADS[1].any.shared),
        (instance!("attention_heads_96", "blocks"), HEADS[2].any.shared),
        (instance!("attention_heads_128", "blocks"), HEADS[3].any.shared),
    ] {
        assert!(blocks * (shared + 1024) <= 100 * 1024, "{blocks} blocks of {shared} bytes");
    }
    for (kernels, combined) in [
        (MEMORY, instance!("attention_combine_64", "columns")),
        (FRAME, instance!("attention_combine_256", "columns")),
        (HEADS[0], instance!("attention_combine_64", "columns")),
        (HEADS[1], instance!("attention_combine_80", "columns")),
        (HEADS[2], instance!("attention_combine_96", "columns")),
        (HEADS[3], instance!("attention_combine_128", "columns")),
    ] {
        assert_eq!(kernels.padded, combined as usize, "{}", kernels.merge);
    }
    assert_eq!(HEADS[3].padded, WIDEST_HEAD);
    assert!(HEADS.is_sorted_by(|a, b| a.padded < b.padded), "the narrowest that fits is chosen");
}
