/*!
Upsamples low-resolution logits to a mask of the video's size.

This is PyTorch's `F.interpolate(mode="bilinear", align_corners=False)` followed by `> 0`, in
PyTorch's order of operations and precision (f32 indices and weights,
`aten/src/ATen/native/cpu/UpSampleKernel.cpp`), so that a mask has the same pixels as the reference
predictor's. Columns are interpolated once for each low-resolution row and reused by all video rows
between two of them, which leaves one multiply-add and one bit for each video pixel.
*/

use super::Geometry;
use crate::mask::Mask;

/// The two source samples of an output position and the weight of the second.
#[derive(Clone, Copy)]
pub struct Tap {
    /// Index of the first.
    pub first: usize,
    /// Index of the second.
    pub second: usize,
    /// Weight of the second, 0..1.
    pub weight: f32,
}

impl Geometry {
    /// The video's mask for `low` (`low_side` × `low_side` logits, row-major).
    ///
    /// With a letterbox only the content counts; samples next to its edge may mix with the padding,
    /// as in the network's view.
    ///
    /// # Panics
    /// `low` does not have `low_side * low_side` elements.
    pub fn upsample(&self, low: &[f32], low_side: usize) -> Mask {
        assert_eq!(low.len(), low_side * low_side, "low-resolution logits of the wrong size");
        let (width, height) = self.video_size();
        let [columns, rows] = self.upsample_taps(low_side);
        let mut mask = Mask::new(width, height);
        let (mut upper, mut lower) = (LogitRow::new(width), LogitRow::new(width));
        for (y, tap) in rows.iter().enumerate() {
            if lower.source == Some(tap.first) {
                std::mem::swap(&mut upper, &mut lower);
            }
            upper.fill(tap.first, low, low_side, &columns);
            lower.fill(tap.second, low, low_side, &columns);
            threshold(&upper.values, &lower.values, tap.weight, mask.row_mut(y));
        }
        mask
    }

    /// Samples and weights of each column and each row of the video.
    pub fn upsample_taps(&self, low_side: usize) -> [Vec<Tap>; 2] {
        let ((width, height), content, side) = (self.video_size(), self.content(), self.side());
        [
            taps(width, low_side, content.x, content.width, side),
            taps(height, low_side, content.y, content.height, side),
        ]
    }
}

/// One low-resolution row, interpolated to the video's width.
struct LogitRow {
    source: Option<usize>,
    values: Vec<f32>,
}

impl LogitRow {
    fn new(width: usize) -> Self {
        Self { source: None, values: vec![0.0; width] }
    }

    fn fill(&mut self, source: usize, low: &[f32], low_side: usize, columns: &[Tap]) {
        if self.source == Some(source) {
            return;
        }
        let row = &low[source * low_side..(source + 1) * low_side];
        for (value, tap) in self.values.iter_mut().zip(columns) {
            *value = (1.0 - tap.weight) * row[tap.first] + tap.weight * row[tap.second];
        }
        self.source = Some(source);
    }
}

/// Sets the bit of every pixel with a positive blended logit.
fn threshold(upper: &[f32], lower: &[f32], weight: f32, words: &mut [u64]) {
    for ((word, upper), lower) in words.iter_mut().zip(upper.chunks(64)).zip(lower.chunks(64)) {
        for (bit, (a, b)) in upper.iter().zip(lower).enumerate() {
            *word |= u64::from((1.0 - weight) * a + weight * b > 0.0) << bit;
        }
    }
}

/// Source samples of each of `length` positions that show `content` of `side` network pixels,
/// starting at `offset`.
fn taps(length: usize, low: usize, offset: usize, content: usize, side: usize) -> Vec<Tap> {
    let low_per_network = low as f32 / side as f32;
    // Without padding this is exactly PyTorch's `input_size / output_size`.
    let scale = if content == side {
        low as f32 / length as f32
    } else {
        content as f32 / length as f32 * low_per_network
    };
    let start = offset as f32 * low_per_network;
    let tap = |position: usize| {
        let source = (scale * (position as f32 + 0.5) - 0.5 + start).max(0.0);
        let first = (source as usize).min(low - 1);
        let second = (first + 1).min(low - 1);
        Tap { first, second, weight: (source - first as f32).clamp(0.0, 1.0) }
    };
    (0..length).map(tap).collect()
}
