/*!
meta.json of YouTube-VOS: the objects of each video and the frames on which they are visible.

```text
{"videos": {"<video>": {"objects": {"<id>": {"category": "cat", "frames": ["00000", …]}}}}}
```

LVOS has a file of this form with `frame_range` in place of `frames`.
*/

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// The objects of a video: id → stems of the frames on which the object is visible, if listed.
pub(super) type Objects = BTreeMap<u16, Option<BTreeSet<String>>>;

#[derive(Deserialize)]
struct Meta {
    videos: BTreeMap<String, Video>,
}

#[derive(Deserialize)]
struct Video {
    objects: BTreeMap<String, Object>,
}

#[derive(Deserialize)]
struct Object {
    frames: Option<BTreeSet<String>>,
}

/// The objects of each video in the file.
///
/// # Errors
/// The file cannot be read, has another form, or an object's key is no id of 1 to 254.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Objects>> {
    let expected = "expected the form of YouTube-VOS: {\"videos\": {\"VIDEO\": {\"objects\": \
                    {\"1\": {\"frames\": [\"00000\", …]}}}}}";
    let place = || format!("cannot read {}; {expected}", path.display());
    let text = std::fs::read_to_string(path).with_context(place)?;
    let meta: Meta = serde_json::from_str(&text).with_context(place)?;
    let mut videos = BTreeMap::new();
    for (video, Video { objects }) in meta.videos {
        let mut of_video = Objects::new();
        for (key, object) in objects {
            match key.parse() {
                Ok(id @ 1..=254) => drop(of_video.insert(id, object.frames)),
                _ => bail!(
                    "{}: video {video} has an object {key:?}; expected an id from 1 to 254, which \
                     its masks have as pixel values",
                    path.display()
                ),
            }
        }
        videos.insert(video, of_video);
    }
    Ok(videos)
}
