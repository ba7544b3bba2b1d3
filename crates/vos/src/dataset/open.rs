/*!
Detects the layout of a split directory and opens it.
*/

use std::path::Path;

use anyhow::{Result, bail};

use super::davis::DavisSplit;
use super::sav::SavSplit;
use super::youtube_vos::YoutubeVosSplit;
use super::{Dataset, davis, listing, sav, youtube_vos};

/// The folders of each layout, for messages.
const LAYOUTS: &str = "JPEGImages_24fps/ (or video_fps_24/) and Annotations_6fps/ (SA-V), \
     JPEGImages/480p/ and Annotations/480p/ (DAVIS), or JPEGImages/ and Annotations/ (YouTube-VOS, \
     MOSE, LVOS)";

/// Opens the split `split_name` in `split_dir`, in the layout that its folders show.
///
/// # Errors
/// The directory is missing, has none of the layouts, lacks a part of one, or has no video. The
/// message says what was found, what is expected and what to type.
pub fn open(split_dir: &Path, split_name: &str) -> Result<Box<dyn Dataset>> {
    if !split_dir.is_dir() {
        let found = if split_dir.exists() { "is a file" } else { "does not exist" };
        bail!(
            "split directory {} {found}; expected a folder with {LAYOUTS}. Correct --split-dir, or \
             make one with `segtrt synth --out DIR`",
            split_dir.display()
        );
    }
    // A path in the split's name would leave the directory.
    if !listing::is_plain_name(split_name) {
        bail!(
            "split name {split_name:?} is not a plain name; --split-name takes a name like sav_val"
        );
    }
    if sav::is_here(split_dir) {
        return Ok(Box::new(SavSplit::open(split_dir, split_name)?));
    }
    if davis::is_here(split_dir) {
        return Ok(Box::new(DavisSplit::open(split_dir, split_name)?));
    }
    if youtube_vos::is_here(split_dir) {
        return Ok(Box::new(YoutubeVosSplit::open(split_dir, split_name)?));
    }
    // The folder of a whole data set: train, valid, test.
    let below = listing::folders(split_dir).unwrap_or_default();
    let advice = match below
        .iter()
        .find(|dir| sav::is_here(dir) || davis::is_here(dir) || youtube_vos::is_here(dir))
    {
        Some(dir) => format!("Try --split-dir {}", dir.display()),
        None => "Point --split-dir at the folder that holds them".to_owned(),
    };
    bail!(
        "{} is not a video split. Found {}; expected {LAYOUTS}. {advice}",
        split_dir.display(),
        listing::summary(split_dir)
    )
}
