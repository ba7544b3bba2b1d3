/*!
JPEG frames to RGB with `zune-jpeg`, all or nothing.

The decoder's own default fills what is missing with grey; the strict mode and a
check of the end-of-image marker turn that into an error that names the file.
EXIF orientation is ignored, as SAM 2's own loader does.
*/

use std::path::Path;

use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::{DecodeError, MAX_SIDE, RgbImage};

/// Decodes a whole JPEG file. Grey and CMYK files come back as RGB.
///
/// # Errors
/// The file cannot be read, is no JPEG, is damaged, or ends early.
pub fn jpeg(path: &Path) -> Result<RgbImage, DecodeError> {
    let bytes = read(path)?;
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&bytes), options());
    let data = decoder.decode().map_err(|error| format_error(path, describe(&bytes, error)))?;
    let Some((width, height)) = decoder.dimensions() else {
        return Err(format_error(path, "it states no size".into()));
    };
    if data.len() != 3 * width * height {
        let reason = format!("{} bytes of pixels for {width}x{height} RGB", data.len());
        return Err(format_error(path, reason));
    }
    if !has_end_marker(&bytes) {
        return Err(format_error(path, "the file ends before its end-of-image marker".into()));
    }
    Ok(RgbImage { width, height, data })
}

/// Width and height that the header states; no pixel is decoded.
///
/// # Errors
/// The file cannot be read or has no JPEG header.
pub fn probe_size(path: &Path) -> Result<(usize, usize), DecodeError> {
    let bytes = read(path)?;
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&bytes), options());
    decoder.decode_headers().map_err(|error| format_error(path, describe(&bytes, error)))?;
    decoder.dimensions().ok_or_else(|| format_error(path, "it states no size".into()))
}

fn options() -> DecoderOptions {
    DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(MAX_SIDE)
        .set_max_height(MAX_SIDE)
        .jpeg_set_out_colorspace(ColorSpace::RGB)
}

fn read(path: &Path) -> Result<Vec<u8>, DecodeError> {
    std::fs::read(path).map_err(|source| DecodeError::Io { path: path.into(), source })
}

/// The marker FF D9 must follow the last scan (FF DA); trailing bytes after it do no harm.
fn has_end_marker(bytes: &[u8]) -> bool {
    let last = |marker: u8| bytes.windows(2).rposition(|pair| pair == [0xFF, marker]);
    matches!((last(0xDA), last(0xD9)), (Some(scan), Some(end)) if end > scan)
}

fn describe(bytes: &[u8], error: zune_jpeg::errors::DecodeErrors) -> String {
    match bytes {
        [] => "the file is empty".into(),
        [0xFF, 0xD8, ..] => error.to_string(),
        _ => "it does not begin with a JPEG marker (FF D8)".into(),
    }
}

fn format_error(path: &Path, reason: String) -> DecodeError {
    DecodeError::Format { path: path.into(), expected: "a JPEG frame", reason }
}
