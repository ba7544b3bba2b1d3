/*!
Faults of one clip or one mask. Each has a stable short code for the status column and a sentence,
with the predecessor's wording where it had one.
*/

use std::path::PathBuf;

use crate::decode::DecodeError;
use crate::ffmpeg::FfmpegError;

/// Why a clip or a frame of it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClipError {
    /// The manifest names a missing video.
    #[error(
        "No frames found, skipping: video '{video}' is named by the split but {} does not exist; \
         remove it from the manifest or add its frames", expected.display()
    )]
    MissingVideo {
        /// The video's id.
        video: String,
        /// Expected place of its frames.
        expected: PathBuf,
    },
    /// The id is not a plain file name, so it could point outside the split.
    #[error("video id {video:?} is not the plain name of a folder; correct the manifest")]
    BadVideoId {
        /// The id in the manifest.
        video: String,
    },
    /// The name of a clip, frame or object is not UTF-8, so no table can hold it.
    #[error("the name {path:?} is not UTF-8; rename it")]
    NotUtf8 {
        /// The file or folder.
        path: PathBuf,
    },
    /// Two clips are no pair of views.
    #[error("{video} is no stereo pair: {what}")]
    Pair {
        /// Names of both clips.
        video: String,
        /// The fault.
        what: String,
    },
    /// The frames' names do not determine their order.
    #[error(
        "the frames of {}: {what}; a mask belongs to the frame of its number, so the frames must \
         be numbered 0, 1, 2, … (00000.jpg, 00001.jpg, …) without a gap. Restore, rename or remove \
         the file", dir.display()
    )]
    FrameNames {
        /// The clip's folder.
        dir: PathBuf,
        /// The file and its fault.
        what: String,
    },
    /// The decoded frames of a video file cannot be read back.
    #[error("cannot read back frame {index} of {}: {source}", path.display())]
    LostFrame {
        /// The video file.
        path: PathBuf,
        /// The frame.
        index: usize,
        /// The system's message.
        source: std::io::Error,
    },
    /// The video's folder has no frame.
    #[error("No frames found, skipping: {} has no *.jpg file (the suffix must be lower \
             case)", dir.display())]
    NoFrames {
        /// The folder that was searched.
        dir: PathBuf,
    },
    /// There is neither a video file nor a folder.
    #[error(
        "{} does not exist; {}", path.display(), near.as_ref().map_or_else(
            || "name a video file or a folder of JPEG frames".to_owned(),
            |near| format!("did you mean {}?", near.display())
        )
    )]
    NoClip {
        /// The path.
        path: PathBuf,
        /// What is there and has nearly its name.
        near: Option<PathBuf>,
    },
    /// A folder has no JPEG file, but folders below it have.
    #[error(
        "{} has folders of frames and no frame itself; name one of them, such as {}",
        dir.display(), clip.display()
    )]
    ManyClips {
        /// The folder.
        dir: PathBuf,
        /// The first folder with frames.
        clip: PathBuf,
    },
    /// A folder of frames has no JPEG file.
    #[error(
        "{} has no JPEG frame, found {found}; expected 00000.jpg, 00001.jpg, …. Convert other \
         pictures: ffmpeg -i '%05d.png' -q:v 2 -start_number 0 '%05d.jpg'", dir.display()
    )]
    NoJpegs {
        /// The folder.
        dir: PathBuf,
        /// Its first entries.
        found: String,
    },
    /// No object of the video is annotated.
    #[error(
        "No annotations found, skipping: expected {}", expected.display()
    )]
    NoAnnotations {
        /// The expected mask file, or its pattern.
        expected: PathBuf,
    },
    /// A folder cannot be listed.
    #[error("cannot list {}: {source}", path.display())]
    Unlistable {
        /// The folder.
        path: PathBuf,
        /// The system's message.
        source: std::io::Error,
    },
    /// The frames of a video file could not be decoded.
    #[error(transparent)]
    Ffmpeg(#[from] FfmpegError),
    /// A mask that defines the objects of a clip cannot be used.
    #[error("cannot read the clip's objects: {0}")]
    Objects(MaskError),
    /// A mask has no frame of its name.
    #[error(
        "{} has no frame: expected {}. Restore the frame, or remove the mask", mask.display(),
        expected.display()
    )]
    MaskWithoutFrame {
        /// The mask file.
        mask: PathBuf,
        /// The expected frame file.
        expected: PathBuf,
    },
    /// The list of objects lacks a video.
    #[error(
        "{} does not list the video '{video}'; expected it under \"videos\". Add it, or remove the \
         video from the split", list.display()
    )]
    NotListed {
        /// meta.json.
        list: PathBuf,
        /// The video's id.
        video: String,
    },
    /// A frame index past the end was requested.
    #[error("frame {index} of '{video}' does not exist: the clip has {frames} frames")]
    NoSuchFrame {
        /// The video's id.
        video: String,
        /// The requested index.
        index: usize,
        /// Frames in the clip.
        frames: usize,
    },
    /// A frame file is damaged or missing.
    #[error("unreadable frame: {0}")]
    UnreadableFrame(DecodeError),
    /// A frame's size differs from the first frame's.
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
            Self::Pair { .. } => "no_pair",
            Self::FrameNames { .. } => "frame_names",
            Self::LostFrame { .. } => "unreadable_frame",
            Self::NoFrames { .. } | Self::NoJpegs { .. } | Self::ManyClips { .. } => "no_frames",
            Self::NoClip { .. } => "missing_video",
            Self::NoAnnotations { .. } => "no_annotations",
            Self::Unlistable { .. } => "unreadable_folder",
            Self::Ffmpeg(error) => error.code(),
            Self::Objects(error) => error.code(),
            Self::MaskWithoutFrame { .. } => "mask_without_frame",
            Self::NotListed { .. } => "not_listed",
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
    /// The file was listed but no longer exists.
    #[error("missing mask: {0}")]
    Missing(DecodeError),
    /// The file is damaged.
    #[error("unreadable mask: {0}")]
    Unreadable(DecodeError),
    /// A colour image instead of an indexed one.
    #[error(
        "{} is an RGB image without object ids, so object {id} cannot be found; expected an \
         indexed or grey PNG with the object ids, as DAVIS ships them", path.display()
    )]
    NoIds {
        /// The mask file.
        path: PathBuf,
        /// The requested id.
        id: u16,
    },
    /// The mask's size differs from the frames'.
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
