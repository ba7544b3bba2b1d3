//! That launches are the sources' own.

use super::launches::{
    HEAD_ROWS, HEADS_BLOCKS, IMAGE_THREADS, MASK_TILE, MLP_DOWN_BLOCKS, MLP_UP_BLOCKS,
    OUTPUT_BLOCKS, PIXELS, READ_SHARED, TOKEN_THREADS, WRITE_SHARED,
};
use super::scratch::TILE;
use crate::images::Topic;
use vos::bundle::mask_decoder::{CROSS, HEADS, HIDDEN, MASKS, NARROW, ROWS, TOKENS, WIDTH};

/// A source's text without comments, whose constants are found by `has`.
fn source(name: &str) -> String {
    let text = std::fs::read_to_string(format!("../../cuda/{name}")).unwrap();
    text.lines()
        .map(|line| line.split(" //").next().unwrap().trim_end().to_owned() + "\n")
        .collect()
}

fn has(text: &str, line: &str) {
    assert!(text.contains(line), "{line}");
}

/// The threads of a kernel's blocks are those of its PTX.
fn has_threads(kernel: &str, threads: u32) {
    let kernel = format!("mask_decoder_{kernel}");
    let entry = Topic::with(&kernel).and_then(|topic| topic.entry(&kernel)).unwrap();
    assert_eq!(entry.threads, Some(threads), "{kernel}");
}

#[test]
fn tiles_of_the_image_are_those_of_the_source() {
    let image = source("mask_decoder_image.cuh");
    has(&image, &format!("constexpr int IMAGE_TILE = {TILE};"));
    has(&image, &format!("constexpr int IMAGE_WIDTH = {WIDTH};"));
    has(&image, &format!("constexpr int TOKENS = {TOKENS};"));
    has(&image, &format!("constexpr int HEAD = {};", CROSS / HEADS));
    // Tiles of halves.
    has(&image, "constexpr u32 ROW = IMAGE_WIDTH * 2;");
    has(&image, "constexpr u32 SECOND = IMAGE_TILE * ROW;");
    has(&image, "constexpr u32 THIRD = 2 * SECOND;");
    let tile = (TILE * WIDTH * 2) as u32;
    assert_eq!((READ_SHARED, WRITE_SHARED), (2 * tile, 3 * tile));
    // What the blocks of GPUs with least have: 99 KiB.
    const { assert!(WRITE_SHARED <= 99 * 1024) };
    let kernels = std::fs::read_to_string("../../cuda/mask_decoder_image.cu").unwrap();
    for (name, shared) in
        [("token_to_image_attn", READ_SHARED), ("image_to_token_attn", WRITE_SHARED)]
    {
        let (_, said) =
            kernels.split_once(&format!("/// {shared} bytes of shared memory.")).unwrap();
        let (_, first) = said.split_once("mask_decoder_").unwrap();
        assert!(first.starts_with(&format!("{name}(")), "{shared}");
    }
    let masks = source("mask_decoder_upscale.cu");
    has(&masks, &format!("constexpr int TILE = {MASK_TILE};"));
    for kernel in ["token_to_image_attn", "image_to_token_attn", "upscale_masks"] {
        has_threads(kernel, IMAGE_THREADS);
    }
    // A pixel of the first convolution is a block.
    has(&masks, "    Masks masks;");
    assert_eq!(PIXELS, 4);
}

#[test]
fn blocks_over_tokens_are_those_of_the_source() {
    let tokens = source("mask_decoder_tokens.cuh");
    for (name, value) in
        [("TOKENS", TOKENS), ("WIDTH", WIDTH), ("HIDDEN", HIDDEN), ("HEADS", HEADS)]
    {
        has(&tokens, &format!("constexpr int {name} = {value};"));
    }
    has(&tokens, &format!("constexpr int INNER = {CROSS},"));
    for kernel in ["combine_splits", "token_mlp_up", "token_mlp_down", "token_self_attn"] {
        has_threads(kernel, TOKEN_THREADS);
    }
    for kernel in ["fold_self_attn", "fold_token_to_image", "head_mlps", "head_outputs"] {
        has_threads(kernel, TOKEN_THREADS);
    }
    assert_eq!(ROWS, HEADS * TOKENS);
    // Rows of a weight that a block has.
    has(&tokens, "BLOCK_ROWS = TILES * 8,");
    let tiles = |layer: &str| -> usize {
        let (_, using) = tokens.split_once(&format!("using {layer} = Layer<")).unwrap();
        let (parameters, _) = using.split_once(">;").unwrap();
        parameters.rsplit_once(", ").unwrap().1.parse().unwrap()
    };
    assert_eq!(tiles("Up") * 8 * MLP_UP_BLOCKS as usize, HIDDEN);
    assert_eq!(tiles("Down") * 8 * MLP_DOWN_BLOCKS as usize, WIDTH);

    let heads = source("mask_decoder_heads.cu");
    has(&heads, &format!("constexpr int WIDTH = {WIDTH};"));
    has(&heads, &format!("constexpr int NETWORKS = {HEAD_ROWS};"));
    has(&heads, &format!("constexpr int MASKS = {};", MASKS - 1));
    has(&heads, &format!("constexpr int VECTOR = {NARROW};"));
    has(&heads, &format!("constexpr int PART = {};", WIDTH / HEADS_BLOCKS as usize));
    assert_eq!(HEADS_BLOCKS, OUTPUT_BLOCKS);
}
