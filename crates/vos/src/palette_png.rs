/*!
Masks of several objects as one indexed PNG, as DAVIS and SA-V's tools write them: a pixel's palette
index is the id of its object, 0 is background.
*/

use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::files::atomic;
use crate::mask::Mask;

/// Writes `masks` with their ids. Where objects overlap, the smallest id is kept, as in Meta's
/// `vos_inference.py`.
///
/// # Errors
/// A mask has another size, or the file cannot be written.
pub fn write(path: &Path, size: (usize, usize), masks: &[(u8, &Mask)]) -> Result<()> {
    write_ids(path, size, &ids(size, masks)?)
}

/// The PNG of `masks` into `out`, as [`write`] has it in a file.
///
/// # Errors
/// A mask has another size, or `out` fails.
pub fn encode(out: impl Write, size: (usize, usize), masks: &[(u8, &Mask)]) -> Result<()> {
    encode_ids(out, size, &ids(size, masks)?)
}

/// The id of each pixel.
fn ids((width, height): (usize, usize), masks: &[(u8, &Mask)]) -> Result<Vec<u8>> {
    let mut ids = vec![0_u8; width * height];
    let mut order: Vec<&(u8, &Mask)> = masks.iter().collect();
    order.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    for (id, mask) in order {
        ensure!(
            (mask.width(), mask.height()) == (width, height),
            "the mask of object {id} is {}x{}, the frame {width}x{height}",
            mask.width(),
            mask.height()
        );
        for (x, y) in mask.pixels() {
            ids[y * width + x] = *id;
        }
    }
    Ok(ids)
}

/// Writes `ids`, one for each pixel in row-major order.
///
/// # Errors
/// There are not `width` × `height` ids, or the file cannot be written.
pub fn write_ids(path: &Path, size: (usize, usize), ids: &[u8]) -> Result<()> {
    atomic::write(path, |file| encode_ids(file, size, ids))
}

fn encode_ids(out: impl Write, (width, height): (usize, usize), ids: &[u8]) -> Result<()> {
    ensure!(ids.len() == width * height, "{} ids for {width}x{height} pixels", ids.len());
    let size = (u32::try_from(width)?, u32::try_from(height)?);
    let mut encoder = png::Encoder::new(out, size.0, size.1);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    encoder.set_palette(palette());
    let mut writer = encoder.write_header().context("the PNG header")?;
    writer.write_image_data(ids).context("the PNG pixels")?;
    Ok(writer.finish()?)
}

/// The colour map of PASCAL VOC, which DAVIS uses: the bits of an index, three at a time, are the
/// highest bits of red, green and blue.
fn palette() -> Vec<u8> {
    let colour = |index: usize| {
        [0, 1, 2].map(|channel| {
            (0..8).fold(0_u8, |value, bit| {
                let part = (index >> (3 * bit + channel)) as u8 & 1;
                value | part.checked_shl(7 - bit).unwrap_or_default()
            })
        })
    };
    (0..256).flat_map(colour).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::mask_png;

    #[test]
    fn ids_come_back_and_the_smallest_wins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("00000.png");
        let one = Mask::from_fn(5, 3, |x, _| x < 2);
        let seven = Mask::from_fn(5, 3, |x, _| x > 0 && x < 4);
        write(&path, (5, 3), &[(1, &one), (7, &seven)]).unwrap();
        let image = mask_png(&path).unwrap();
        assert!(image.has_ids);
        assert_eq!(image.ids[..5], [1, 1, 7, 7, 0]);
        let error = write(&path, (4, 3), &[(1, &one)]).unwrap_err();
        assert!(format!("{error:#}").contains("object 1 is 5x3"), "{error:#}");
    }

    #[test]
    fn the_palette_is_that_of_davis() {
        let palette = palette();
        let colour = |index: usize| &palette[3 * index..3 * index + 3];
        assert_eq!([colour(0), colour(1), colour(2)], [&[0, 0, 0], &[128, 0, 0], &[0, 128, 0]]);
        assert_eq!(
            [colour(3), colour(8), colour(255)],
            [&[128, 128, 0], &[64, 0, 0], &[224, 224, 192]]
        );
    }
}
