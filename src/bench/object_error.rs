/*!
Why one object got no numbers: a short code for machines and a sentence for people.

Such an object costs its row, never the run.
*/

use crate::dataset::ClipError;
use crate::predecode::CacheError;
use crate::prompt::PromptError;
use crate::record::Status;

/// Why an object was skipped or failed.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The clip cannot be listed, or a frame of it cannot be used.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// The object cannot be prompted.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The frames that were decoded ahead of time cannot be used.
    #[error(transparent)]
    Predecoded(#[from] CacheError),
    /// The network failed.
    #[error("frame {frame}: {reason}")]
    Inference {
        /// Frame index in the clip.
        frame: usize,
        /// The backend's words.
        reason: String,
    },
    /// A teacher's logits cannot be used.
    #[error("{0:#}")]
    Teacher(anyhow::Error),
    /// Anything else.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

impl ObjectError {
    /// The network's error on a frame.
    pub fn inference(frame: usize, error: anyhow::Error) -> Self {
        Self::Inference { frame, reason: format!("{error:#}") }
    }

    /// A stable short name for the reason column.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Clip(error) => error.code(),
            Self::Prompt(error) => error.code(),
            Self::Predecoded(error) => error.code(),
            Self::Teacher(_) => "teacher",
            Self::Inference { .. } => "inference",
            Self::Other(_) => "failed",
        }
    }

    /// The predecessor skips objects whose prompt mask is empty or missing; all else is a failure.
    pub fn status(&self) -> Status {
        match self.code() {
            "empty_prompt_mask" | "missing_prompt_mask" | "no_annotations" => Status::Skipped,
            _ => Status::Failed,
        }
    }
}
