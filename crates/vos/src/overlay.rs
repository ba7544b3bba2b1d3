/*!
Predicted masks painted over the frames, to look at.

An mp4 through `ffmpeg` where that is installed with an H.264 encoder, a folder
of PNG frames otherwise. The predecessor stretched its frames but not its masks;
here both have the video's own size. What is written appears under its final
name only when it is complete.
*/

mod film;
mod paint;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::decode::RgbImage;
use crate::ffmpeg::Ffmpeg;
use crate::mask::Mask;
use crate::record::ObjectKey;
use film::Film;
pub use paint::{paint, write_png};

/// What the name of a film ends with.
pub const FILM: &str = ".mp4";
/// The first frame in a folder of frames.
pub const FIRST_FRAME: &str = "00000.png";

/// What the name of an overlay's private folder begins with while it is written.
pub(crate) const UNFINISHED: &str = ".overlay_";

/// Folder of the frames while they are written, inside a private one that always vanishes.
const FRAMES: &str = "frames";

/// Writes the overlay of one object, frame by frame. Dropped unfinished, it leaves nothing behind.
#[derive(Debug)]
pub struct OverlayWriter {
    size: (usize, usize),
    target: Target,
    painted: Vec<u8>,
}

#[derive(Debug)]
enum Target {
    Film(Film),
    Frames { temporary: tempfile::TempDir, path: PathBuf, next: usize },
}

impl OverlayWriter {
    /// Starts `<out_dir>/<video>__obj<object>__<tag>.mp4` ([`ObjectKey::file_stem`]) with the
    /// `ffmpeg` on PATH; where there is none, or none that encodes H.264, PNG frames go into the
    /// folder of that name without `.mp4`. `stride` says every how many frames of the clip one is
    /// written: the film then lasts as long as the clip, at 24/`stride` frames a second.
    ///
    /// # Errors
    /// A name with a path separator in it, or a directory that cannot be written.
    pub fn create(
        out_dir: &Path,
        key: &ObjectKey,
        size: (usize, usize),
        stride: usize,
    ) -> Result<Self> {
        Self::create_with(Ffmpeg::find().ok(), out_dir, key, size, stride)
    }

    /// Like [`Self::create`] with a particular `ffmpeg`, or none.
    ///
    /// # Errors
    /// Those of [`Self::create`].
    pub fn create_with(
        ffmpeg: Option<Ffmpeg>,
        out_dir: &Path,
        key: &ObjectKey,
        size: (usize, usize),
        stride: usize,
    ) -> Result<Self> {
        let name = key.file_stem();
        let plain = !name.contains(['/', '\\']);
        ensure!(plain, "cannot name an overlay {name:?}: names must not contain path separators");
        std::fs::create_dir_all(out_dir)
            .with_context(|| format!("cannot create {} for overlays", out_dir.display()))?;
        let target = match ffmpeg.filter(|ffmpeg| ffmpeg.has_encoder("libx264")) {
            Some(ffmpeg) => {
                let path = out_dir.join(format!("{name}{FILM}"));
                Target::Film(Film::start(&ffmpeg, &path, size, stride)?)
            }
            None => {
                let temporary = tempfile::Builder::new()
                    .prefix(UNFINISHED)
                    .tempdir_in(out_dir)
                    .and_then(|dir| std::fs::create_dir(dir.path().join(FRAMES)).map(|()| dir))
                    .with_context(|| format!("cannot write overlays into {}", out_dir.display()))?;
                Target::Frames { temporary, path: out_dir.join(name), next: 0 }
            }
        };
        Ok(Self { size, target, painted: Vec::new() })
    }

    /// Adds a frame; without a mask it is written as it is.
    ///
    /// # Errors
    /// A frame or mask of another size, a full disk, or an `ffmpeg` that gave up.
    pub fn write(&mut self, frame: &RgbImage, mask: Option<&Mask>) -> Result<()> {
        let (width, height) = self.size;
        ensure!(
            (frame.width, frame.height) == self.size
                && mask.is_none_or(|mask| (mask.width(), mask.height()) == self.size),
            "overlay of {width}x{height} was given a frame or mask of another size"
        );
        self.painted.clear();
        self.painted.extend_from_slice(&frame.data);
        if let Some(mask) = mask {
            paint(&mut self.painted, mask);
        }
        match &mut self.target {
            Target::Film(film) => film.write(&self.painted),
            Target::Frames { temporary, next, .. } => {
                let path = temporary.path().join(FRAMES).join(format!("{next:05}.png"));
                *next += 1;
                write_png(&path, self.size, &self.painted)
                    .with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }

    /// Completes the file or folder and returns its path.
    ///
    /// # Errors
    /// `ffmpeg` failed, or the finished file cannot be moved to its name.
    pub fn finish(self) -> Result<PathBuf> {
        match self.target {
            Target::Film(film) => film.finish(),
            Target::Frames { temporary, path, .. } => {
                if path.is_dir() {
                    std::fs::remove_dir_all(&path)
                        .with_context(|| format!("cannot replace {}", path.display()))?;
                }
                std::fs::rename(temporary.path().join(FRAMES), &path)
                    .with_context(|| format!("cannot create {}", path.display()))?;
                Ok(path)
            }
        }
    }
}
