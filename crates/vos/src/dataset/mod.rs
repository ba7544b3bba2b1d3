/*!
A split: its clips, frames, objects and ground-truth mask files.

A clip is a list of paths; [`Clip::frame`] and [`ObjectTruth::mask`] decode pixels on request. A
video file is decoded when its clip is opened. One trait covers three layouts: SA-V ([`sav`]), DAVIS
([`davis`]), and the common one of YouTube-VOS, MOSE and LVOS ([`youtube_vos`]). A fault of a split
stops the run before it starts; a fault of a clip or an object costs only its rows.
*/

pub mod davis;
mod error;
mod frames;
mod indexed;
mod listing;
mod numbers;
mod open;
pub mod sav;
mod select;
mod shuffle;
mod stereo;
mod truth;
mod unannotated;
mod youtube_meta;
pub mod youtube_vos;

pub use error::{ClipError, MaskError};
pub use frames::Frames;
pub use open::open;
pub use select::select;
pub use shuffle::{Mt19937, shuffle};
pub use stereo::{StereoSplit, VIEWS};
pub use unannotated::{missing, unannotated};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::decode::{self, RgbImage};

/// A split that can list its videos and open them one by one.
pub trait Dataset: std::fmt::Debug + Send + Sync {
    /// The split's directory.
    fn root(&self) -> &Path;

    /// All video ids in the split's order, before any shuffling or limit. Never empty.
    fn videos(&self) -> &[String];

    /// Whether a mask file shows one object, in a folder of the object, rather than all objects of
    /// its frame.
    fn has_object_folders(&self) -> bool {
        false
    }

    /// Lists the frames and objects of one video; decodes it if it is a video file.
    ///
    /// # Errors
    /// The video is absent, has no frames, or has no annotated object.
    fn clip(&self, video: &str) -> Result<Clip, ClipError>;

    /// The number of frames and objects of one video, without decoding a video file or every mask.
    /// Where objects may appear later, in YouTube-VOS's layout without meta.json, the number of
    /// objects is a lower bound. Shards are balanced by it.
    ///
    /// # Errors
    /// As [`Dataset::clip`].
    fn outline(&self, video: &str) -> Result<Outline, ClipError> {
        self.clip(video)
            .map(|clip| Outline { frames: clip.frames.len(), objects: clip.objects.len() })
    }
}

/// The size of a clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Number of frames; of a video file, up to its last annotated one.
    pub frames: usize,
    /// Annotated objects.
    pub objects: usize,
}

/// One clip of a split: its frames in order and the objects annotated in it.
#[derive(Debug)]
pub struct Clip {
    /// Video id in the split.
    pub video: String,
    /// Its frames.
    pub frames: Frames,
    /// Annotated objects in the order of the split.
    pub objects: Vec<ObjectTruth>,
    /// Unused files and the reasons.
    pub remarks: Vec<String>,
}

impl Clip {
    /// Width and height of the clip, from the header of its first frame.
    ///
    /// # Errors
    /// There is no frame, or the first is not a readable JPEG.
    pub fn frame_size(&self) -> Result<(usize, usize), ClipError> {
        match &self.frames {
            Frames::Video(video) => Ok(video.size()),
            Frames::Jpegs(_) => {
                decode::probe_size(self.frame_path(0)?).map_err(ClipError::UnreadableFrame)
            }
        }
    }

    /// Decodes frame `index` of a clip of `width` × `height` pixels.
    ///
    /// # Errors
    /// The index is past the end, the file is damaged, or the frame has another size.
    pub fn frame(
        &self,
        index: usize,
        (width, height): (usize, usize),
    ) -> Result<RgbImage, ClipError> {
        let mut data = vec![0; 3 * width * height];
        self.frame_into(index, (width, height), &mut data)?;
        Ok(RgbImage { width, height, data })
    }

    /// Decodes frame `index` of a clip of `width` × `height` pixels into `out`, `3 * width *
    /// height` bytes.
    ///
    /// # Errors
    /// As [`Clip::frame`].
    pub fn frame_into(
        &self,
        index: usize,
        expected: (usize, usize),
        out: &mut [u8],
    ) -> Result<(), ClipError> {
        let path = self.frame_path(index)?;
        // Both sizes are compared before any pixel is decoded.
        let found = match &self.frames {
            Frames::Video(video) => video.size(),
            Frames::Jpegs(_) => {
                decode::jpeg_into(path, expected, out).map_err(ClipError::UnreadableFrame)?
            }
        };
        if found != expected {
            return Err(ClipError::FrameSizeChange { path: path.to_path_buf(), found, expected });
        }
        if let Frames::Video(video) = &self.frames {
            let lost = |source| ClipError::LostFrame { path: path.to_path_buf(), index, source };
            video.read(index, out).map_err(lost)?;
        }
        Ok(())
    }

    /// The file of frame `index`.
    ///
    /// # Errors
    /// The index is past the end.
    pub fn frame_path(&self, index: usize) -> Result<&Path, ClipError> {
        self.frames.file(index).ok_or_else(|| ClipError::NoSuchFrame {
            video: self.video.clone(),
            index,
            frames: self.frames.len(),
        })
    }
}

/// The ground truth of one object: a mask file for each annotated frame.
#[derive(Clone, Debug)]
pub struct ObjectTruth {
    /// Name in the CSV: the directory's name in SA-V (`000`), else the id (`1`).
    pub name: String,
    /// Frame index → mask file.
    pub masks: BTreeMap<usize, PathBuf>,
    /// The object's id in its mask files; `None`: every non-zero pixel belongs to it.
    pub id: Option<u16>,
}
