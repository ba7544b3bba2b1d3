/*!
The split to measure.
*/

use std::path::PathBuf;

use super::check::Check;
use vos::dataset;

/// Opens the split and its first clip, and lists all others; `None`: no split was named.
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
    let clip = split.clip(first);
    // What cannot be listed costs a bench rows, wherever in the split it is.
    let listed = videos.iter().skip(1).map(|video| (video, split.outline(video).map(|_| ())));
    let opened = std::iter::once((first, clip.as_ref().map(|_| ())));
    let faults: Vec<(&String, String)> = opened
        .filter_map(|(video, opened)| Some((video, opened.err()?.to_string())))
        .chain(listed.filter_map(|(video, listed)| Some((video, listed.err()?.to_string()))))
        .collect();
    match (clip, faults.as_slice()) {
        (Ok(clip), []) => Check::ok(
            name,
            format!(
                "{found}; {first} has {} frames, {} objects",
                clip.frames.len(),
                clip.objects.len()
            ),
        ),
        (_, faults) => {
            let (video, error) = faults.first().map_or(("", ""), |(video, error)| (video, error));
            let count = faults.len();
            Check::warning(
                name,
                format!("{found}; {count} cannot be used, the first is {video}: {error}"),
                "their rows will be empty and say so; mend them, or take them out of the manifest",
            )
        }
    }
}
