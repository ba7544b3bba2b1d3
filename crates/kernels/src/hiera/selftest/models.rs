//! Trunks of the self-tests: those of SAM 2.1, and small ones.

use super::super::fused::Shape;
use vos::bundle::FusedPart;
use vos::bundle::trunk::{HieraBlock, Trunk, TrunkBlocks};

/// A Hiera as SAM 2.1 has it (sam2/configs/sam2.1), at a side of the first map.
pub(super) struct Model {
    pub name: &'static str,
    pub columns: usize,
    heads: usize,
    stages: [usize; 4],
    windows: [usize; 4],
    /// Blocks with global attention.
    whole: [usize; 3],
    pub grid: usize,
}

pub(super) const MODELS: [Model; 6] = [
    Model {
        name: "tiny at 1024 pixels",
        columns: 96,
        heads: 1,
        stages: [1, 2, 7, 2],
        windows: [8, 4, 14, 7],
        whole: [5, 7, 9],
        grid: 256,
    },
    Model {
        name: "small at 1024 pixels",
        columns: 96,
        heads: 1,
        stages: [1, 2, 11, 2],
        windows: [8, 4, 14, 7],
        whole: [7, 10, 13],
        grid: 256,
    },
    Model {
        name: "base+ at 1024 pixels",
        columns: 112,
        heads: 2,
        stages: [2, 3, 16, 3],
        windows: [8, 4, 14, 7],
        whole: [12, 16, 20],
        grid: 256,
    },
    Model {
        name: "large at 1024 pixels",
        columns: 144,
        heads: 2,
        stages: [2, 6, 36, 4],
        windows: [8, 4, 16, 8],
        whole: [23, 33, 43],
        grid: 256,
    },
    Model {
        name: "a small one",
        columns: 8,
        heads: 1,
        stages: [1, 1, 2, 1],
        windows: [4, 4, 2, 2],
        whole: [3, 4, 5],
        grid: 8,
    },
    Model {
        name: "a small one as wide as tiny",
        columns: 96,
        heads: 1,
        stages: [2, 2, 2, 1],
        windows: [8, 4, 2, 2],
        whole: [5, 6, 7],
        grid: 8,
    },
];

impl Model {
    /// Whether one kernel serves whole blocks.
    pub fn is_fused(&self) -> bool {
        let trunk = self.trunk();
        let blocks = trunk.blocks.hiera().unwrap_or_default();
        blocks.iter().any(|block| Shape::of(block).is_some())
    }

    pub fn trunk(&self) -> Trunk {
        let mut ends = [0; 4];
        let (mut blocks, mut grid, mut dim, mut heads) =
            (Vec::new(), self.grid, self.columns, self.heads);
        for (stage, count) in self.stages.into_iter().enumerate() {
            for at in 0..count {
                let pooled = stage > 0 && at == 0;
                // The first block of a stage attends in the windows of the stage before.
                let window = self.windows[stage - usize::from(pooled)];
                let whole = self.whole.contains(&blocks.len()) && !pooled;
                let factor = if pooled { 2 } else { 1 };
                heads *= factor;
                blocks.push(HieraBlock {
                    dim,
                    dim_out: dim * factor,
                    heads,
                    grid,
                    window: if whole { 0 } else { window },
                    pooled,
                });
                dim *= factor;
                grid /= factor;
            }
            ends[stage] = blocks.len() - 1;
        }
        Trunk {
            file: Trunk::FILE.to_owned(),
            sha256: String::new(),
            flops: 0,
            ends,
            blocks: TrunkBlocks::Hiera(blocks),
            keys: None,
            stem: None,
            neck: None,
        }
    }
}
