/*!
Raw PNG rows to ids: bit unpacking for each colour type and depth.
*/

use png::{BitDepth, ColorType};

/// How the samples of a row are stored.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub color: ColorType,
    pub depth: BitDepth,
}

/// Writes the id of each pixel of `line` into `out`.
pub(super) fn row_ids(row: Row, line: &[u8], out: &mut [u16]) {
    let (channels, colour_channels) = match row.color {
        ColorType::Grayscale | ColorType::Indexed => (1, 0),
        ColorType::GrayscaleAlpha => (2, 0),
        ColorType::Rgb => (3, 3),
        ColorType::Rgba => (4, 3),
    };
    for (x, id) in out.iter_mut().enumerate() {
        let sample = |channel: usize| sample(line, row.depth, x * channels + channel);
        *id = if colour_channels == 0 {
            sample(0)
        } else {
            u16::from((0..colour_channels).any(|channel| sample(channel) != 0))
        };
    }
}

/// Sample number `index` of a row; samples of less than a byte fill each byte from its high bits
/// down.
fn sample(line: &[u8], depth: BitDepth, index: usize) -> u16 {
    match depth {
        BitDepth::Sixteen => u16::from_be_bytes([line[2 * index], line[2 * index + 1]]),
        BitDepth::Eight => u16::from(line[index]),
        BitDepth::Four => u16::from(line[index / 2] >> (4 - index % 2 * 4) & 0x0F),
        BitDepth::Two => u16::from(line[index / 4] >> (6 - index % 4 * 2) & 0x03),
        BitDepth::One => u16::from(line[index / 8] >> (7 - index % 8) & 0x01),
    }
}
