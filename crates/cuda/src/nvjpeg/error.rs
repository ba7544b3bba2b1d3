/*!
What can go wrong with nvJPEG, in sentences that say what to do.
*/

use super::sys::Status;
use crate::GpuError;
use dynlib::Missed;

/// Why nvJPEG did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum NvJpegError {
    /// No library was opened.
    #[error(transparent)]
    Library(#[from] Missed),
    /// nvJPEG refuses.
    #[error("nvJPEG could not {what}: {status}")]
    Failed {
        /// What was tried, as a verb phrase.
        what: &'static str,
        /// Its answer.
        status: Status,
    },
    /// The place for the pixels has another size than they have.
    #[error("{found} bytes of device memory are there for pixels of {width}x{height}")]
    Room {
        /// Bytes.
        found: usize,
        /// The image's width.
        width: usize,
        /// Its height.
        height: usize,
    },
    /// No coefficients are there to be decoded.
    #[error("an image is to be decoded on the device that was not decoded on the host")]
    Order,
    /// The driver refuses.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl NvJpegError {
    /// nvJPEG's status if it blames the file, not the machine.
    pub fn blames_the_file(&self) -> Option<Status> {
        match self {
            Self::Failed { status, .. } if status.blames_the_file() => Some(*status),
            _ => None,
        }
    }
}

/// Turns a status into a result; `what` is a verb phrase.
pub(super) fn check(what: &'static str, status: Status) -> Result<(), NvJpegError> {
    match status {
        Status::SUCCESS => Ok(()),
        status => Err(NvJpegError::Failed { what, status }),
    }
}
