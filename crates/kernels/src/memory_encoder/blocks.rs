/*!
Tiles and shared memory of the memory encoder's blocks, from the sources, and checks that the
sources have the sizes of the network.
*/

use crate::constants::constant;
use vos::bundle::memory_encoder::{
    DEPTH, HIDDEN, LATENT_HIDDEN, LATENTS, LAYERS, STEPS, TAPS, WIDTH, WINDOW_NORMS, WINDOWS,
};

/// Pixels along a row and rows of a block's tile of the mask after its second convolution, and
/// after its third.
pub(super) const MASK_TILE: [usize; 2] = [
    constant!(MemoryEncoderMask, "ACROSS") as usize,
    constant!(MemoryEncoderMask, "DOWN") as usize,
];
/// Tokens along a row and rows of a block that fuses mask and features, and of the 7x7 convolution.
pub(super) const JOIN_TILE: [usize; 2] = [
    constant!(MemoryEncoderFuse, "ACROSS") as usize,
    constant!(MemoryEncoderFuse, "DOWN") as usize,
];
pub(super) const SPREAD_TILE: [usize; 2] = [
    constant!(MemoryEncoderConvnext, "SPREAD_COLUMNS") as usize,
    constant!(MemoryEncoderConvnext, "SPREAD_ROWS") as usize,
];
/// Tokens of a block of the ConvNeXt MLP.
pub(super) const MIX_TILE: usize = constant!(MemoryEncoderConvnext, "MIX_TOKENS") as usize;
/// Latents of a block: with all tokens, among latents, and with a window each.
pub(super) const ATTEND_TILE: usize = constant!(Perceiver1d, "TILE") as usize;
pub(super) const LATENT_TILE: usize = constant!(Perceiver1d, "FEW") as usize;
pub(super) const WINDOW_TILE: usize = constant!(Perceiver2d, "LATENTS") as usize;
/// Dynamic shared memory, bytes.
pub(super) const JOIN_SHARED: u32 = constant!(MemoryEncoderFuse, "JOIN_BYTES");
pub(super) const SPREAD_SHARED: u32 = constant!(MemoryEncoderConvnext, "SPREAD_SHARED");
pub(super) const MIX_SHARED: u32 = constant!(MemoryEncoderConvnext, "MIX_SHARED");
pub(super) const WINDOW_SHARED: u32 = constant!(Perceiver2d, "WINDOWS_SHARED");

const _: () = {
    // The smallest limit of a block's shared memory from sm 80 on.
    let least = 99 * 1024;
    assert!(JOIN_SHARED <= least);
    assert!(SPREAD_SHARED <= least);
    assert!(MIX_SHARED <= least);
    assert!(WINDOW_SHARED <= least);
    // The sources have the sizes of the network.
    assert!(constant!(MemoryEncoderMask, "Widen::CHANNELS") as usize == STEPS[2]);
    assert!(constant!(MemoryEncoderFuse, "CHANNELS") as usize == STEPS[2]);
    assert!(constant!(MemoryEncoderFuse, "TAPS") as usize == TAPS);
    assert!(constant!(MemoryEncoderFuse, "COLUMNS") as usize == WIDTH);
    assert!(constant!(MemoryEncoderConvnext, "WIDTH") as usize == WIDTH);
    assert!(constant!(MemoryEncoderConvnext, "HIDDEN") as usize == HIDDEN);
    assert!(constant!(MemoryEncoderConvnext, "MEMORY") as usize == DEPTH);
    assert!(constant!(Perceiver1d, "LATENTS") as usize == LATENTS);
    assert!(constant!(Perceiver2d, "WIDTH") as usize == DEPTH);
    assert!(constant!(Perceiver2d, "SIDE") as usize == WINDOWS);
    assert!(constant!(Perceiver2d, "HIDDEN") as usize == LATENT_HIDDEN);
    assert!(WINDOWS * WINDOWS == LATENTS);
    // The norms of all layers and the last one, a weight and a bias each.
    let norms = (LAYERS * WINDOW_NORMS + 1) * 2 * DEPTH;
    assert!(constant!(Perceiver2d, "ALL_FLOATS") as usize == norms);
};
