/*!
PNG masks to object ids, with the ids kept as they are stored.

Most image crates expand an indexed PNG to its palette's colours and so lose the
object ids. Here the raw samples are unpacked instead: palette indices and greys
of every bit depth become ids. A colour mask has no ids; it counts as foreground
wherever a colour channel is not zero, and says so.
*/

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use png::{ColorType, Transformations};

use super::unpack::{Row, row_ids};
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

/// Decodes a mask file: palette, grey (1 to 16 bits, with or without alpha), RGB or RGBA. Alpha is ignored.
///
/// # Errors
/// The file cannot be read, is no PNG, is damaged, or ends early.
pub fn mask_png(path: &Path) -> Result<IdImage, DecodeError> {
    let file = File::open(path).map_err(|source| DecodeError::Io { path: path.into(), source })?;
    decode(BufReader::new(file)).map_err(|reason| DecodeError::Format {
        path: path.into(),
        expected: "a PNG mask",
        reason,
    })
}

fn decode(file: BufReader<File>) -> Result<IdImage, String> {
    let mut decoder = png::Decoder::new(file);
    decoder.set_transformations(Transformations::IDENTITY);
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(format!("{width}x{height} is larger than {MAX_SIDE}x{MAX_SIDE}"));
    }
    let size = reader.output_buffer_size().ok_or("its size does not fit in memory")?;
    let mut bytes = vec![0; size];
    let frame = reader.next_frame(&mut bytes).map_err(|error| error.to_string())?;
    let mut ids = vec![0; width * height];
    let row = Row { color: frame.color_type, depth: frame.bit_depth };
    for (line, out) in bytes.chunks_exact(frame.line_size).zip(ids.chunks_exact_mut(width)) {
        row_ids(row, line, out);
    }
    let has_ids = !matches!(frame.color_type, ColorType::Rgb | ColorType::Rgba);
    Ok(IdImage { width, height, ids, has_ids })
}
