//! How launches are divided, and that the kernels have the sizes which the host expects.

use super::kernels::{FRAME, HEADS, Kernels, MEMORY};
use super::splits::{MOST_WAVES, combine_cost, splits};
use super::*;
use crate::constants::instance;

/// Parts of a launch: rows of blocks of 128 queries, keys, and the kernel's keys of a tile, columns
/// of Q and of the sums.
fn parts(resident: usize, rows: usize, keys: usize, [tile, width, padded]: [usize; 3]) -> usize {
    splits(resident, rows, keys.div_ceil(tile), combine_cost(tile, width, padded))
}

const BANK: [usize; 3] = [64, 256, 64];
const SELF: [usize; 3] = [64, 256, 256];
const BANK_ON_HOPPER: [usize; 3] = [128, 256, 64];

/// At 1024 and 512 pixels: the bank of SAM 2.1, of EdgeTAM (as many keys at any size), the frame.
fn of_track_step(resident: usize, bank: [usize; 3]) -> [usize; 6] {
    [
        parts(resident, 32, 28_736, bank),
        parts(resident, 8, 7_232, bank),
        parts(resident, 32, 3_648, bank),
        parts(resident, 8, 3_648, bank),
        parts(resident, 32, 4096, SELF),
        parts(resident, 8, 1024, SELF),
    ]
}

/// Four and eight heads of 4096 and of 1024 tokens, in an encoder.
fn of_heads(resident: usize, kernel: [usize; 3]) -> [usize; 4] {
    [
        parts(resident, 4 * 32, 4096, kernel),
        parts(resident, 8 * 32, 4096, kernel),
        parts(resident, 4 * 8, 1024, kernel),
        parts(resident, 8 * 8, 1024, kernel),
    ]
}

#[test]
fn parts_fill_the_gpu_once_where_that_is_nearly_all_of_it() {
    // An H200 holds one block of the kernels for Hopper on each of its 132 multiprocessors.
    assert_eq!(of_track_step(132, BANK_ON_HOPPER), [4, 16, 4, 16, 4, 16]);
    assert_eq!(of_heads(132, [128, 96, 96]), [1, 1, 4, 2]);
    // Kernels for any GPU, two blocks of those for heads.
    assert_eq!(of_track_step(132, BANK), [4, 16, 4, 16, 4, 16]);
    assert_eq!(of_heads(264, [32, 96, 96]), [2, 1, 8, 4]);
    // Few keys, many objects.
    assert_eq!(splits(132, 1, 3, 4), 3);
    assert_eq!(splits(132, 8 * 32, 449, 4), 1);
    // Orin's 16 multiprocessors, and 64: whole waves.
    assert_eq!(of_track_step(16, BANK), [1, 2, 1, 2, 1, 2]);
    assert_eq!(of_heads(32, [32, 96, 96]), [1, 1, 1, 1]);
    assert_eq!(of_track_step(64, BANK), [2, 8, 2, 8, 2, 8]);
}

#[test]
fn more_parts_than_one_wave_fill_the_gpu_better() {
    // An RTX 3090 and an A100. One wave has 64 of 82 blocks, and 96 of 108.
    assert_eq!(parts(82, 32, 28_736, BANK), 5);
    assert_eq!(parts(108, 32, 28_736, BANK), 10);
    // Three objects on an H200: 96 of 132, or three waves with 384 of 396.
    assert_eq!(parts(132, 3 * 32, 28_736, BANK_ON_HOPPER), 4);
    // What is combined must not cost more than is gained: few tiles, or wide sums of small ones.
    assert_eq!(splits(82, 32, 8, 4), 2);
    assert_eq!(of_heads(164, [32, 96, 96]), [1, 1, 5, 2]);
    // Always a part for each block, and a tile for each part.
    for resident in [16, 64, 82, 108, 132, 264] {
        for rows in 1..=300 {
            for tiles in [1, 2, 3, 16, 57, 449] {
                let found = splits(resident, rows, tiles, 4);
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
        (
            MEMORY,
            sizes!("attention_cross"),
            sizes!("attention_cross_biased_hopper"),
            Values::Memory,
        ),
        (FRAME, sizes!("attention_self"), sizes!("attention_self_hopper"), Values::Frame),
    ];
    let heads = [
        (sizes!("attention_heads_64"), sizes!("attention_global_64_hopper")),
        (sizes!("attention_heads_80"), sizes!("attention_global_80_hopper")),
        (sizes!("attention_heads_96"), sizes!("attention_global_96_hopper")),
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
    // With a bias a kernel is launched as without.
    assert_eq!(instance!("attention_cross_biased_hopper", "shared"), MEMORY.hopper.shared);
    assert_eq!(instance!("attention_cross_biased_hopper", "keys") as usize, MEMORY.hopper.tile);
    assert_eq!(Some(instance!("attention_cross_biased_hopper", "box")), MEMORY.hopper.box_keys);
    // The blocks of a multiprocessor, with 1 KiB more for each: 100 KiB on sm 86, 89 and 120.
    for (blocks, shared) in [
        (instance!("attention_cross", "blocks"), MEMORY.any.shared),
        (instance!("attention_self", "blocks"), FRAME.any.shared),
        (instance!("attention_heads_64", "blocks"), HEADS[0].any.shared),
        (instance!("attention_heads_80", "blocks"), HEADS[1].any.shared),
        (instance!("attention_heads_96", "blocks"), HEADS[2].any.shared),
    ] {
        assert!(blocks * (shared + 1024) <= 100 * 1024, "{blocks} blocks of {shared} bytes");
    }
    for (kernels, combined) in [
        (MEMORY, instance!("attention_combine_64", "columns")),
        (FRAME, instance!("attention_combine_256", "columns")),
        (HEADS[0], instance!("attention_combine_64", "columns")),
        (HEADS[1], instance!("attention_combine_80", "columns")),
        (HEADS[2], instance!("attention_combine_96", "columns")),
    ] {
        assert_eq!(kernels.padded, combined as usize, "{}", kernels.merge);
    }
    assert_eq!(HEADS[2].padded, WIDEST_HEAD);
    assert!(HEADS.is_sorted_by(|a, b| a.padded < b.padded), "the narrowest that fits is chosen");
}
