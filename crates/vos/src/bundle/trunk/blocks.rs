//! What the blocks of every kind of trunk have in common: each takes a map and gives one.

use anyhow::{Context, Result, ensure};

use super::STAGES;
use crate::bundle::tensors::Tensor;

/// Columns that the kernels move at once.
pub const STEP: usize = 8;

/// A square map of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapShape {
    /// Side, tokens.
    pub grid: usize,
    /// Columns of a token.
    pub columns: usize,
}

/// A block of one kind.
pub(super) trait Block: Sized {
    /// The map that it takes.
    fn takes(&self) -> MapShape;

    /// The map that it gives.
    fn gives(&self) -> MapShape;

    /// Checks that there are kernels for it.
    ///
    /// # Errors
    /// What they do not take.
    fn check(&self) -> Result<()>;

    /// Checks the blocks of a stage, of which `first` is the first one's number.
    ///
    /// # Errors
    /// A map changes where it may not.
    fn check_stage(stage: usize, first: usize, blocks: &[Self]) -> Result<()>;

    /// The tensors of block `at`, in the order of its work.
    fn tensors(&self, at: usize) -> Vec<Tensor>;
}

/// Checks each block and each stage, and that the blocks follow each other.
///
/// # Errors
/// What does not fit, with the block's number.
pub(super) fn check<B: Block>(blocks: &[B], ends: &[usize; STAGES]) -> Result<()> {
    let count = blocks.len();
    ensure!(
        ends.is_sorted_by(|a, b| a < b) && ends.last().map(|end| end + 1) == Some(count),
        "the trunk has {count} blocks and its stages end at {ends:?}: expected rising numbers, and \
         the last block's at the end"
    );
    let mut before: Option<MapShape> = None;
    for (at, block) in blocks.iter().enumerate() {
        let MapShape { grid, columns } = block.takes();
        let steps = |columns: usize| columns > 0 && columns.is_multiple_of(STEP);
        let given = block.gives().columns;
        let checked = || {
            ensure!(
                steps(columns) && steps(given),
                "its dim {columns} and dim_out {given} must be multiples of {STEP}"
            );
            ensure!(grid > 0, "its map has no tokens (grid 0)");
            block.check()
        };
        checked().with_context(|| format!("block {at} of the trunk"))?;
        if let Some(made) = before.filter(|made| *made != block.takes()) {
            anyhow::bail!(
                "block {at} of the trunk takes a map of side {grid} with {columns} columns, the \
                 one before it gives side {} with {}",
                made.grid,
                made.columns
            );
        }
        before = Some(block.gives());
    }
    let mut first = 0;
    for (stage, end) in ends.iter().enumerate() {
        let of_stage = blocks.get(first..=*end).context("a stage without blocks")?;
        B::check_stage(stage, first, of_stage)?;
        first = end + 1;
    }
    Ok(())
}
