//! How launches are divided, and that they are the sources' own.

use super::kernels::{FRAME, HEADS, MEMORY};
use super::*;

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

/// The constants above are the source's own.
#[test]
fn launches_are_what_the_source_declares() {
    let base = std::fs::read_to_string("../../cuda/attention.cu").unwrap();
    let hopper = std::fs::read_to_string("../../cuda/attention_hopper.cu").unwrap();
    let instance = |text: &str, name: &str| -> Vec<usize> {
        let (_, after) = text.split_once(&format!("({name}, ")).unwrap();
        let (numbers, _) = after.split_once(')').unwrap();
        numbers.split(", ").filter_map(|number| number.parse().ok()).collect()
    };
    let memory = [(MEMORY, Values::Memory), (FRAME, Values::Frame)];
    let heads = HEADS.map(|kernels| (kernels, Values::Heads(kernels.padded)));
    for (kernels, values) in memory.into_iter().chain(heads) {
        // Chunks of 64 columns, of which the last may not be whole.
        let queries = values.width().next_multiple_of(64) * F16 * QUERIES;
        let kind = kernels.kind(false);
        let [width, warps, row_blocks, tile, dv, slots, _, _, blocks] =
            instance(&base, kind.name)[..]
        else {
            panic!("{} has other parameters", kind.name);
        };
        assert_eq!((warps * 32, warps * row_blocks * 16), (kind.threads as usize, QUERIES));
        assert_eq!((width, tile, dv), (values.width(), kind.tile, values.columns()));
        assert_eq!(queries + slots * tile * 128 + 2 * tile * 4, kind.shared as usize);
        // What the blocks of a multiprocessor have together, 1 KiB of it each for the driver: 100
        // KiB on the GPUs with least.
        assert!(blocks * (kind.shared as usize + 1024) <= 100 * 1024, "{}", kind.name);

        let kind = kernels.kind(true);
        let [width, groups, tile, dv, slots, ..] = instance(&hopper, kind.name)[..] else {
            panic!("{} has other parameters", kind.name);
        };
        assert_eq!(((1 + groups) * 128, groups * 64), (kind.threads as usize, QUERIES));
        assert_eq!((width, tile, dv), (values.width(), kind.tile, values.columns()));
        let ring = queries + slots * tile * 128 + 4 * tile * 4 + 2 * slots * 8;
        assert_eq!(ring, kind.shared as usize);
        // 227 KiB are the most that a block has there.
        assert!(ring <= 227 * 1024, "{}", kind.name);
        // Parts are merged in the width that they have.
        assert_eq!(dv, kernels.padded);
        assert!(base.contains(&format!("COMBINE({}, {dv})", kernels.merge)), "{}", kind.name);
    }
    assert!(HEADS.is_sorted_by(|a, b| a.padded < b.padded), "the narrowest that fits is taken");
}
