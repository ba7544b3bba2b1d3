/*!
True masks that the overlay outlines: PNG files that are named by their frames.
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use host::UsageError;
use vos::dataset::ObjectTruth;
use vos::mask::Mask;

/// The masks in a folder, 00000.png and so on.
///
/// # Errors
/// The folder cannot be listed, or has no such file.
pub fn open(id: u8, dir: &Path) -> Result<ObjectTruth> {
    let listing = || format!("cannot list the true masks of object {id} in {}", dir.display());
    let entries = std::fs::read_dir(dir).with_context(listing)?;
    let numbered = |path: PathBuf| {
        let is_png = path.extension().is_some_and(|suffix| suffix == "png");
        let frame = path.file_stem()?.to_str()?.parse::<usize>().ok()?;
        is_png.then_some((frame, path))
    };
    let masks: BTreeMap<usize, PathBuf> =
        entries.flatten().filter_map(|entry| numbered(entry.path())).collect();
    if masks.is_empty() {
        bail!(UsageError(format!(
            "--truth {id}:{} has no PNG named by its frame; expected 00000.png, 00001.png, …",
            dir.display()
        )));
    }
    Ok(ObjectTruth { name: id.to_string(), masks, id: None })
}

/// The true mask of a frame, where there is one of the frame's size.
pub fn mask(truth: &ObjectTruth, index: usize, (width, height): (usize, usize)) -> Option<Mask> {
    let known = truth.masks.contains_key(&index);
    known.then(|| truth.mask_of_size(index, width, height).ok()).flatten()
}
