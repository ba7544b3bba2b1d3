/*!
Where a clip's frames are: JPEG files, or a video that was decoded ahead.
*/

use std::path::{Path, PathBuf};

use crate::ffmpeg::RawFrames;

/// The frames of a clip in display order; index N is frame N on the 24 fps time base.
#[derive(Debug)]
pub enum Frames {
    /// A JPEG file each.
    Jpegs(Vec<PathBuf>),
    /// A video file's.
    Video(RawFrames),
}

impl Frames {
    /// Number of frames.
    pub fn len(&self) -> usize {
        match self {
            Self::Jpegs(files) => files.len(),
            Self::Video(video) => video.count(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The files that hold the frames: one for each, or the one video.
    pub fn files(&self) -> &[PathBuf] {
        match self {
            Self::Jpegs(files) => files,
            Self::Video(video) => std::slice::from_ref(video.video()),
        }
    }

    /// The file that holds frame `index`; none past the end.
    pub fn file(&self, index: usize) -> Option<&Path> {
        match self {
            Self::Jpegs(files) => files.get(index).map(PathBuf::as_path),
            Self::Video(video) => (index < video.count()).then_some(video.video().as_path()),
        }
    }

    /// What decoded a video's frames, with its version; none for JPEGs, which are decoded as they
    /// are needed.
    pub fn decoder(&self) -> Option<&str> {
        match self {
            Self::Jpegs(_) => None,
            Self::Video(video) => Some(video.decoder()),
        }
    }
}
