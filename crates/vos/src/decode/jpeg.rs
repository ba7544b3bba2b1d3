/*!
Decodes JPEG frames to RGB with libjpeg-turbo (through mozjpeg), whole or not at all.

Pillow, which SAM 2's loader uses, decodes with libjpeg-turbo too: the pixels are identical, so
masks can be compared with the original's. libjpeg fills missing data with grey; here that is an
error that names the file. EXIF orientation is ignored, as in that loader.
*/

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{DecodeError, MAX_SIDE, RgbImage};
use crate::libjpeg::{catch, strict_errors};

/// Decodes a whole JPEG file that was read from `path`. Grey files become RGB.
///
/// # Errors
/// It is not a JPEG, is damaged, ends early, or is CMYK.
pub fn jpeg_bytes(path: &Path, bytes: &[u8]) -> Result<RgbImage, DecodeError> {
    let image = catch(|| {
        let header = mozjpeg::Decompress::with_err(strict_errors()).from_mem(bytes)?;
        check_size(header.size())?;
        let mut decoder = header.rgb()?;
        let (width, height) = (decoder.width(), decoder.height());
        let data = decoder.read_scanlines::<u8>()?;
        decoder.finish()?;
        Ok(RgbImage { width, height, data })
    });
    let image = image.map_err(|reason| format_error(path, describe(bytes, reason)))?;
    if !has_end_marker(bytes) {
        return Err(format_error(path, "the file ends before its end-of-image marker".into()));
    }
    Ok(image)
}

/// Decodes a whole JPEG file of `width` × `height` pixels into `out`, which has `3 * width *
/// height` bytes. Returns the size in the header; if it differs, `out` is unchanged.
///
/// # Errors
/// The file cannot be read, and as [`jpeg_bytes`].
pub fn jpeg_into(
    path: &Path,
    (width, height): (usize, usize),
    out: &mut [u8],
) -> Result<(usize, usize), DecodeError> {
    let bytes = read(path)?;
    let size = catch(|| {
        let header = mozjpeg::Decompress::with_err(strict_errors()).from_mem(&bytes)?;
        check_size(header.size())?;
        if header.size() != (width, height) {
            return Ok(header.size());
        }
        let mut decoder = header.rgb()?;
        decoder.read_scanlines_into(out)?;
        decoder.finish()?;
        Ok((width, height))
    });
    let size = size.map_err(|reason| format_error(path, describe(&bytes, reason)))?;
    if !has_end_marker(&bytes) {
        return Err(format_error(path, "the file ends before its end-of-image marker".into()));
    }
    Ok(size)
}

/// Width and height in the header, without decoding pixels.
///
/// # Errors
/// The file cannot be read or has no JPEG header.
pub fn probe_size(path: &Path) -> Result<(usize, usize), DecodeError> {
    let bytes = read(path)?;
    let size = catch(|| {
        let header = mozjpeg::Decompress::with_err(strict_errors()).from_mem(&bytes)?;
        check_size(header.size()).map(|()| header.size())
    });
    size.map_err(|reason| format_error(path, describe(&bytes, reason)))
}

