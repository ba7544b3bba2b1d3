/*!
The shapes of a trunk's products: what is asked of cuBLASLt for each block.
*/

use cuda::Element;
use cuda::cublaslt::MatmulShape;
use vos::bundle::trunk::{Trunk, TrunkBlock};

/// Columns of the hidden layer for each of a block's own.
pub const HIDDEN: usize = 4;

/// The products of one block.
pub struct BlockProducts {
    /// Around the attention, where more columns come out than went in.
    pub skip: Option<MatmulShape>,
    pub qkv: MatmulShape,
    pub proj: MatmulShape,
    pub up: MatmulShape,
    pub down: MatmulShape,
}

impl BlockProducts {
    pub fn of(block: &TrunkBlock) -> Self {
        let (rows, rows_out) = (block.tokens(), block.tokens_out());
        let (columns, columns_out) = (block.dim, block.dim_out);
        let half = |rows, columns, depth| MatmulShape {
            rows,
            columns,
            depth,
            output: Element::F16,
            residual: false,
        };
        let added = |depth| MatmulShape {
            output: Element::F32,
            residual: true,
            ..half(rows_out, columns_out, depth)
        };
        let hidden = HIDDEN * columns_out;
        Self {
            skip: block.skips().then(|| half(rows, columns_out, columns)),
            qkv: half(rows, 3 * columns_out, columns),
            proj: added(columns_out),
            up: half(rows_out, hidden, columns_out),
            down: added(hidden),
        }
    }
}

/// Those of all blocks, each shape once.
pub fn shapes_of(trunk: &Trunk) -> Vec<MatmulShape> {
    let mut all = Vec::new();
    for block in &trunk.blocks {
        let BlockProducts { skip, qkv, proj, up, down } = BlockProducts::of(block);
        for shape in skip.into_iter().chain([qkv, proj, up, down]) {
            if !all.contains(&shape) {
                all.push(shape);
            }
        }
    }
    all
}
