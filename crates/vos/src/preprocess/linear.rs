/*!
The bilinear resizes on the CPU, the reference for the kernels of `cuda/preprocess.cu`.

Nothing is rounded to bytes: `v / 255`, along the rows, along the columns, then `(v - mean) / std`,
with every operation rounded to f32 and every sum taken from the first sample on. PyTorch's kernels
may fuse multiply and add, so they agree with this to a few units in the last place, not bit for
bit.
*/

use super::{WrongFrameSize, mask};
use crate::decode::RgbImage;
use crate::geometry::Geometry;

/// First input position and weights of each output position of one axis.
pub fn taps(antialias: bool, from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    if antialias {
        return mask::weights(from, to).into_iter().map(|tap| (tap.first, tap.weights)).collect();
    }
    let scale = from as f32 / to as f32;
    let tap = |position: usize| {
        let source = (scale * (position as f32 + 0.5) - 0.5).max(0.0);
        let first = (source as usize).min(from - 1);
        let weight = (source - first as f32).clamp(0.0, 1.0);
        // Beyond the last sample there is no second one, and both weights belong to the first.
        match first + 1 < from {
            true => (first, vec![1.0 - weight, weight]),
            false => (first, vec![1.0]),
        }
    };
    (0..to).map(tap).collect()
}

/// `3 * side * side` values, channel by channel, row by row; black around a letterbox's content.
///
/// # Errors
/// The frame's size differs from the geometry's video.
pub fn run(
    geometry: &Geometry,
    antialias: bool,
    image: &RgbImage,
    mean: [f32; 3],
    std: [f32; 3],
) -> Result<Vec<f32>, WrongFrameSize> {
    let (expected, found) = (geometry.video_size(), (image.width, image.height));
    if found != expected {
        return Err(WrongFrameSize { found, expected });
    }
    let (side, content) = (geometry.side(), geometry.content());
    let columns = taps(antialias, image.width, content.width);
    let rows = taps(antialias, image.height, content.height);
    let mut out = Vec::with_capacity(3 * side * side);
    for channel in 0..3 {
        let mut plane = vec![0.0_f32; side * side];
        let along_rows = resize_rows(image, channel, &columns);
        for (y, (first, weights)) in rows.iter().enumerate() {
            let start = (content.y + y) * side + content.x;
            let target = &mut plane[start..start + content.width];
            let sources = along_rows.chunks_exact(content.width).skip(*first);
            for (source, weight) in sources.zip(weights) {
                for (sum, value) in target.iter_mut().zip(source) {
                    *sum += weight * value;
                }
            }
        }
        out.extend(plane.iter().map(|value| (value - mean[channel]) / std[channel]));
    }
    Ok(out)
}

/// One channel, every row of the frame resized.
fn resize_rows(image: &RgbImage, channel: usize, columns: &[(usize, Vec<f32>)]) -> Vec<f32> {
    let mut out = Vec::with_capacity(columns.len() * image.height);
    for line in image.data.chunks_exact(3 * image.width) {
        for (first, weights) in columns {
            let pixels = line.chunks_exact(3).skip(*first);
            let mut sum = 0.0_f32;
            for (pixel, weight) in pixels.zip(weights) {
                sum += weight * (f32::from(pixel[channel]) / 255.0);
            }
            out.push(sum);
        }
    }
    out
}