/// A damaged header can state gigabytes; no video frame is that large.
fn check_size((width, height): (usize, usize)) -> std::io::Result<()> {
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(std::io::Error::other(format!(
            "its header states {width}x{height} pixels; the limit is {MAX_SIDE}x{MAX_SIDE}"
        )));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, DecodeError> {
    std::fs::read(path).map_err(|source| DecodeError::Io { path: path.into(), source })
}

/// Reads a file into `bytes`, whose memory is reused.
///
/// # Errors
/// The file cannot be read.
pub fn read_into(path: &Path, bytes: &mut Vec<u8>) -> Result<(), DecodeError> {
    bytes.clear();
    let read = File::open(path).and_then(|mut file| file.read_to_end(bytes));
    read.map_err(|source| DecodeError::Io { path: path.into(), source })?;
    Ok(())
}

/// The marker FF D9 must follow the last scan (FF DA); bytes after it are ignored.
pub(super) fn has_end_marker(bytes: &[u8]) -> bool {
    let last = |marker: u8| bytes.windows(2).rposition(|pair| pair == [0xFF, marker]);
    matches!((last(0xDA), last(0xD9)), (Some(scan), Some(end)) if end > scan)
}

fn describe(bytes: &[u8], reason: String) -> String {
    match bytes {
        [] => "the file is empty".into(),
        [0xFF, 0xD8, ..] => reason,
        _ => "it does not begin with a JPEG marker (FF D8)".into(),
    }
}

fn format_error(path: &Path, reason: String) -> DecodeError {
    DecodeError::Format { path: path.into(), expected: "a JPEG frame", reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jpeg_encoder::{ColorType, Encoder};

    fn encode(color: ColorType, channels: usize, progressive: bool) -> Vec<u8> {
        let data: Vec<u8> = (0..61 * 47)
            .flat_map(|i| (0..channels).map(move |c| (i % 61 * 3 + i / 61 * (c + 1)) as u8))
            .collect();
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 90);
        encoder.set_progressive(progressive);
        encoder.encode(&data, 61, 47, color).unwrap();
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<RgbImage, DecodeError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("00007.jpg");
        std::fs::write(&path, bytes).unwrap();
        jpeg(&path)
    }

    fn jpeg(path: &Path) -> Result<RgbImage, DecodeError> {
        jpeg_bytes(path, &read(path)?)
    }

    #[test]
    fn colour_and_grey_become_rgb_of_the_stated_size_and_cmyk_is_refused() {
        for color in [ColorType::Cmyk, ColorType::CmykAsYcck] {
            let error = decode(&encode(color, 4, false)).unwrap_err().to_string();
            assert!(error.contains("color conversion"), "{error}");
        }
        for (color, channels) in [(ColorType::Rgb, 3), (ColorType::Luma, 1)] {
            let image = decode(&encode(color, channels, false)).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.jpg");
            std::fs::write(&path, encode(color, channels, false)).unwrap();
            let mut into = vec![1; image.data.len()];
            assert_eq!(jpeg_into(&path, (60, 47), &mut into).unwrap(), (61, 47));
            assert!(into.iter().all(|&byte| byte == 1), "another size leaves the bytes alone");
            assert_eq!(jpeg_into(&path, (61, 47), &mut into).unwrap(), (61, 47));
            assert_eq!(into, image.data, "both ways give the same pixels");
            assert_eq!((image.width, image.height, image.data.len()), (61, 47, 3 * 61 * 47));
            if channels == 1 {
                assert!(image.data.chunks(3).all(|p| p[0] == p[1] && p[1] == p[2]));
            }
        }
    }

    #[test]
    fn no_truncated_file_gives_a_frame() {
        for progressive in [false, true] {
            let bytes = encode(ColorType::Rgb, 3, progressive);
            assert!(decode(&bytes).is_ok());
            for cut in (0..bytes.len()).step_by(13).chain([bytes.len() - 2, bytes.len() - 1]) {
                let error = decode(&bytes[..cut]).unwrap_err().to_string();
                assert!(error.contains("00007.jpg"), "{error}");
                // A crash can leave a file of full length with zeros at its end.
                let mut padded = bytes[..cut].to_vec();
                padded.resize(bytes.len(), 0);
                assert!(decode(&padded).is_err(), "{cut} bytes, then zeros");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_damage_makes_it_panic(
            progressive: bool,
            damage in proptest::collection::vec((proptest::prelude::any::<u16>(), proptest::prelude::any::<u8>()), 1..20),
        ) {
            let mut bytes = encode(ColorType::Rgb, 3, progressive);
            for (at, value) in damage {
                let at = usize::from(at) % bytes.len();
                bytes[at] = value;
            }
            // JPEG has no checksum, so damage may pass; a frame must then at least be complete.
            if let Ok(image) = decode(&bytes) {
                proptest::prop_assert_eq!(image.data.len(), 3 * image.width * image.height);
            }
        }
    }

    #[test]
    fn what_is_no_jpeg_is_named() {
        let error = decode(b"<html>404</html>").unwrap_err().to_string();
        assert!(error.contains("00007.jpg") && error.contains("FF D8"), "{error}");
        let error = jpeg(Path::new("absent/00001.jpg")).unwrap_err();
        assert!(error.is_missing() && error.to_string().contains("00001.jpg"));
    }

    #[test]
    fn the_header_alone_gives_the_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jpg");
        let bytes = encode(ColorType::Rgb, 3, false);
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert_eq!(probe_size(&path).unwrap(), (61, 47));
        assert!(jpeg(&path).is_err());
    }
}
