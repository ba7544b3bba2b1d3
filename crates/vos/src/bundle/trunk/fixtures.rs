//! Trunks for tests, here and in the crates above.

use super::{HieraBlock, RepVitBlock, Trunk, TrunkBlocks};

/// A Hiera of four stages, of which the third has two blocks: one in windows that reach over the edge, one
/// over the whole map.
pub fn small() -> Trunk {
    let block = |dim, dim_out, heads, grid, window| HieraBlock {
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
        blocks: TrunkBlocks::Hiera(vec![
            block(8, 8, 1, 16, 4),
            block(8, 16, 2, 16, 4),
            block(16, 32, 2, 8, 6),
            block(32, 32, 4, 4, 0),
            block(32, 64, 4, 4, 2),
        ]),
        keys: None,
        stem: None,
        neck: None,
    }
}

/// A RepViT of four stages: as timm's, each later one has a block of stride 1, one of stride 2, and
/// one with squeeze-and-excite.
pub fn repvit() -> Trunk {
    let widths = [16, 24, 48, 64];
    let mut blocks = Vec::new();
    let mut ends = [0; 4];
    for (stage, dim) in widths.into_iter().enumerate() {
        let (grid, before) = (16 >> stage, widths[stage.saturating_sub(1)]);
        let plain = |dim, grid, squeeze| {
            let (dim_out, hidden) = (dim, 2 * dim);
            RepVitBlock { dim, dim_out, grid, stride: 1, squeeze, hidden }
        };
        if stage > 0 {
            let first = plain(before, 2 * grid, 0);
            blocks.push(first);
            blocks.push(RepVitBlock { dim_out: dim, stride: 2, hidden: 2 * dim, ..first });
        }
        blocks.push(plain(dim, grid, 8 << (stage / 2)));
        ends[stage] = blocks.len() - 1;
    }
    Trunk { ends, blocks: TrunkBlocks::RepVit(blocks), ..small() }
}
