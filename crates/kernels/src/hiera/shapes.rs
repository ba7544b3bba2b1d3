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

/// Bytes of the two pieces of scratch memory that all blocks use, one block after the other. No
/// kernel that reads one tensor writes another at the same place, as some blocks of threads read
/// while others write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scratch {
    /// Normalised tokens, or attended ones of a pooled block.
    pub narrow: usize,
    /// Queries, keys and values; the hidden layer; what [`Behind`] has.
    pub wide: usize,
}

/// Where tensors begin in the wide piece of a block.
pub(super) enum Behind {
    /// The attended tokens, behind queries, keys and values. The second norm lies where the first
    /// did: the projection may write its raw tokens while it reads the attended ones.
    Queries(usize),
    /// The second norm of a pooled block, behind the hidden layer: one kernel may compute it from
    /// the first norm, which fills the narrow piece.
    Hidden(usize),
}

impl Behind {
    pub fn of(block: &HieraBlock) -> Self {
        let behind = |elements: usize| (F16 * elements).next_multiple_of(ALIGNMENT);
        if block.pooled {
            Self::Hidden(behind(block.tokens_out() * MLP_RATIO * block.dim_out))
        } else {
            Self::Queries(behind(block.tokens() * 3 * block.dim_out))
        }
    }
}

impl Scratch {
    pub fn of(blocks: &[HieraBlock]) -> Self {
        let mut most = Self::default();
        for block in blocks {
            let (rows, rows_out) = (block.tokens(), block.tokens_out());
            let tokens_out = rows_out * block.dim_out;
            let narrow = (rows * block.dim).max(tokens_out);
            let wide = (rows * 3 * block.dim_out).max(MLP_RATIO * tokens_out);
            let (Behind::Queries(behind) | Behind::Hidden(behind)) = Behind::of(block);
            most.narrow = most.narrow.max(F16 * narrow);
            most.wide = most.wide.max(F16 * wide).max(behind + F16 * tokens_out);
        }
        let [narrow, wide] = [most.narrow, most.wide].map(|b| b.next_multiple_of(ALIGNMENT));
        Self { narrow, wide }
    }

    /// Of both pieces.
    pub fn bytes(self) -> usize {
        self.narrow + self.wide
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens that are normalised or attended take the memory of one layer of hidden columns and a
    /// quarter.
    #[test]
    fn attended_tokens_behind_the_queries_take_no_more_than_the_hidden_layer() {
        let block =
            HieraBlock { dim: 144, dim_out: 144, heads: 2, grid: 256, window: 8, pooled: false };
        let pooled = HieraBlock { dim_out: 288, heads: 4, pooled: true, ..block };
        let tokens = F16 * block.tokens() * block.dim;
        let scratch = Scratch { narrow: tokens, wide: 4 * tokens };
        assert_eq!(Scratch::of(&[block]), scratch);
        assert!(matches!(Behind::of(&block), Behind::Queries(behind) if behind == 3 * tokens));
        // Its queries are of all tokens, which it pools; the hidden layer is of a quarter.
        assert_eq!(Scratch::of(&[block, pooled]), Scratch { wide: 6 * tokens, ..scratch });
        assert!(matches!(Behind::of(&pooled), Behind::Hidden(behind) if behind == 2 * tokens));
        // Of a few tokens the queries end at no multiple of the alignment.
        let few = HieraBlock { dim: 8, dim_out: 8, heads: 1, grid: 3, window: 3, pooled: false };
        assert_eq!(Scratch::of(&[few]), Scratch { narrow: 256, wide: 768 });
    }
}
