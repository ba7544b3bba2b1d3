/*!
What a predicted mask and a ground truth have in common, counted on the device: the integers of
[`metrics::Counts`].
*/

use anyhow::{Result, ensure};

use crate::constants::threads;
use crate::images::Topic;
use crate::kernel::arguments;
use crate::tables::Tables;
use crate::{Kernels, blocks, int, need_exactly};
use cuda::module::{Function, Launch};
use cuda::{Gpu, Stream, View};
use vos::metrics::{self, Counts, MetricsKind};

/// Threads of a block of both kernels.
const THREADS: u32 = threads!("mask_boundaries");
const _: () = assert!(threads!("mask_near") == THREADS);
/// Bytes of the counters of one pair of masks.
pub const COUNTERS_BYTES: usize = 32;

/// Counts for masks of one size under one evaluator's rules.
#[derive(Debug)]
pub struct MaskCounts {
    boundaries: Function,
    near: Function,
    half_widths: View,
    /// The boundaries of both masks.
    edges: [View; 2],
    radius: i32,
    /// Width, height, words of a row.
    sizes: [i32; 3],
    half_pixels: bool,
    words_bytes: usize,
}

impl MaskCounts {
    /// For masks of `width` × `height` pixels.
    ///
    /// # Errors
    /// A side of 0, sizes beyond 2³¹ words, or what the driver says.
    pub fn new(
        gpu: &Gpu,
        kernels: &Kernels,
        (width, height): (usize, usize),
        kind: MetricsKind,
        stream: &Stream,
    ) -> Result<Self> {
        ensure!(width > 0 && height > 0, "masks of {width}x{height} have no pixels to count");
        let words_per_row = width.div_ceil(64);
        int(64 * words_per_row * height, "the number of pixels")?;
        let half_widths = metrics::neighbourhood(kind, width, height);
        let radius = int(half_widths.len() - 1, "a radius")?;
        let mut tables = Tables::default();
        let place = tables.ints(half_widths.iter().map(|half| *half as i32));
        let view = tables.upload(gpu, stream)?;
        let words_bytes = 8 * words_per_row * height;
        Ok(Self {
            boundaries: kernels.function(Topic::Mask, "mask_boundaries")?,
            near: kernels.function(Topic::Mask, "mask_near")?,
            half_widths: place.of(&view)?,
            edges: [View::new(gpu, words_bytes)?, View::new(gpu, words_bytes)?],
            radius,
            sizes: [
                int(width, "a width")?,
                int(height, "a height")?,
                int(words_per_row, "a width")?,
            ],
            half_pixels: kind == MetricsKind::Official,
            words_bytes,
        })
    }

    /// Counts into `counters`, [`COUNTERS_BYTES`] that are cleared first. Two launches and a fill,
    /// no allocation; may be recorded. What runs at the same time needs a value of its own: the
    /// boundaries lie in this one.
    ///
    /// # Errors
    /// Views of another size, or what the driver says.
    pub fn enqueue(
        &self,
        truth: &View,
        prediction: &View,
        counters: &View,
        stream: &Stream,
    ) -> Result<()> {
        need_exactly(truth, self.words_bytes, 8, "the ground truth")?;
        need_exactly(prediction, self.words_bytes, 8, "the mask")?;
        need_exactly(counters, COUNTERS_BYTES, 4, "the counters")?;
        counters.fill(0, stream)?;
        let [truth_edge, prediction_edge] = &self.edges;
        let args = arguments!(
            ["mask_boundaries"];
            Views[5]([truth, prediction, truth_edge, prediction_edge, counters]),
            Ints[3](self.sizes),
            I32(i32::from(self.half_pixels)),
        );
        let grid = (blocks(self.words_bytes / 8, THREADS as usize)?, 1, 1);
        // SAFETY: the arguments are mask_boundaries' own; masks and boundaries have the words of
        // these sizes, and there are eight counters.
        unsafe { self.boundaries.launch(Launch { grid, threads: THREADS }, &args, stream) }?;
        let [width, height, _] = self.sizes;
        let args = arguments!(
            ["mask_near"];
            Views[4]([truth_edge, prediction_edge, counters, &self.half_widths]),
            I32(self.radius),
            Ints[3](self.sizes),
        );
        let grid = (blocks(width as usize, THREADS as usize)?, height as u32, 2);
        // SAFETY: the arguments are mask_near's own; it looks at rows and words of these sizes
        // only, and at `radius` + 1 half-widths.
        unsafe { self.near.launch(Launch { grid, threads: THREADS }, &args, stream) }?;
        Ok(())
    }

    /// The counters, once they are on the host.
    ///
    /// # Errors
    /// Not [`COUNTERS_BYTES`] bytes.
    pub fn read(bytes: &[u8]) -> Result<Counts> {
        let found = bytes.len();
        ensure!(
            found == COUNTERS_BYTES,
            "{found} bytes of counters, {COUNTERS_BYTES} are expected"
        );
        let mut counters = [0; 8];
        for (counter, bytes) in counters.iter_mut().zip(bytes.chunks_exact(4)) {
            *counter = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        }
        let [intersection, union, truth, prediction, truth_boundary, prediction_boundary, ..] =
            counters;
        let [.., truth_near, prediction_near] = counters;
        Ok(Counts {
            intersection,
            union,
            truth,
            prediction,
            truth_boundary,
            prediction_boundary,
            truth_near,
            prediction_near,
        })
    }
}
