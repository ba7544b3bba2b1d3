/*!
A clip without ground truth: a video file, or a folder of JPEG frames.
*/

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Clip, ClipError, Frames, listing, numbers};
use crate::ffmpeg::Ffmpeg;

/// Suffixes of JPEG files, in lower case.
const JPEGS: [&str; 2] = ["jpg", "jpeg"];
/// A name is proposed for another that is so like it, of 0 to 1.
const LIKE: f64 = 0.7;
/// Folders between a split and its clips: JPEGImages/480p.
const SPLIT_DEPTH: usize = 2;

/// Opens the clip at `path`. A video is decoded at 24 frames a second, up to `most` frames. The frames of a folder are in
/// the order of the numbers that end their names, or of the names.
///
/// # Errors
/// There is nothing, a folder without JPEG files, or a video that `ffmpeg` cannot decode.
pub fn unannotated(path: &Path, most: Option<usize>) -> Result<Clip, ClipError> {
    let frames = match path {
        path if path.is_dir() => Frames::Jpegs(jpegs(path)?),
        path if path.is_file() => Frames::Video(Ffmpeg::find()?.frames(path, most)?),
        path => return Err(missing(path)),
    };
    let stem = if path.is_dir() { path.file_name() } else { path.file_stem() };
    let video = stem.unwrap_or(OsStr::new("clip")).to_string_lossy().into_owned();
    Ok(Clip { video, frames, objects: Vec::new(), remarks: Vec::new() })
}

/// The error of a path that does not exist. It names the entry with nearly its name, of the folder that does.
pub fn missing(path: &Path) -> ClipError {
    let there =
        path.ancestors().skip(1).find(|folder| folder.is_dir() || folder.as_os_str().is_empty());
    let near = there.and_then(|folder| {
        let rest = path.strip_prefix(folder).ok()?;
        let mut parts = rest.components();
        let wanted = parts.next()?.as_os_str().to_str()?.to_lowercase();
        let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let likeness = |entry: PathBuf| {
            let name = listing::name(&entry);
            let likeness = strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &wanted);
            (likeness > LIKE).then_some((likeness, name))
        };
        let named = listing::entries(listed).ok()?.into_iter().filter_map(likeness);
        let (_, name) = named.max_by(|a, b| a.0.total_cmp(&b.0))?;
        // Without a component behind it: an empty one would end the path of a file with a slash.
        let near: PathBuf = folder.join(name).iter().chain(parts.as_path()).collect();
        near.exists().then_some(near)
    });
    ClipError::NoClip { path: path.into(), near }
}

fn is_jpeg(path: &Path) -> bool {
    let suffix = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    JPEGS.contains(&suffix.to_ascii_lowercase().as_str()) && path.is_file()
}

/// The first folder with JPEG files below `dir`, as deep as a split has them.
fn clip_below(dir: &Path, depth: usize) -> Option<PathBuf> {
    let entries = listing::entries(dir).ok()?;
    let mut folders = entries.into_iter().filter(|path| path.is_dir());
    folders.find_map(|folder| {
        let frames = listing::entries(&folder).ok()?.iter().any(|path| is_jpeg(path));
        match frames {
            true => Some(folder),
            false => depth.checked_sub(1).and_then(|depth| clip_below(&folder, depth)),
        }
    })
}

fn jpegs(dir: &Path) -> Result<Vec<PathBuf>, ClipError> {
    let entries = listing::entries(dir)
        .map_err(|source| ClipError::Unlistable { path: dir.into(), source })?;
    let mut files: Vec<PathBuf> = entries.into_iter().filter(|path| is_jpeg(path)).collect();
    if files.is_empty() {
        if let Some(clip) = clip_below(dir, SPLIT_DEPTH) {
            return Err(ClipError::ManyClips { dir: dir.into(), clip });
        }
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
        let error = unannotated(dir.path(), None).unwrap_err().to_string();
        assert!(error.contains("an empty folder") && error.contains("JPEG"), "{error}");
        std::fs::write(dir.path().join("cover.png"), "").unwrap();
        let error = unannotated(dir.path(), None).unwrap_err().to_string();
        assert!(error.contains("cover.png") && error.contains("ffmpeg"), "{error}");
        for name in ["f_12.jpg", "f_7.JPG", "f_100.jpeg"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let clip = unannotated(dir.path(), None).unwrap();
        let names: Vec<_> = clip.frames.files().iter().map(|file| listing::name(file)).collect();
        assert_eq!(names, ["f_7.JPG", "f_12.jpg", "f_100.jpeg"]);
        let near = unannotated(&dir.path().join("covre.png"), None).unwrap_err().to_string();
        assert!(near.contains("cover.png?"), "{near}");
        let inside = dir.path().join("split/JPEGImages/480p");
        std::fs::create_dir_all(inside.join("dog")).unwrap();
        std::fs::write(inside.join("dog/00000.jpg"), "").unwrap();
        let many = unannotated(&dir.path().join("split"), None).unwrap_err().to_string();
        assert!(many.contains("480p/dog"), "{many}");
        let near = unannotated(&dir.path().join("splti/JPEGImages"), None).unwrap_err().to_string();
        assert!(near.contains("split/JPEGImages?"), "{near}");
        let gone = unannotated(&dir.path().join("none.mp4"), None).unwrap_err().to_string();
        assert!(gone.contains("none.mp4") && gone.contains("does not exist"), "{gone}");
    }
}
