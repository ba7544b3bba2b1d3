/*!
What an attention gives: a whole result, or that of each part of the keys, where its reader joins
them.
*/

use anyhow::{Result, ensure};

use super::F16;
use crate::need_exactly;
use cuda::{Gpu, MemoryTag, View};

/// Bytes of a part's result in a column, and of a part's maximum and sum.
const RESULT: usize = 4;
const STATS: usize = 8;
/// What vector loads need.
const ALIGNMENT: usize = 16;

/// The result of an attention.
#[derive(Clone, Debug)]
pub enum Attended {
    /// Whole: f16 `[objects, queries, columns]`.
    Whole(View),
    /// In parts, as [`super::Attention::apart`] gives them.
    Parts(Parts),
}

/// The results of an attention's parts, not yet joined.
#[derive(Clone, Debug)]
pub struct Parts {
    /// f32 `[objects, parts, queries, columns]`, padded columns.
    pub(crate) results: View,
    /// f32 `[objects, parts, queries, 2]`: the maximum in powers of two, and the sum.
    pub(crate) stats: View,
    pub(crate) count: usize,
}

impl Parts {
    /// Memory for so many rows of each part.
    ///
    /// # Errors
    /// Too little memory, or another error of the driver.
    pub(super) fn new(gpu: &Gpu, count: usize, rows: usize, columns: usize) -> Result<Self> {
        let scratch = gpu.tagged(MemoryTag::Scratch);
        let lines = count * rows;
        let results = View::new(&scratch, RESULT * lines * columns)?;
        Ok(Self { results, stats: View::new(&scratch, STATS * lines)?, count })
    }

    /// Whether `other` is the same memory.
    pub(super) fn are(&self, other: &Self) -> bool {
        let address = |parts: &Self| [parts.results.address(), parts.stats.address()];
        (address(self), self.count) == (address(other), other.count)
    }
}

impl Attended {
    /// The whole result, where it is one.
    pub fn whole(&self) -> Option<&View> {
        match self {
            Self::Whole(view) => Some(view),
            Self::Parts(_) => None,
        }
    }

    /// That it is the result of one object with so many queries and columns.
    ///
    /// # Errors
    /// Another size, or at odd addresses.
    pub(crate) fn check(&self, queries: usize, columns: usize) -> Result<()> {
        match self {
            Self::Whole(view) => {
                let size = F16 * queries * columns;
                need_exactly(view, size, ALIGNMENT, "what was attended to")
            }
            Self::Parts(Parts { results, stats, count }) => {
                ensure!(*count > 1, "an attention in {count} parts");
                let lines = count * queries;
                need_exactly(results, RESULT * lines * columns, ALIGNMENT, "an attention's parts")?;
                need_exactly(stats, STATS * lines, STATS, "the sums of an attention's parts")
            }
        }
    }
}
