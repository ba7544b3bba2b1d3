/*!
The split that is to be measured.
*/

use std::path::PathBuf;

use super::check::Check;
use crate::dataset;

/// Opens the split and its first clip; `None`: nobody named one.
pub fn split(named: Option<&(PathBuf, String)>) -> Check {
    let name = "dataset";
    let Some((dir, manifest)) = named else {
        return Check::not_asked(
            name,
            "none named: look at one with --split-dir DIR, or make one with segtrt synth --out DIR",
        );
    };
    let advice = "point --split-dir at the folder that holds the frames and the annotations";
    let split = match dataset::open(dir, manifest) {
        Ok(split) => split,
        Err(error) => return Check::missing(name, format!("{error:#}"), advice),
    };
    let videos = split.videos();
    let Some(first) = videos.first() else {
        return Check::missing(name, format!("{} names no video", dir.display()), advice);
    };
    let found = format!("{} videos in {}", videos.len(), dir.display());
    match split.clip(first) {
        Ok(clip) => Check::ok(
            name,
            format!(
                "{found}; {first} has {} frames, {} objects",
                clip.frames.len(),
                clip.objects.len()
            ),
        ),
        Err(error) => Check::warning(
            name,
            format!("{found}; the first cannot be opened: {error}"),
            "its rows will be empty and say so; mend it, or take it out of the manifest",
        ),
    }
}
