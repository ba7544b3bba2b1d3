/*!
Low-resolution logits to a bit-packed mask at the video's size: [`Geometry::upsample`] on the
device, bit for bit.
*/

mod counts;
pub(crate) mod selftest;

pub use counts::{COUNTERS_BYTES, MaskCounts};

use anyhow::{Result, ensure};

use super::images::Topic;
use super::tables::Tables;
use super::{Kernels, blocks, int, need_exactly};
use crate::constants::{constant, threads};
use crate::kernel::arguments;
use cuda::module::{Function, Launch};
use cuda::{Gpu, Stream, View};
use vos::geometry::Geometry;

/// Rows of a block.
const ROWS: usize = (constant!(Mask, "WARPS") * constant!(Mask, "ROWS_PER_WARP")) as usize;
/// Threads of a block.
const THREADS: u32 = threads!("mask_words");
/// Bytes of an object's counter of logits that are no finite numbers: a little-endian u32.
pub const NON_FINITE_BYTES: usize = 4;

/// Makes masks of one size from logits of one size; its tables lie on the device.
#[derive(Debug)]
pub struct MaskMaker {
    function: Function,
    columns: View,
    rows: View,
    /// Side of the logits, width, height, words of a row.
    sizes: [i32; 4],
    grid: (u32, u32),
    low_bytes: usize,
    words_bytes: usize,
}

impl MaskMaker {
    /// For `low_side` × `low_side` logits of the geometry's video.
    ///
    /// # Errors
    /// Sizes beyond 2³¹ elements, or what the driver says.
    pub fn new(
        gpu: &Gpu,
        kernels: &Kernels,
        geometry: &Geometry,
        low_side: usize,
        stream: &Stream,
    ) -> Result<Self> {
        ensure!(low_side > 0, "logits of side 0 make no mask");
        let (width, height) = geometry.video_size();
        let words_per_row = width.div_ceil(64);
        for elements in [low_side * low_side, words_per_row * height] {
            int(elements, "the number of logits or of mask words")?;
        }
        let mut tables = Tables::default();
        let [columns, rows] = geometry.upsample_taps(low_side).map(|taps| {
            tables.words::<16>(taps.iter().map(|tap| {
                let (first, second) = (tap.first as u32, tap.second as u32);
                let keep = 1.0 - tap.weight;
                let words = [first, second, keep.to_bits(), tap.weight.to_bits()];
                let mut bytes = [0; 16];
                bytes
                    .chunks_exact_mut(4)
                    .zip(words)
                    .for_each(|(to, w)| to.copy_from_slice(&w.to_le_bytes()));
                bytes
            }))
        });
        let view = tables.upload(gpu, stream)?;
        Ok(Self {
            function: kernels.function(Topic::Mask, "mask_words")?,
            columns: columns.of(&view)?,
            rows: rows.of(&view)?,
            sizes: [
                int(low_side, "a side")?,
                int(width, "a width")?,
                int(height, "a height")?,
                int(words_per_row, "a width")?,
            ],
            grid: (blocks(words_per_row, 1)?, blocks(height, ROWS)?),
            low_bytes: 4 * low_side * low_side,
            words_bytes: 8 * words_per_row * height,
        })
    }

    /// Bytes of one object's mask: the words of [`vos::mask::Mask`], row after row.
    pub fn words_bytes(&self) -> usize {
        self.words_bytes
    }

    /// Writes the masks of one object or of several, and adds the number of logits that are NaN or
    /// infinite to each object's counter. `low`: f32 logits, object after object; `words`:
    /// [`Self::words_bytes`] and `non_finite`: [`NON_FINITE_BYTES`] for each of them. One launch,
    /// no allocation; may be recorded.
    ///
    /// # Errors
    /// Views of another size, or what the driver says.
    pub fn enqueue(
        &self,
        low: &View,
        words: &View,
        non_finite: &View,
        stream: &Stream,
    ) -> Result<()> {
        let objects = (low.len() / self.low_bytes).max(1);
        need_exactly(low, objects * self.low_bytes, 4, "the low-resolution logits")?;
        need_exactly(words, objects * self.words_bytes, 8, "the mask")?;
        need_exactly(non_finite, objects * NON_FINITE_BYTES, 4, "the counters")?;
        let grid = (self.grid.0, self.grid.1, blocks(objects, 1)?);
        let args = arguments!(
            ["mask_words"];
            Views[5]([low, words, non_finite, &self.columns, &self.rows]),
            Ints[4](self.sizes),
        );
        // SAFETY: the arguments are mask_words' own. Taps point inside the logits, and a block
        // writes the words of its object inside the rows and words of these sizes and adds to its
        // counter; all views were measured above.
        unsafe { self.function.launch(Launch { grid, threads: THREADS }, &args, stream) }?;
        Ok(())
    }
}
