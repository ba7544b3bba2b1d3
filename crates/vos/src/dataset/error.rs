/*!
What can be wrong with one clip or one mask. Each has a stable short code for the status column and
a sentence for people; where the predecessor had a wording, the sentence keeps it.
*/

use std::path::PathBuf;

use crate::decode::DecodeError;
use crate::ffmpeg::FfmpegError;

/// Why a clip, or a frame of it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClipError {
    /// The manifest names a video that is not there.
    #[error(
        "No frames found, skipping: video '{video}' is named by the split but {} does not exist; remove \
         it from the manifest or add its frames", expected.display()
    )]
    MissingVideo {
        /// The video's id.
        video: String,
        /// Where its frames should be.
        expected: PathBuf,
    },
    /// The id is not a plain file name, so it could point outside the split.
    #[error("video id {video:?} is not the plain name of a folder; correct the manifest")]
    BadVideoId {
        /// The id as the manifest has it.
        video: String,
    },
    /// The name of a clip, a frame or an object is no text, so no table can hold it.
    #[error("the name {path:?} is not UTF-8; rename it")]
    NotUtf8 {
        /// The file or folder.
        path: PathBuf,
    },
    /// The frames' names do not tell which frame each is.
    #[error(
        "the frames of {}: {what}; a mask belongs to the frame of its number, so the frames must be numbered 0, 1, 2, … \
         (00000.jpg, 00001.jpg, …) without a gap. Restore, rename or remove the file", dir.display()
    )]
    FrameNames {
        /// The clip's folder.
        dir: PathBuf,
        /// Which file, and what is wrong.
        what: String,
    },
    /// The frames of a video file that was decoded cannot be read back.
    #[error("cannot read back frame {index} of {}: {source}", path.display())]
    LostFrame {
        /// The video file.
        path: PathBuf,
        /// The frame.
        index: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// The video's folder holds no frame.
    #[error("No frames found, skipping: {} holds no *.jpg file (the suffix must be lower case)", dir.display())]
    NoFrames {
        /// The folder that was searched.
        dir: PathBuf,
    },
    /// No object of the video is annotated.
    #[error(
        "No annotations found, skipping: expected {}", expected.display()
    )]
    NoAnnotations {
        /// What was looked for.
        expected: PathBuf,
    },
    /// A folder cannot be listed.
    #[error("cannot list {}: {source}", path.display())]
    Unlistable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The frames could not be taken out of a video file.
    #[error(transparent)]
    Ffmpeg(#[from] FfmpegError),
    /// The first mask of a DAVIS clip, which says which objects there are, cannot be used.
    #[error("cannot tell which objects the clip has: {0}")]
    FirstMask(MaskError),
    /// A frame index past the end was asked for.
    #[error("frame {index} of '{video}' does not exist: the clip has {frames} frames")]
    NoSuchFrame {
        /// The video's id.
        video: String,
        /// The index that was asked for.
        index: usize,
        /// Frames in the clip.
        frames: usize,
    },
    /// A frame file is damaged or gone.
    #[error("unreadable frame: {0}")]
    UnreadableFrame(DecodeError),
    /// A frame has another size than the first of its clip.
    #[error(
        "{} is {}x{}, but the clip's first frame is {}x{}; all frames of a clip must have one size",
        path.display(), found.0, found.1, expected.0, expected.1
    )]
    FrameSizeChange {
        /// The frame.
        path: PathBuf,
        /// Its width and height.
        found: (usize, usize),
        /// The clip's width and height.
        expected: (usize, usize),
    },
}

impl ClipError {
    /// A stable short name for the status column.
    pub fn code(&self) -> &'static str {
        match self {
            Self::MissingVideo { .. } => "missing_video",
            Self::BadVideoId { .. } => "bad_video_id",
            Self::NotUtf8 { .. } => "not_utf8",
            Self::FrameNames { .. } => "frame_names",
            Self::LostFrame { .. } => "unreadable_frame",
            Self::NoFrames { .. } => "no_frames",
            Self::NoAnnotations { .. } => "no_annotations",
            Self::Unlistable { .. } => "unreadable_folder",
            Self::Ffmpeg(error) => error.code(),
            Self::FirstMask(error) => error.code(),
            Self::NoSuchFrame { .. } => "no_such_frame",
            Self::UnreadableFrame(_) => "unreadable_frame",
            Self::FrameSizeChange { .. } => "frame_size_change",
        }
    }
}

/// Why a ground-truth mask cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MaskError {
    /// The frame has no mask in the annotations.
    #[error("object {object} is not annotated at frame {index}")]
    NotAnnotated {
        /// The object's name.
        object: String,
        /// The frame.
        index: usize,
    },
    /// The file was listed but is not there any more.
    #[error("missing mask: {0}")]
    Missing(DecodeError),
    /// The file is damaged.
    #[error("unreadable mask: {0}")]
    Unreadable(DecodeError),
    /// A colour image where an indexed one is needed.
    #[error(
        "{} is an RGB image, so the pixels of object {id} cannot be told from the others; expected an \
         indexed or grey PNG with the object ids, as DAVIS ships them", path.display()
    )]
    NoIds {
        /// The mask file.
        path: PathBuf,
        /// The id that was looked for.
        id: u16,
    },
    /// The mask does not fit the frames.
    #[error(
        "{} is {}x{}, but the frames are {}x{}; a mask must have the size of its frame",
        path.display(), found.0, found.1, expected.0, expected.1
    )]
    Size {
        /// The mask file.
        path: PathBuf,
        /// Its width and height.
        found: (usize, usize),
        /// The frames' width and height.
        expected: (usize, usize),
    },
}

impl MaskError {
    /// A stable short name for the status column.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAnnotated { .. } => "not_annotated",
            Self::Missing(_) => "missing_mask",
            Self::Unreadable(_) => "unreadable_mask",
            Self::NoIds { .. } => "mask_without_ids",
            Self::Size { .. } => "mask_size",
        }
    }
}
