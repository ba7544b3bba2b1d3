/*!
How much memory a trunk shares with the engines around it, which run before and behind it.
*/

use super::trunk::HALF;
use super::trunk_products::HIDDEN;
use cuda::cublaslt::ALIGNMENT;
use vos::bundle::trunk::Trunk;

/// Bytes of the pieces of shared memory that a trunk works in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Tokens, normalised or attended.
    pub narrow: usize,
    /// Queries, keys and values; the hidden layer.
    pub wide: usize,
}

impl Room {
    pub fn of(trunk: &Trunk) -> Self {
        let mut room = Self::default();
        for block in &trunk.blocks {
            let (rows, rows_out) = (block.tokens(), block.tokens_out());
            let narrow = (rows * block.dim).max(rows_out * block.dim_out);
            let wide = (rows * 3 * block.dim_out).max(rows_out * HIDDEN * block.dim_out);
            room.narrow = room.narrow.max(HALF * narrow);
            room.wide = room.wide.max(HALF * wide);
        }
        let [narrow, wide] = [room.narrow, room.wide].map(|b| b.next_multiple_of(ALIGNMENT));
        Self { narrow, wide }
    }

    /// All of it.
    pub fn bytes(self) -> usize {
        self.narrow + self.wide
    }
}
