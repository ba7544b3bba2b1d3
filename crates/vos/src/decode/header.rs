/*!
Checks a JPEG file's header before nvJPEG gets the file.

libjpeg-turbo reports unsupported files. nvJPEG supports fewer kinds, misreads some (three channels
that are stored as RGB), and fills truncated files. So its files are checked first.
*/

use std::path::Path;

use super::jpeg::has_end_marker;
use super::{DecodeError, MAX_SIDE};

/// Advice if libjpeg-turbo reads the file.
const TURBO: &str = "use --jpeg-decoder turbo";
/// Advice if it does not either.
const NEITHER: &str = "--jpeg-decoder turbo does not either: re-export the file as an 8-bit \
                       baseline JPEG, grey or YCbCr";

/// Width and height of a file that nvJPEG decodes correctly.
///
/// # Errors
/// The file is not a complete JPEG, or of a kind that nvJPEG decodes differently from other
/// decoders.
pub fn size_for_nvjpeg(path: &Path, bytes: &[u8]) -> Result<(usize, usize), DecodeError> {
    let broken = |reason: String| DecodeError::Format {
        path: path.into(),
        expected: "a JPEG frame",
        reason,
    };
    let header = Header::of(bytes).map_err(broken)?;
    let (width, height) = header.size;
    if width > MAX_SIDE || height > MAX_SIDE || width == 0 || height == 0 {
        return Err(broken(format!("it states {width}x{height} pixels")));
    }
    if let Some((reason, advice)) = header.unfit() {
        return Err(DecodeError::Unsupported { path: path.into(), reason, advice });
    }
    if !has_end_marker(bytes) {
        return Err(broken("the file ends before its end-of-image marker".into()));
    }
    Ok(header.size)
}

/// The error for a file that nvJPEG refused; libjpeg-turbo may read it.
pub fn refused_by_nvjpeg(path: &Path, reason: String) -> DecodeError {
    DecodeError::Unsupported { path: path.into(), reason, advice: TURBO }
}

/// The markers before the first scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Header {
    /// The frame's marker, 0xC0 for baseline.
    frame: u8,
    precision: u8,
    size: (usize, usize),
    components: Vec<u8>,
    jfif: bool,
    /// The colour transform of Adobe's marker.
    adobe: Option<u8>,
}

