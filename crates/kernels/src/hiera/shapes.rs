/*!
The GEMMs of Hiera's blocks, and the memory that they share with the engines around them.
*/

use cuda::Element;
use cuda::cublaslt::{ALIGNMENT, MatmulShape};
use vos::bundle::trunk::HieraBlock;

/// Bytes of an f16.
pub(super) const F16: usize = 2;
/// Columns of the MLP's hidden layer, in columns of the block.
pub(super) const MLP_RATIO: usize = 4;

/// The GEMMs of one block.
pub(super) struct BlockGemms {
    /// Around the attention of a block with more output columns than input columns.
    pub skip: Option<MatmulShape>,
    pub qkv: MatmulShape,
    pub proj: MatmulShape,
    pub up: MatmulShape,
    pub down: MatmulShape,
}

impl BlockGemms {
    pub fn of(block: &HieraBlock) -> Self {
        let (rows, rows_out) = (block.tokens(), block.tokens_out());
        let (columns, columns_out) = (block.dim, block.dim_out);
        let f16 = |m, n, k| MatmulShape { m, n, k, output: Element::F16, residual: false };
        let residual = |k| MatmulShape {
            output: Element::F32,
            residual: true,
            ..f16(rows_out, columns_out, k)
        };
        let hidden = MLP_RATIO * columns_out;
        Self {
            skip: block.skips().then(|| f16(rows, columns_out, columns)),
            qkv: f16(rows, 3 * columns_out, columns),
            proj: residual(columns_out),
            up: f16(rows_out, hidden, columns_out),
            down: residual(hidden),
        }
    }

    /// How many they are.
    pub fn count(block: &HieraBlock) -> usize {
        if block.skips() { 5 } else { 4 }
    }
}

/// The GEMMs of all blocks, each shape once.
pub fn gemm_shapes(blocks: &[HieraBlock]) -> Vec<MatmulShape> {
    let mut all = Vec::new();
    for block in blocks {
        let BlockGemms { skip, qkv, proj, up, down } = BlockGemms::of(block);
        for shape in skip.into_iter().chain([qkv, proj, up, down]) {
            if !all.contains(&shape) {
                all.push(shape);
            }
        }
    }
    all
}

/// Bytes of the two pieces of scratch memory that all blocks use, one block after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scratch {
    /// Normalised or attended tokens.
    pub narrow: usize,
    /// Queries, keys and values; the hidden layer.
    pub wide: usize,
}

impl Scratch {
    pub fn of(blocks: &[HieraBlock]) -> Self {
        let mut most = Self::default();
        for block in blocks {
            let (rows, rows_out) = (block.tokens(), block.tokens_out());
            let narrow = (rows * block.dim).max(rows_out * block.dim_out);
            let wide = (rows * 3 * block.dim_out).max(rows_out * MLP_RATIO * block.dim_out);
            let norm2 = Self::norm2_of_pooled(block);
            let norm2 = norm2.map_or(0, |behind| behind + F16 * rows_out * block.dim_out);
            most.narrow = most.narrow.max(F16 * narrow);
            most.wide = most.wide.max(F16 * wide).max(norm2);
        }
        let [narrow, wide] = [most.narrow, most.wide].map(|b| b.next_multiple_of(ALIGNMENT));
        Self { narrow, wide }
    }

    /// Where the second norm of a pooled block begins in the wide piece: behind the hidden layer.
    /// One kernel may compute it from the first norm, which fills the narrow piece.
    pub fn norm2_of_pooled(block: &HieraBlock) -> Option<usize> {
        let hidden = F16 * block.tokens_out() * MLP_RATIO * block.dim_out;
        block.pooled.then_some(hidden.next_multiple_of(ALIGNMENT))
    }

    /// Of both pieces.
    pub fn bytes(self) -> usize {
        self.narrow + self.wide
    }
}
