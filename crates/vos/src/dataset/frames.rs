/*!
Frames of a clip: JPEG files or a decoded video.
*/

use std::path::{Path, PathBuf};

use crate::ffmpeg::RawFrames;

/// The frames of a clip in display order; index N is frame N on the 24 fps time base.
#[derive(Debug)]
pub enum Frames {
    /// A JPEG file for each frame.
    Jpegs(Vec<PathBuf>),
    /// Frames of a video file.
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

    /// Whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The files of the frames: one for each, or the video.
    pub fn files(&self) -> &[PathBuf] {
        match self {
            Self::Jpegs(files) => files,
            Self::Video(video) => std::slice::from_ref(video.video()),
        }
    }

    /// The file of frame `index`; `None` past the end.
    pub fn file(&self, index: usize) -> Option<&Path> {
        match self {
            Self::Jpegs(files) => files.get(index).map(PathBuf::as_path),
            Self::Video(video) => (index < video.count()).then_some(video.video().as_path()),
        }
    }

    /// The program that decoded a video's frames, with its version; `None` for JPEGs, which are
    /// decoded when needed.
    pub fn decoder(&self) -> Option<&str> {
        match self {
            Self::Jpegs(_) => None,
            Self::Video(video) => Some(video.decoder()),
        }
    }
}
