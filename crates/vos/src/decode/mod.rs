/*!
From files to pixels: JPEG frames to RGB, PNG masks to object ids.

Both decoders refuse what they cannot read whole. A frame that is half grey or a
mask whose ids were flattened to colours would still give numbers, and the
numbers would be wrong.
*/

mod header;
mod jpeg;
mod mask_png;
mod unpack;

pub use header::{refused_by_nvjpeg, size_for_nvjpeg};
pub use jpeg::{jpeg_bytes, jpeg_into, probe_size, read_into};
pub use mask_png::{IdImage, mask_png, mask_png_size};

use std::path::PathBuf;

/// Largest width or height accepted, so that a damaged header cannot ask for all the memory.
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

/// Why a file gave no pixels.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The file is not there, or the system would not let us read it.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The bytes are not a whole image of the expected format.
    #[error("cannot decode {} as {expected}: {reason}; replace or re-export the file", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format that was expected, `a JPEG frame` or `a PNG mask`.
        expected: &'static str,
        /// What the decoder found.
        reason: String,
    },
    /// A JPEG of a kind that nvJPEG does not decode.
    #[error("nvJPEG does not decode {}: {reason}; {advice}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What kind it is of.
        reason: String,
        /// What helps.
        advice: &'static str,
    },
}

impl DecodeError {
    /// Whether the file is simply absent.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}
