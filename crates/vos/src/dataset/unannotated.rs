/*!
A clip without ground truth: a video file, or a folder of JPEG frames.
*/

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Clip, ClipError, Frames, listing, numbers};
use crate::ffmpeg::Ffmpeg;

/// Suffixes of JPEG files, in lower case.
const JPEGS: [&str; 2] = ["jpg", "jpeg"];

/// Opens the clip at `path`. A video is decoded at 24 frames a second. The frames of a folder are in
/// the order of the numbers that end their names, or of the names.
///
/// # Errors
/// There is nothing, a folder without JPEG files, or a video that `ffmpeg` cannot decode.
pub fn unannotated(path: &Path) -> Result<Clip, ClipError> {
    let frames = match path {
        path if path.is_dir() => Frames::Jpegs(jpegs(path)?),
        path if path.is_file() => Frames::Video(Ffmpeg::find()?.frames(path)?),
        path => return Err(ClipError::NoClip { path: path.into() }),
    };
    let stem = if path.is_dir() { path.file_name() } else { path.file_stem() };
    let video = stem.unwrap_or(OsStr::new("clip")).to_string_lossy().into_owned();
    Ok(Clip { video, frames, objects: Vec::new(), remarks: Vec::new() })
}

fn jpegs(dir: &Path) -> Result<Vec<PathBuf>, ClipError> {
    let entries = listing::entries(dir)
        .map_err(|source| ClipError::Unlistable { path: dir.into(), source })?;
    let is_jpeg = |path: &PathBuf| {
        let suffix = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        JPEGS.contains(&suffix.to_ascii_lowercase().as_str()) && path.is_file()
    };
    let mut files: Vec<PathBuf> = entries.into_iter().filter(is_jpeg).collect();
    if files.is_empty() {
        return Err(ClipError::NoJpegs { dir: dir.into(), found: listing::summary(dir) });
    }
    numbers::sort(&mut files);
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_in_the_order_of_their_numbers_from_any_one_on() {
        let dir = tempfile::tempdir().unwrap();
        let error = unannotated(dir.path()).unwrap_err().to_string();
        assert!(error.contains("an empty folder") && error.contains("JPEG"), "{error}");
        std::fs::write(dir.path().join("cover.png"), "").unwrap();
        let error = unannotated(dir.path()).unwrap_err().to_string();
        assert!(error.contains("cover.png") && error.contains("ffmpeg"), "{error}");
        for name in ["f_12.jpg", "f_7.JPG", "f_100.jpeg"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let clip = unannotated(dir.path()).unwrap();
        let names: Vec<_> = clip.frames.files().iter().map(|file| listing::name(file)).collect();
        assert_eq!(names, ["f_7.JPG", "f_12.jpg", "f_100.jpeg"]);
        let gone = unannotated(&dir.path().join("none.mp4")).unwrap_err().to_string();
        assert!(gone.contains("none.mp4") && gone.contains("does not exist"), "{gone}");
    }
}
