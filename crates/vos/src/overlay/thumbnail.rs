/*!
Small JPEG pictures of frames, for reports.
*/

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use crate::decode::RgbImage;

/// A mask's outline stays sharp at this quality, and a picture of 300 pixels has about 15 kB.
const QUALITY: u8 = 78;

/// `image` reduced to at most `width` pixels across by the mean of the pixels under each new pixel.
/// A smaller image is returned as it is.
pub fn shrink(image: &RgbImage, width: usize) -> RgbImage {
    if width == 0 || image.width <= width {
        return image.clone();
    }
    let height = (image.height * width / image.width).max(1);
    let bounds = |at: usize, count: usize, of: usize| {
        let first = at * of / count;
        first..((at + 1) * of / count).max(first + 1)
    };
    let mut data = Vec::with_capacity(3 * width * height);
    for y in 0..height {
        let rows = bounds(y, height, image.height);
        for x in 0..width {
            let columns = bounds(x, width, image.width);
            let mut sums = [0_u32; 3];
            for row in rows.clone() {
                for column in columns.clone() {
                    let pixel = &image.data[3 * (row * image.width + column)..][..3];
                    for (sum, value) in sums.iter_mut().zip(pixel) {
                        *sum += u32::from(*value);
                    }
                }
            }
            let count = (rows.len() * columns.len()) as u32;
            // A mean of bytes is a byte.
            data.extend(sums.map(|sum| ((sum + count / 2) / count) as u8));
        }
    }
    RgbImage { width, height, data }
}

/// The image as JPEG.
///
/// # Errors
/// It has no pixels or more than 65535 in a direction.
pub fn jpeg(image: &RgbImage) -> Result<Vec<u8>> {
    let size = |pixels: usize| u16::try_from(pixels).context("the picture is too large for JPEG");
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, QUALITY);
    // Half the colour resolution would blur a mask's outline.
    encoder.set_sampling_factor(SamplingFactor::F_1_1);
    encoder.set_optimized_huffman_tables(true);
    encoder.encode(&image.data, size(image.width)?, size(image.height)?, ColorType::Rgb)?;
    Ok(bytes)
}

/// Writes the image as JPEG at `path` and creates the folder above.
///
/// # Errors
/// The image is too large, or the file cannot be written.
pub fn write_jpeg(path: &Path, image: &RgbImage) -> Result<()> {
    let bytes = jpeg(image)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut file = BufWriter::new(
        File::create(path).with_context(|| format!("cannot create {}", path.display()))?,
    );
    file.write_all(&bytes)
        .and_then(|()| file.flush())
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_picture_has_the_means_of_the_large_one() {
        let data = (0..4 * 2).flat_map(|at| [at as u8 * 10, 0, 200]).collect();
        let small = shrink(&RgbImage { width: 4, height: 2, data }, 2);
        assert_eq!((small.width, small.height), (2, 1));
        // Columns 0 and 1 of both rows: 0, 10, 40, 50.
        assert_eq!(small.data, [25, 0, 200, 45, 0, 200]);
        let odd = RgbImage { width: 7, height: 3, data: vec![9; 63] };
        assert_eq!(shrink(&odd, 3).data, [9; 9]);
        assert_eq!(shrink(&odd, 7), odd);
    }

    #[test]
    fn a_jpeg_is_written_into_a_new_folder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b.jpg");
        write_jpeg(&path, &RgbImage { width: 8, height: 8, data: vec![120; 192] }).unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(&[0xff, 0xd8, 0xff]));
        let empty = RgbImage { width: 0, height: 0, data: Vec::new() };
        assert!(write_jpeg(&path, &empty).is_err());
    }
}
