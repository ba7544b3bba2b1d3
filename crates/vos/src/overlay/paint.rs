/*!
Paints a mask on a frame, and writes painted frames as PNG.
*/

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use crate::mask::Mask;

/// Tints the object half green, as the predecessor did, with a fully green outline.
pub fn paint(rgb: &mut [u8], mask: &Mask) {
    let (width, height) = (mask.width(), mask.height());
    for (x, y) in mask.pixels() {
        let inside = x > 0
            && y > 0
            && x + 1 < width
            && y + 1 < height
            && mask.get(x - 1, y)
            && mask.get(x + 1, y)
            && mask.get(x, y - 1)
            && mask.get(x, y + 1);
        let pixel = &mut rgb[3 * (y * width + x)..][..3];
        if inside {
            pixel[1] = pixel[1].midpoint(255);
        } else {
            pixel.copy_from_slice(&[0, 255, 0]);
        }
    }
}

/// Writes interleaved RGB as PNG.
pub fn write_png(path: &Path, (width, height): (usize, usize), rgb: &[u8]) -> anyhow::Result<()> {
    let file = BufWriter::new(File::create(path)?);
    let mut encoder = png::Encoder::new(file, u32::try_from(width)?, u32::try_from(height)?);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(rgb)?;
    writer.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edge_is_green_the_inside_half_green_the_rest_untouched() {
        let mask = Mask::from_fn(5, 5, |x, y| (1..4).contains(&x) && (1..4).contains(&y));
        let mut rgb = [100_u8, 51, 7].repeat(25);
        paint(&mut rgb, &mask);
        let pixel = |x: usize, y: usize| &rgb[3 * (y * 5 + x)..][..3];
        assert_eq!(pixel(0, 0), [100, 51, 7]);
        assert_eq!(pixel(1, 2), [0, 255, 0]);
        assert_eq!(pixel(2, 2), [100, 153, 7]);
    }
}
