//! A trunk for tests, here and in the crates above.

use super::{Trunk, TrunkBlock};

/// Four stages, of which the third has two blocks: one in windows that reach over the edge, one
/// over the whole map.
pub fn small() -> Trunk {
    let block = |dim, dim_out, heads, grid, window| TrunkBlock {
        dim,
        dim_out,
        heads,
        grid,
        window,
        pooled: dim != dim_out,
    };
    Trunk {
        file: "encoder_trunk.safetensors".to_owned(),
        sha256: String::new(),
        flops: 1,
        ends: [0, 1, 3, 4],
        blocks: vec![
            block(8, 8, 1, 16, 4),
            block(8, 16, 2, 16, 4),
            block(16, 32, 2, 8, 6),
            block(32, 32, 4, 4, 0),
            block(32, 64, 4, 4, 2),
        ],
        keys: None,
    }
}
