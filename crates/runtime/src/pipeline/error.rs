/*!
Failures of a pass over a clip.
*/

use vos::dataset::ClipError;

/// Why a pass broke off.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// A frame that cannot be used.
    #[error(transparent)]
    Clip(ClipError),
    /// The device or an engine failed at a frame.
    #[error("frame {frame}: {error:#}")]
    Inference {
        /// Frame index in the clip.
        frame: usize,
        /// Its message.
        error: anyhow::Error,
    },
    /// Anything else.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}