impl Header {
    fn of(bytes: &[u8]) -> Result<Self, String> {
        match bytes {
            [] => return Err("the file is empty".into()),
            [0xFF, 0xD8, ..] => {}
            _ => return Err("it does not begin with a JPEG marker (FF D8)".into()),
        }
        let mut header = Self::default();
        let mut rest = &bytes[2..];
        loop {
            // Any number of FF bytes may precede a marker.
            let start = rest.iter().position(|&byte| byte != 0xFF).unwrap_or(rest.len());
            let (Some(&marker), true) = (rest.get(start), start > 0) else {
                return Err("its header is damaged".into());
            };
            rest = &rest[start + 1..];
            match marker {
                // Without a segment: an early restart, or a filler.
                0x01 | 0xD0..=0xD7 => continue,
                0xD9 => return Err("it has no image".into()),
                _ => {}
            }
            let length = rest.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length)));
            let segment = length.and_then(|length| rest.get(2..length));
            let segment = segment.ok_or("it ends in its header")?;
            match marker {
                0xC0..=0xCF if ![0xC4, 0xC8, 0xCC].contains(&marker) => {
                    header.read_frame(marker, segment)?;
                }
                0xDA if header.frame == 0 => return Err("it has a scan without a frame".into()),
                0xDA => return Ok(header),
                0xE0 => header.jfif |= segment.starts_with(b"JFIF\0"),
                0xEE if segment.starts_with(b"Adobe") => header.adobe = segment.get(11).copied(),
                _ => {}
            }
            rest = &rest[2 + segment.len()..];
        }
    }

    fn read_frame(&mut self, marker: u8, segment: &[u8]) -> Result<(), String> {
        let &[precision, h1, h0, w1, w0, count, ref components @ ..] = segment else {
            return Err("its frame header is too short".into());
        };
        if components.len() < 3 * usize::from(count) {
            return Err("its frame header is too short".into());
        }
        let number = |high, low| usize::from(u16::from_be_bytes([high, low]));
        self.frame = marker;
        self.precision = precision;
        self.size = (number(w1, w0), number(h1, h0));
        let ids = components.chunks_exact(3).take(usize::from(count));
        self.components = ids.map(|component| component[0]).collect();
        Ok(())
    }

    /// Why nvJPEG must not get it, and advice.
    fn unfit(&self) -> Option<(String, &'static str)> {
        let refused = |reason: &str, advice| Some((reason.to_owned(), advice));
        match self.frame {
            0xC0..=0xC2 => {}
            0xC3 => return refused("it is lossless", NEITHER),
            0xC9..=0xCF => return refused("its entropy code is arithmetic", NEITHER),
            _ => return refused("it is hierarchical", NEITHER),
        }
        if self.precision != 8 {
            let reason = format!("it has {} bits a sample, not 8", self.precision);
            return Some((reason, NEITHER));
        }
        match self.components.as_slice() {
            [_] => None,
            [..] if self.components.len() == 4 => refused("its colours are CMYK", NEITHER),
            [..] if self.components.len() != 3 => {
                Some((format!("it has {} channels", self.components.len()), NEITHER))
            }
            // As in libjpeg: a JFIF file is never RGB, Adobe's files have a marker, others have the
            // channel names R, G, B.
            ids if !self.jfif
                && (self.adobe == Some(0) || self.adobe.is_none() && ids == b"RGB") =>
            {
                refused("its channels are stored as RGB", TURBO)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use jpeg_encoder::{ColorType, Encoder};

    use super::*;
    use crate::decode::jpeg_bytes;

    fn encode(color: ColorType, channels: usize, progressive: bool) -> Vec<u8> {
        let data: Vec<u8> = (0..61 * 47 * channels).map(|i| (i % 251) as u8).collect();
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 90);
        encoder.set_progressive(progressive);
        encoder.encode(&data, 61, 47, color).unwrap();
        bytes
    }

    fn size(bytes: &[u8]) -> Result<(usize, usize), String> {
        size_for_nvjpeg(Path::new("00007.jpg"), bytes).map_err(|error| error.to_string())
    }

    fn turbo_reads(bytes: &[u8]) -> bool {
        jpeg_bytes(Path::new("00007.jpg"), bytes).is_ok()
    }

    /// The file with the byte after the frame's marker and `at` more replaced.
    fn with(bytes: &[u8], at: usize, value: u8) -> Vec<u8> {
        let frame = bytes.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
        let mut bytes = bytes.to_vec();
        bytes[frame + at] = value;
        bytes
    }

    /// Cuts the segment of this marker out.
    fn without(bytes: &[u8], marker: u8) -> Vec<u8> {
        let at = bytes.windows(2).position(|pair| pair == [0xFF, marker]).unwrap();
        let length = usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
        [&bytes[..at], &bytes[at + 2 + length..]].concat()
    }

    #[test]
    fn what_both_decoders_read_has_a_size() {
        for (color, channels) in [(ColorType::Rgb, 3), (ColorType::Luma, 1)] {
            for progressive in [false, true] {
                let bytes = encode(color, channels, progressive);
                assert_eq!(size(&bytes), Ok((61, 47)));
                assert!(turbo_reads(&bytes));
            }
        }
    }

    #[test]
    fn what_nvjpeg_must_not_have_is_named_with_what_helps() {
        let rgb = encode(ColorType::Rgb, 3, false);
        let neither = [
            (encode(ColorType::Cmyk, 4, false), "CMYK"),
            (with(&rgb, 4, 12), "12 bits a sample"),
            (with(&rgb, 1, 0xC9), "arithmetic"),
            (with(&rgb, 1, 0xC3), "lossless"),
            (with(&rgb, 1, 0xC5), "hierarchical"),
        ];
        for (bytes, said) in neither {
            let error = size(&bytes).unwrap_err();
            assert!(error.contains("00007.jpg") && error.contains(said), "{error}");
            assert!(error.contains("--jpeg-decoder turbo does not either"), "{error}");
            assert!(!turbo_reads(&bytes), "{said}: what is said of the other decoder is true");
        }
        // Without JFIF's note the names of the channels count.
        let mut named = without(&rgb, 0xE0);
        let frame = named.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
        let scan = named.windows(2).position(|pair| pair == [0xFF, 0xDA]).unwrap();
        for (at, name) in b"RGB".iter().enumerate() {
            named[frame + 10 + 3 * at] = *name;
            named[scan + 5 + 2 * at] = *name;
        }
        let error = size(&named).unwrap_err();
        assert!(error.contains("stored as RGB; use --jpeg-decoder turbo"), "{error}");
        assert!(turbo_reads(&named));
        let adobe = [&[0xFF, 0xEE, 0, 14][..], b"Adobe", &[0, 100, 0, 0, 0, 0, 0]].concat();
        let plain = without(&rgb, 0xE0);
        let noted = [&plain[..2], &adobe, &plain[2..]].concat();
        assert!(size(&noted).unwrap_err().contains("stored as RGB"));
        assert_eq!(size(&plain), Ok((61, 47)));
    }

    #[test]
    fn no_cut_of_a_file_passes() {
        for progressive in [false, true] {
            let bytes = encode(ColorType::Rgb, 3, progressive);
            for cut in 0..bytes.len() {
                let error = size(&bytes[..cut]).unwrap_err();
                assert!(error.contains("00007.jpg"), "{cut}: {error}");
            }
        }
        assert!(size(b"<html>404</html>").unwrap_err().contains("FF D8"));
        assert!(size(&[0xFF, 0xD8, 0xFF, 0xD9]).unwrap_err().contains("no image"));
    }

    proptest::proptest! {
        #[test]
        fn no_damage_makes_it_panic(
            progressive: bool,
            damage in proptest::collection::vec((proptest::prelude::any::<u16>(), proptest::prelude::any::<u8>()), 1..20),
        ) {
            let mut bytes = encode(ColorType::Rgb, 3, progressive);
            for (at, value) in damage {
                let at = usize::from(at) % bytes.len().min(700);
                bytes[at] = value;
            }
            let _ = size(&bytes);
        }
    }
}
