/*!
Converts a prompt mask in video pixels to the network's mask input.

SAM 2 resizes it with `F.interpolate(mode="bilinear", antialias=True, align_corners=False)` and
keeps values of 0.5 or more. Values of exactly 0.5 are common (any even factor produces them), so
this follows PyTorch's f32 arithmetic and order of axes
(`aten/src/ATen/native/cpu/UpSampleKernel.cpp`).
*/

use crate::geometry::Geometry;
use crate::mask::Mask;

/// `side * side` values, 1.0 on the object and 0.0 elsewhere, padding included.
///
/// # Panics
/// The mask's size differs from the geometry's video.
pub fn prompt_mask(geometry: &Geometry, mask: &Mask) -> Vec<f32> {
    let (width, height) = (mask.width(), mask.height());
    assert_eq!((width, height), geometry.video_size(), "mask of another size than the video");
    let (side, content) = (geometry.side(), geometry.content());
    let columns = weights(width, content.width);
    let mut rows = vec![0.0_f32; content.width * height];
    let mut line = vec![0.0_f32; width];
    for (y, out) in rows.chunks_exact_mut(content.width).enumerate() {
        for (x, value) in line.iter_mut().enumerate() {
            *value = if mask.get(x, y) { 1.0 } else { 0.0 };
        }
        for (value, tap) in out.iter_mut().zip(&columns) {
            let sources = &line[tap.first..];
            *value = tap.weights.iter().zip(sources).map(|(w, v)| w * v).sum();
        }
    }
    let mut result = vec![0.0_f32; side * side];
    let mut sums = vec![0.0_f32; content.width];
    for (y, tap) in weights(height, content.height).iter().enumerate() {
        sums.fill(0.0);
        let sources = rows[tap.first * content.width..].chunks_exact(content.width);
        for (source, weight) in sources.zip(&tap.weights) {
            for (sum, value) in sums.iter_mut().zip(source) {
                *sum += value * weight;
            }
        }
        let start = (content.y + y) * side + content.x;
        for (value, &sum) in result[start..start + content.width].iter_mut().zip(&sums) {
            *value = if sum >= 0.5 { 1.0 } else { 0.0 };
        }
    }
    result
}

/// The input positions of one output position, starting at `first`.
pub(super) struct Tap {
    pub first: usize,
    pub weights: Vec<f32>,
}

/// PyTorch's antialiased bilinear weights of one axis.
pub(super) fn weights(from: usize, to: usize) -> Vec<Tap> {
    let scale = from as f32 / to as f32;
    let support = scale.max(1.0);
    let narrow = if scale >= 1.0 { 1.0 / scale } else { 1.0 };
    let tap = |position: usize| {
        let center = scale * (position as f32 + 0.5);
        let first = (center - support + 0.5).max(0.0) as usize;
        let end = ((center + support + 0.5) as usize).min(from);
        let triangle = |x: usize| (1.0 - ((x as f32 - center + 0.5) * narrow).abs()).max(0.0);
        let mut weights: Vec<f32> = (first..end).map(triangle).collect();
        let sum: f32 = weights.iter().sum();
        if sum != 0.0 {
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        Tap { first, weights }
    };
    (0..to).map(tap).collect()
}
