//! That launches are the sources' own.

use super::launches::{
    ATTEND_THREADS, ATTEND_TILE, JOIN_SHARED, JOIN_THREADS, JOIN_TILE, LATENT_THREADS, LATENT_TILE,
    MASK_THREADS, MASK_TILE, MIX_SHARED, MIX_THREADS, MIX_TILE, SPREAD_SHARED, SPREAD_THREADS,
    SPREAD_TILE, WIDEN_THREADS, WINDOW_SHARED, WINDOW_THREADS, WINDOW_TILE,
};
use super::scratch::SPLIT;
use crate::images::Topic;
use vos::bundle::memory_encoder::{
    DEPTH, HIDDEN, LATENT_HIDDEN, LATENTS, LAYERS, STEPS, TAPS, WIDTH, WINDOW_NORMS, WINDOWS,
};

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
    let entry = Topic::with(kernel).and_then(|topic| topic.entry(kernel)).unwrap();
    assert_eq!(entry.threads, Some(threads), "{kernel}");
}

#[test]
fn the_masks_tiles_are_those_of_the_source() {
    let widen = source("memory_encoder_downsample.cuh");
    let [across, down] = MASK_TILE;
    has(&widen, &format!("constexpr int ACROSS = {across}, DOWN = {down};"));
    has_threads("memory_encoder_mask_convs", MASK_THREADS);
    has_threads("memory_encoder_mask_downsample", WIDEN_THREADS);
    has(&widen, &format!("static constexpr int CHANNELS = {},", STEPS[2]));
    let join = source("memory_encoder_fuse.cu");
    let [across, down] = JOIN_TILE;
    has(&join, &format!("constexpr int DOWN = {down}, ACROSS = {across};"));
    has_threads("memory_encoder_fuse_mask_and_features", JOIN_THREADS);
    has(&join, &format!("constexpr int CHANNELS = {};", STEPS[2]));
    has(&join, &format!("constexpr int TAPS = {TAPS};"));
    has(&join, &format!("constexpr int COLUMNS = {WIDTH};"));
    has(&join, &format!("JOIN_BYTES == {JOIN_SHARED} "));
}

#[test]
fn the_blocks_tiles_are_those_of_the_source() {
    let (spread, mix) =
        (source("memory_encoder_convnext.cuh"), source("memory_encoder_convnext.cu"));
    let [across, down] = SPREAD_TILE;
    has(&spread, &format!("constexpr int SPREAD_ROWS = {down}, SPREAD_COLUMNS = {across};"));
    has(&spread, "constexpr int SPREAD_THREADS = SPREAD_ROWS * WIDTH / 2,");
    assert_eq!(SPREAD_THREADS as usize, down * WIDTH / 2);
    has(&spread, &format!("constexpr int WIDTH = {WIDTH};"));
    has(&mix, &format!("constexpr int HIDDEN = {HIDDEN},"));
    has(&mix, &format!("constexpr int MEMORY = {DEPTH};"));
    has(&mix, &format!("constexpr int MIX_TOKENS = {MIX_TILE}, MIX_WARPS = {},", MIX_THREADS / 32));
    has(&mix, &format!("MIX_SHARED == {MIX_SHARED} && SPREAD_SHARED == {SPREAD_SHARED}"));
    has_threads("memory_encoder_dwconv7x7", SPREAD_THREADS);
    for name in ["memory_encoder_convnext_mlp", "memory_encoder_convnext_mlp_proj"] {
        has_threads(name, MIX_THREADS);
    }
    // What the blocks of GPUs with least have: 99 KiB.
    for shared in [JOIN_SHARED, SPREAD_SHARED, MIX_SHARED, WINDOW_SHARED] {
        assert!(shared <= 99 * 1024, "{shared}");
    }
}

#[test]
fn the_latents_tiles_are_those_of_the_source() {
    let (attend, latents) = (source("perceiver_1d.cuh"), source("perceiver_1d.cu"));
    has(&attend, &format!("constexpr int LATENTS = {LATENTS};"));
    has(&attend, &format!("constexpr int SPLIT = {SPLIT};"));
    has(&attend, &format!("constexpr int TILE = {ATTEND_TILE};"));
    has(&latents, &format!("constexpr int FEW = {LATENT_TILE};"));
    has_threads("perceiver_1d_cross_attn", ATTEND_THREADS);
    for name in ["perceiver_1d_mlp", "perceiver_1d_self_attn"] {
        has_threads(name, LATENT_THREADS);
    }
    let (window, windows) = (source("perceiver_2d.cuh"), source("perceiver_2d.cu"));
    has(&window, &format!("constexpr int WIDTH = {DEPTH};"));
    has(&window, &format!("constexpr int SIDE = {WINDOWS};"));
    has(&windows, &format!("constexpr int HIDDEN = {LATENT_HIDDEN};"));
    has(&windows, &format!("constexpr int LATENTS = {WINDOW_TILE};"));
    has_threads("perceiver_2d_window_attn", WINDOW_THREADS);
    let text = std::fs::read_to_string("../../cuda/perceiver_2d.cu").unwrap();
    let text = text.replace('\n', " ");
    let launch = format!("of {WINDOW_THREADS} threads and {WINDOW_SHARED} bytes of shared memory");
    assert!(text.contains(&launch), "{launch}");
    assert_eq!(LATENTS, WINDOWS * WINDOWS);
    // Both layers' norms and the last one, a weight and a bias each.
    assert_eq!((LAYERS * WINDOW_NORMS + 1) * 2 * DEPTH, 1408);
}
