/*!
Overlays: predicted masks painted over the frames, with the ground truth's outline and the prompt.

The output is an mp4 if `ffmpeg` is installed with an H.264 encoder, and a folder of PNG frames
otherwise. The predecessor stretched its frames but not its masks; here both have the video's size.
Output gets its final name when it is complete.
*/

mod film;
mod objects;
mod paint;
mod thumbnail;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::decode::RgbImage;
use crate::ffmpeg::Ffmpeg;
use crate::mask::Mask;
use crate::prompt::Prompt;
use crate::record::ObjectKey;
use film::Film;
pub use objects::{Corner, ObjectLayer, colour_of, paint_objects, paint_text};
pub use paint::{paint, paint_outline, paint_prompt, write_png};
pub use thumbnail::{jpeg, shrink, write_jpeg};

/// Folder of a run's small pictures, `<file stem>__<frame>.jpg`, which a report embeds.
pub const THUMBNAILS: &str = "thumbnails";
/// Pixels across of a small picture.
pub const THUMBNAIL_WIDTH: usize = 240;
/// Suffix of a film.
pub const FILM: &str = ".mp4";
/// The first frame in a folder of frames.
pub const FIRST_FRAME: &str = "00000.png";

/// Prefix of an overlay's temporary folder.
pub(crate) const UNFINISHED: &str = ".overlay_";

/// Folder of the frames inside the temporary folder while they are written.
const FRAMES: &str = "frames";

/// Writes the overlay of one object, frame by frame. If it is dropped unfinished, no file remains.
#[derive(Debug)]
pub struct OverlayWriter {
    size: (usize, usize),
    target: Target,
    painted: Vec<u8>,
}

/// What is painted on a frame, from bottom to top. Masks have the frame's size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layers<'a> {
    /// Predicted mask: green.
    pub mask: Option<&'a Mask>,
    /// Ground truth: a white outline.
    pub truth: Option<&'a Mask>,
    /// Prompt: red.
    pub prompt: Option<&'a Prompt>,
}

#[derive(Debug)]
enum Target {
    Film(Film),
    Frames { temporary: tempfile::TempDir, path: PathBuf, next: usize },
}

impl OverlayWriter {
    /// Starts `<out_dir>/<video>__obj<object>__<tag>.mp4` ([`ObjectKey::file_stem`]) with the
    /// `ffmpeg` on PATH. Without it, or without an H.264 encoder, PNG frames go into the folder of
    /// that name without `.mp4`. One of `stride` frames of the clip is written, and the film has
    /// 24/`stride` frames a second, so that it lasts as long as the clip.
    ///
    /// # Errors
    /// A name contains a path separator, or the directory cannot be written to.
    pub fn create(
        out_dir: &Path,
        key: &ObjectKey,
        size: (usize, usize),
        stride: usize,
    ) -> Result<Self> {
        Self::create_with(Ffmpeg::find().ok(), out_dir, key, size, stride)
    }

    /// As [`Self::create`], with this `ffmpeg` or none.
    ///
    /// # Errors
    /// Errors of [`Self::create`].
    pub fn create_with(
        ffmpeg: Option<Ffmpeg>,
        out_dir: &Path,
        key: &ObjectKey,
        size: (usize, usize),
        stride: usize,
    ) -> Result<Self> {
        Self::named(ffmpeg, out_dir, &key.file_stem(), size, stride)
    }

    /// As [`Self::create_with`], for any name of the file or folder.
    ///
    /// # Errors
    /// Errors of [`Self::create`].
    pub fn named(
        ffmpeg: Option<Ffmpeg>,
        out_dir: &Path,
        name: &str,
        size: (usize, usize),
        stride: usize,
    ) -> Result<Self> {
        let plain = !name.contains(['/', '\\']);
        ensure!(
            plain,
            "cannot write an overlay for {name:?}: its name contains a path separator; \
                        rename it"
        );
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

    /// Adds a frame; without layers it is written unchanged.
    ///
    /// # Errors
    /// The frame or a mask has another size, the disk is full, or `ffmpeg` failed.
    pub fn write(&mut self, frame: &RgbImage, layers: Layers<'_>) -> Result<()> {
        let (width, height) = self.size;
        let fits = |mask: &Mask| (mask.width(), mask.height()) == self.size;
        ensure!(
            (frame.width, frame.height) == self.size
                && [layers.mask, layers.truth].into_iter().flatten().all(fits),
            "the overlay has {width}x{height} pixels, the frame or a mask another size"
        );
        self.painted.clear();
        self.painted.extend_from_slice(&frame.data);
        if let Some(mask) = layers.mask {
            paint(&mut self.painted, mask);
        }
        if let Some(truth) = layers.truth {
            paint_outline(&mut self.painted, truth);
        }
        if let Some(prompt) = layers.prompt {
            paint_prompt(&mut self.painted, self.size, prompt);
        }
        self.write_painted()
    }

    /// Adds a frame that `paint` completes. `frame` is interleaved RGB of the overlay's size.
    ///
    /// # Errors
    /// The frame has another size, the disk is full, or `ffmpeg` failed.
    pub fn write_with(
        &mut self,
        frame: &[u8],
        paint: impl FnOnce(&mut [u8], (usize, usize)),
    ) -> Result<()> {
        let (width, height) = self.size;
        ensure!(
            frame.len() == 3 * width * height,
            "the overlay has {width}x{height} pixels, the frame {} bytes",
            frame.len()
        );
        self.painted.clear();
        self.painted.extend_from_slice(frame);
        paint(&mut self.painted, self.size);
        self.write_painted()
    }

    fn write_painted(&mut self) -> Result<()> {
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
