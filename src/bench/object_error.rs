/*!
Why an object has no numbers: a short code for programs and a sentence for people.

Such an object costs its row, never the run.
*/

use vos::dataset::ClipError;
use vos::predecode::CacheError;
use vos::prompt::PromptError;
use vos::record::Status;
use vos::tracker::NonFinite;

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
    /// The network gave what is no finite number.
    #[error("frame {frame} of the clip gave {found}")]
    NonFinite {
        /// Frame index in the clip.
        frame: usize,
        /// What it gave.
        found: NonFinite,
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
        match error.downcast_ref::<NonFinite>() {
            Some(found) => Self::NonFinite { frame, found: *found },
            None => Self::Inference { frame, reason: format!("{error:#}") },
        }
    }

    /// A stable short name for the reason column.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Clip(error) => error.code(),
            Self::Prompt(error) => error.code(),
            Self::Predecoded(error) => error.code(),
            Self::Teacher(_) => "teacher",
            Self::Inference { .. } => "inference",
            Self::NonFinite { .. } => "non_finite",
            Self::Other(_) => "failed",
        }
    }

    /// Logits of the mask that are no finite numbers, where that is what was looked at.
    pub fn non_finite_logits(&self) -> Option<usize> {
        match self {
            Self::NonFinite { found, .. } => Some(found.logits),
            _ => None,
        }
    }

    /// What becomes of the row.
    pub fn status(&self) -> Status {
        status_of(self.code())
    }
}

/// Skipped where the split has nothing to measure, which no repair would change; a file that is
/// missing or damaged is a failure, so that the exit code tells and `--resume` tries again. The
/// predecessor skipped both alike.
pub(super) fn status_of(code: &str) -> Status {
    match code {
        "empty_prompt_mask" | "no_annotations" => Status::Skipped,
        _ => Status::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::dataset::MaskError;
    use vos::decode::DecodeError;

    #[test]
    fn nothing_to_measure_is_skipped_and_damage_is_a_failure() {
        let status = |error: ObjectError| error.status();
        let folder = || std::path::PathBuf::from("v");
        assert_eq!(status(ClipError::NoAnnotations { expected: folder() }.into()), Status::Skipped);
        let empty = PromptError::Empty { object: "000".into(), index: 0, path: folder() };
        assert_eq!(status(empty.into()), Status::Skipped);
        let missing = ClipError::MissingVideo { video: "v".into(), expected: folder() };
        assert_eq!(status(missing.into()), Status::Failed);
        assert_eq!(status(ClipError::NoFrames { dir: folder() }.into()), Status::Failed);
        let reason = "no PNG".to_owned();
        let format = DecodeError::Format { path: folder(), expected: "a PNG mask", reason };
        let source = MaskError::Unreadable(format);
        let damaged = PromptError::Unreadable { object: "000".into(), index: 0, source };
        assert_eq!(status(damaged.into()), Status::Failed);
    }
}
