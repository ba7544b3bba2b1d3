/*!
From files to pixels: JPEG frames to RGB, PNG masks to object ids.

Both decoders refuse incomplete files. A frame that is half grey or a mask with colours in place of
ids would still give numbers, but wrong ones.
*/

mod header;
mod jpeg;
mod mask_png;

pub use header::{refused_by_nvjpeg, size_for_nvjpeg};
pub use jpeg::{jpeg_bytes, jpeg_into, probe_size, read_into};
pub use mask_png::{IdImage, mask_png, mask_png_size};

use std::path::PathBuf;

/// Largest accepted width or height, so that a damaged header cannot request all memory.
const MAX_SIDE: usize = 16384;

/// An 8-bit RGB image, rows packed, channels interleaved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RgbImage {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// `3 * width * height` bytes, R G B R G B …
    pub data: Vec<u8>,
}

/// Why a file has no pixels.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The file is missing or unreadable.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's message.
        source: std::io::Error,
    },
    /// The bytes are not a complete image of the expected format.
    #[error("cannot decode {} as {expected}: {reason}; replace or re-export the \
             file", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The expected format, `a JPEG frame` or `a PNG mask`.
        expected: &'static str,
        /// The decoder's finding.
        reason: String,
    },
    /// A kind of JPEG that nvJPEG does not decode.
    #[error("nvJPEG does not decode {}: {reason}; {advice}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Its kind.
        reason: String,
        /// Advice.
        advice: &'static str,
    },
}

impl DecodeError {
    /// Whether the file is missing.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}
