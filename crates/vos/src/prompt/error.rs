/*!
Why an object cannot be prompted. Such an object costs a row with this reason, never the run.
*/

use std::path::PathBuf;

use crate::dataset::MaskError;

/// Why an object has no prompt.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// No frame of the object is annotated.
    #[error("[obj {object}] no annotated frame; expected a mask for at least one frame")]
    NoMasks {
        /// The object's name.
        object: String,
    },
    /// The first annotated frame is past the end of the clip.
    #[error(
        "[obj {object}] Prompt index {index} is out of range for {frames} frames; the masks and \
         the frames do not belong together, or frames are missing"
    )]
    OutOfRange {
        /// The object's name.
        object: String,
        /// The first annotated index.
        index: usize,
        /// Frames in the clip.
        frames: usize,
    },
    /// The mask of the prompt frame is missing.
    #[error("[obj {object}] missing mask for prompt frame {index}, skipping object: {source}")]
    Missing {
        /// The object's name.
        object: String,
        /// The prompt frame.
        index: usize,
        /// The missing file.
        source: MaskError,
    },
    /// The mask of the prompt frame cannot be read.
    #[error("[obj {object}] unusable mask for prompt frame {index}, skipping object: {source}")]
    Unreadable {
        /// The object's name.
        object: String,
        /// The prompt frame.
        index: usize,
        /// The file's fault.
        source: MaskError,
    },
    /// The size of the prompt frame's mask differs from the frames'.
    #[error(
        "[obj {object}] mask of another size for prompt frame {index}, skipping object: {source}"
    )]
    Size {
        /// The object's name.
        object: String,
        /// The prompt frame.
        index: usize,
        /// Both sizes.
        source: MaskError,
    },
    /// The mask of the prompt frame has no foreground.
    #[error(
        "[obj {object}] empty mask at {index}, skipping object: {} has no foreground pixel; the \
         first annotated frame must show the object",
        path.display()
    )]
    Empty {
        /// The object's name.
        object: String,
        /// The prompt frame.
        index: usize,
        /// The mask file.
        path: PathBuf,
    },
}

impl PromptError {
    pub(super) fn from_mask_error(object: &str, index: usize, source: MaskError) -> Self {
        let object = object.to_string();
        match source {
            MaskError::Size { .. } => Self::Size { object, index, source },
            MaskError::Missing(_) | MaskError::NotAnnotated { .. } => {
                Self::Missing { object, index, source }
            }
            MaskError::Unreadable(_) | MaskError::NoIds { .. } => {
                Self::Unreadable { object, index, source }
            }
        }
    }

    /// A stable short name for the status column.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoMasks { .. } => "no_annotations",
            Self::OutOfRange { .. } => "prompt_out_of_range",
            Self::Missing { .. } => "missing_prompt_mask",
            Self::Unreadable { .. } => "unreadable_prompt_mask",
            Self::Size { .. } => "mask_size",
            Self::Empty { .. } => "empty_prompt_mask",
        }
    }
}
