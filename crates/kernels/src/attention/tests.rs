//! How launches are divided, and that the kernels have the sizes which the host expects.

use super::kernels::{FRAME, HEADS, Kernels, MEMORY};
use super::*;
use crate::constants::instance;

#[test]
fn parts_fill_the_gpu_once() {
    // An H200 holds one block of the kernels for Hopper on each of its 132 multiprocessors.
    assert_eq!(splits(132, 4096 / QUERIES, 28_736 / 128), 4);
    assert_eq!(splits(264, 4096 / QUERIES, 28_736 / 64), 8);
    // Few keys, many queries, many objects.
    assert_eq!(splits(132, 1, 3), 3);
    assert_eq!(splits(16, 32, 449), 1);
    assert_eq!(splits(132, 8 * 32, 449), 1);
    // Four heads of 4096 tokens, and of 1024.
    assert_eq!((splits(132, 4 * 32, 32), splits(132, 4 * 8, 8)), (1, 4));
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
