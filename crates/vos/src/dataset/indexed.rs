/*!
Frames and masks of the layouts with one indexed mask a frame: DAVIS, YouTube-VOS, MOSE and LVOS.

A mask belongs to the frame of the same stem. Frame N of a clip is its N-th frame file in the order
of their numbers, so names may count in steps (00000, 00005, …) and begin at any number.
*/

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{ClipError, MaskError, listing, numbers, truth};

/// Foreground in DAVIS 2016's masks. In those of the other data sets it marks void pixels and is
/// background, where a prediction is an error as on any other background pixel: davis2017-evaluation
/// turns 255 into 0 in its semi-supervised task and leaves pixels out only in its unsupervised one.
pub(super) const VOID: u16 = 255;

/// The frame files of `video` below `root`/`folder`, in the order of their numbers.
///
/// # Errors
/// The id is no plain name, or there is no folder or no frame of that name.
pub(super) fn frames(root: &Path, folder: &str, video: &str) -> Result<Vec<PathBuf>, ClipError> {
    if !listing::is_plain_name(video) {
        return Err(ClipError::BadVideoId { video: video.into() });
    }
    listing::refuse_other_than_utf8(&root.join(folder), video)?;
    let dir = root.join(folder).join(video);
    if !dir.is_dir() {
        return Err(ClipError::MissingVideo { video: video.into(), expected: dir });
    }
    let mut frames = files(&dir, "jpg")?;
    if let Some(path) = frames.iter().find(|path| listing::not_utf8(path)) {
        return Err(ClipError::NotUtf8 { path: path.clone() });
    }
    numbers::sort(&mut frames);
    if frames.is_empty() { Err(ClipError::NoFrames { dir }) } else { Ok(frames) }
}

/// The mask files in `dir`: those of a frame by its index, and those without one.
///
/// # Errors
/// The folder cannot be listed. A missing folder has no masks.
pub(super) fn masks(
    dir: &Path,
    frames: &[PathBuf],
) -> Result<(BTreeMap<usize, PathBuf>, Vec<PathBuf>), ClipError> {
    let files = if dir.is_dir() { files(dir, "png")? } else { Vec::new() };
    let index: BTreeMap<&OsStr, usize> =
        frames.iter().enumerate().filter_map(|(i, path)| Some((path.file_stem()?, i))).collect();
    let (mut masks, mut strays) = (BTreeMap::new(), Vec::new());
    for path in files {
        match path.file_stem().and_then(|stem| index.get(stem)) {
            Some(&index) => drop(masks.insert(index, path)),
            None => strays.push(path),
        }
    }
    Ok((masks, strays))
}

/// The ids in a mask file in ascending order, void among them. `frame`: its width and height, which
/// limit the mask's size.
///
/// # Errors
/// The file is damaged, far too large, or a colour image without ids.
pub(super) fn ids(mask: &Path, frame: Option<(usize, usize)>) -> Result<Vec<u16>, ClipError> {
    let image = truth::read(mask, frame).map_err(ClipError::Objects)?;
    let ids = image.present();
    match ids.first() {
        Some(&id) if !image.has_ids => {
            Err(ClipError::Objects(MaskError::NoIds { path: mask.into(), id }))
        }
        _ => Ok(ids),
    }
}

fn files(dir: &Path, suffix: &str) -> Result<Vec<PathBuf>, ClipError> {
    listing::files(dir, suffix).map_err(|source| ClipError::Unlistable { path: dir.into(), source })
}
