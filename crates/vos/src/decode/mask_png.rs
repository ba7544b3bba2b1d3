/*!
Decodes PNG masks to object ids, unchanged.

Most image crates expand an indexed PNG to its palette's colours and so lose the object ids. Here
raw samples are unpacked: palette indices and greys of every bit depth become ids. A colour mask has
no ids; every pixel with a non-zero colour channel is foreground, and `has_ids` is false.
*/

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use png::{BitDepth, ColorType, Transformations};

use super::{DecodeError, MAX_SIDE};
use crate::mask::Mask;

/// The ids of a mask file, one for each pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdImage {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// `width * height` ids in row-major order; 0 is background.
    pub ids: Vec<u16>,
    /// False for RGB and RGBA files: their `ids` are only 0 (black) or 1 (any colour).
    pub has_ids: bool,
}

impl IdImage {
    /// The pixels of one id, or every non-zero pixel.
    pub fn mask(&self, id: Option<u16>) -> Mask {
        Mask::from_fn(self.width, self.height, |x, y| {
            let found = self.ids[y * self.width + x];
            id.map_or(found != 0, |id| found == id)
        })
    }

    /// The non-zero ids in ascending order.
    pub fn present(&self) -> Vec<u16> {
        let mut seen = vec![false; usize::from(u16::MAX) + 1];
        for &id in &self.ids {
            seen[usize::from(id)] = true;
        }
        (1..=u16::MAX).filter(|&id| seen[usize::from(id)]).collect()
    }
}

/// Decodes a mask file: palette, grey (1 to 16 bits, with or without alpha), RGB or RGBA. Alpha is
/// ignored.
///
/// # Errors
/// The file cannot be read, is not a PNG, is damaged, or ends early.
pub fn mask_png(path: &Path) -> Result<IdImage, DecodeError> {
    opened(path, |file| decode(header(file)?))
}

/// Width and height in the header, without decoding pixels.
///
/// # Errors
/// The file cannot be read or has no PNG header.
pub fn mask_png_size(path: &Path) -> Result<(usize, usize), DecodeError> {
    opened(path, |file| header(file).map(|reader| size(&reader)))
}

fn opened<T>(
    path: &Path,
    read: impl FnOnce(BufReader<File>) -> Result<T, String>,
) -> Result<T, DecodeError> {
    let file = File::open(path).map_err(|source| DecodeError::Io { path: path.into(), source })?;
    read(BufReader::new(file)).map_err(|reason| DecodeError::Format {
        path: path.into(),
        expected: "a PNG mask",
        reason,
    })
}

/// A reader after the header of an image within the size limit.
fn header(file: BufReader<File>) -> Result<png::Reader<BufReader<File>>, String> {
    let mut decoder = png::Decoder::new(file);
    decoder.set_transformations(Transformations::IDENTITY);
    let reader = decoder.read_info().map_err(|error| error.to_string())?;
    let (width, height) = size(&reader);
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(format!("{width}x{height} is larger than {MAX_SIDE}x{MAX_SIDE}"));
    }
    Ok(reader)
}

fn size(reader: &png::Reader<BufReader<File>>) -> (usize, usize) {
    (reader.info().width as usize, reader.info().height as usize)
}

fn decode(mut reader: png::Reader<BufReader<File>>) -> Result<IdImage, String> {
    let (width, height) = size(&reader);
    let size = reader.output_buffer_size().ok_or("its size does not fit in memory")?;
    let mut bytes = vec![0; size];
    let frame = reader.next_frame(&mut bytes).map_err(|error| error.to_string())?;
    let mut ids = vec![0; width * height];
    let row = PackedRow { color: frame.color_type, depth: frame.bit_depth };
    for (line, out) in bytes.chunks_exact(frame.line_size).zip(ids.chunks_exact_mut(width)) {
        row_ids(row, line, out);
    }
    let has_ids = !matches!(frame.color_type, ColorType::Rgb | ColorType::Rgba);
    Ok(IdImage { width, height, ids, has_ids })
}

/// How the samples of a row are stored.
#[derive(Clone, Copy)]
struct PackedRow {
    color: ColorType,
    depth: BitDepth,
}

/// Writes the id of each pixel of `line` into `out`.
fn row_ids(row: PackedRow, line: &[u8], out: &mut [u16]) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;

    /// Writes packed rows unchanged.
    fn write(
        dir: &Path,
        (w, h): (usize, usize),
        color: ColorType,
        depth: BitDepth,
        rows: &[u8],
    ) -> PathBuf {
        let path = dir.join("mask.png");
        let mut encoder = png::Encoder::new(File::create(&path).unwrap(), w as u32, h as u32);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if color == ColorType::Indexed {
            // Different ids with the same colour: only the index distinguishes them.
            encoder.set_palette([10, 200, 30].repeat(256));
        }
        encoder.write_header().unwrap().write_image_data(rows).unwrap();
        path
    }

    /// Packs ids of `bits` bits into rows that start at a byte.
    fn pack(ids: &[u16], width: usize, bits: usize) -> Vec<u8> {
        let mut rows = Vec::new();
        for line in ids.chunks(width) {
            if bits == 16 {
                rows.extend(line.iter().flat_map(|id| id.to_be_bytes()));
                continue;
            }
            for group in line.chunks(8 / bits) {
                let mut byte = 0;
                for (k, id) in group.iter().enumerate() {
                    byte |= (*id as u8) << (8 - bits * (k + 1));
                }
                rows.push(byte);
            }
        }
        rows
    }

    proptest! {
        #[test]
        fn ids_survive_every_bit_depth(
            width in 1_usize..20, height in 1_usize..6, depth in 0_usize..5, indexed: bool, seed: u64,
        ) {
            let depth = [BitDepth::One, BitDepth::Two, BitDepth::Four, BitDepth::Eight, BitDepth::Sixteen][depth];
            let bits = depth as usize;
            let color = if indexed && bits < 16 { ColorType::Indexed } else { ColorType::Grayscale };
            let ids: Vec<u16> = (0..width * height)
                .map(|i| (seed.rotate_left(i as u32 * 7) % (1 << bits)) as u16)
                .collect();
            let dir = tempfile::tempdir().unwrap();
            let path = write(dir.path(), (width, height), color, depth, &pack(&ids, width, bits));
            let image = mask_png(&path).unwrap();
            prop_assert!(image.has_ids);
            prop_assert_eq!((image.width, image.height), (width, height));
            prop_assert_eq!(&image.ids, &ids);
            let present: std::collections::BTreeSet<u16> = ids.iter().copied().filter(|&id| id != 0).collect();
            prop_assert_eq!(image.present(), present.into_iter().collect::<Vec<_>>());
            for id in image.present() {
                let area = ids.iter().filter(|&&other| other == id).count();
                prop_assert_eq!(image.mask(Some(id)).area(), area);
            }
        }
    }

    #[test]
    fn colour_counts_as_foreground_and_alpha_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let rgba = [0, 0, 0, 255, 0, 0, 9, 0, 128, 0, 0, 255];
        let image =
            mask_png(&write(dir.path(), (3, 1), ColorType::Rgba, BitDepth::Eight, &rgba)).unwrap();
        assert_eq!((image.ids.as_slice(), image.has_ids), ([0, 1, 1].as_slice(), false));
        let grey = [0, 255, 7, 0];
        let image =
            mask_png(&write(dir.path(), (2, 1), ColorType::GrayscaleAlpha, BitDepth::Eight, &grey))
                .unwrap();
        assert_eq!((image.ids.as_slice(), image.has_ids), ([0, 7].as_slice(), true));
    }

    #[test]
    fn damaged_files_are_errors_that_name_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path(), (40, 40), ColorType::Grayscale, BitDepth::Eight, &[5; 1600]);
        let bytes = std::fs::read(&path).unwrap();
        for cut in 0..bytes.len() - 12 {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let error = mask_png(&path).unwrap_err().to_string();
            assert!(error.contains("mask.png") && error.contains("PNG mask"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(mask_png(&path).unwrap_err().is_missing());
    }
}
