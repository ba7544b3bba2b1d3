/*!
The DAVIS layout, 2016 (one object) and 2017 (several), 480p.

```text
<dir>/JPEGImages/480p/<video>/00000.jpg …
<dir>/Annotations/480p/<video>/00000.png …     indexed: a pixel is the object's id
<dir>/ImageSets/{2017,2016,480p}/<split>.txt   one video (2016, 2017) or one pair of files (480p) a line
```

The objects of a clip are the ids in its first mask, as davis2017-evaluation counts them (Perazzi et
al., CVPR 2016; Pont-Tuset et al., "The 2017 DAVIS Challenge on Video Object Segmentation").
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::indexed::{self, VOID};
use super::{Clip, ClipError, Dataset, Frames, ObjectTruth, listing};
use crate::decode;

const FRAMES: &str = "JPEGImages/480p";
const MASKS: &str = "Annotations/480p";
const LISTS: [&str; 3] = ["ImageSets/2017", "ImageSets/2016", "ImageSets/480p"];

/// A split in the DAVIS layout.
#[derive(Debug)]
pub struct DavisSplit {
    root: PathBuf,
    videos: Vec<String>,
}

/// Whether `dir` looks like DAVIS, complete or not.
pub(super) fn is_here(dir: &Path) -> bool {
    [FRAMES, MASKS].iter().any(|name| dir.join(name).is_dir())
}

impl DavisSplit {
    /// Opens the split of the list `<split_name>.txt`; without any list it has all videos.
    ///
    /// # Errors
    /// There are no frames, no annotations, no list of that name among others, or no video.
    pub fn open(dir: &Path, split_name: &str) -> Result<Self> {
        let root = dir.to_path_buf();
        for part in [FRAMES, MASKS] {
            if !root.join(part).is_dir() {
                bail!(
                    "Missing {part} directory: expected it under {} (DAVIS layout), found {}",
                    root.display(),
                    listing::summary(&root)
                );
            }
        }
        let file = format!("{split_name}.txt");
        let list = LISTS.iter().map(|list| root.join(list).join(&file)).find(|path| path.is_file());
        let videos = match list {
            Some(list) => {
                let lines = listing::manifest(&list)
                    .with_context(|| format!("cannot read the list {}", list.display()))?;
                let mut videos: Vec<String> = Vec::new();
                for line in &lines {
                    let video = video_of(line).to_string();
                    if !videos.contains(&video) {
                        videos.push(video);
                    }
                }
                videos
            }
            None => {
                let others = split_names(&root);
                if !others.is_empty() {
                    bail!(
                        "no list {file} in {}/ImageSets/{{2017,2016,480p}}; found {}. Try \
                         --split-name {}",
                        root.display(),
                        others.join(", "),
                        others[0]
                    );
                }
                let frames = root.join(FRAMES);
                let folders = listing::folders(&frames)
                    .with_context(|| format!("cannot list {}", frames.display()))?;
                listing::names(&folders)
            }
        };
        if videos.is_empty() {
            bail!(
                "the split {split_name} of {} has no video; expected folders in {FRAMES}/ or lines \
                 in ImageSets/2017/{file}",
                root.display()
            );
        }
        Ok(Self { root, videos })
    }
}

impl Dataset for DavisSplit {
    fn root(&self) -> &Path {
        &self.root
    }

    fn videos(&self) -> &[String] {
        &self.videos
    }

    fn clip(&self, video: &str) -> Result<Clip, ClipError> {
        let frames = indexed::frames(&self.root, FRAMES, video)?;
        let masks_dir = self.root.join(MASKS).join(video);
        let (masks, _) = indexed::masks(&masks_dir, &frames)?;
        let objects = objects(&masks, frames.first().map(PathBuf::as_path))?;
        if objects.is_empty() {
            let expected = masks_dir.join("00000.png");
            return Err(ClipError::NoAnnotations { expected });
        }
        Ok(Clip {
            video: video.into(),
            frames: Frames::Jpegs(frames),
            objects,
            remarks: Vec::new(),
        })
    }
}

/// One object for each id of the first mask; `frame` is the clip's first frame.
fn objects(
    masks: &BTreeMap<usize, PathBuf>,
    frame: Option<&Path>,
) -> Result<Vec<ObjectTruth>, ClipError> {
    let Some(first) = masks.values().next() else { return Ok(Vec::new()) };
    // If the frame cannot be read, each object's row has the reason.
    let size = frame.and_then(|frame| decode::probe_size(frame).ok());
    let ids = indexed::ids(first, size)?;
    let object = |name: String, id| ObjectTruth { name, masks: masks.clone(), id };
    Ok(match ids.as_slice() {
        // DAVIS 2016: one object, drawn in white.
        [VOID] => vec![object("1".into(), None)],
        ids => {
            let ids = ids.iter().filter(|&&id| id != VOID);
            ids.map(|&id| object(id.to_string(), Some(id))).collect()
        }
    })
}

/// `bear` of `bear`, and of `/JPEGImages/480p/bear/00000.jpg /Annotations/480p/bear/00000.png`.
fn video_of(line: &str) -> &str {
    let first = line.split_whitespace().next().unwrap_or(line);
    let parent = Path::new(first).parent().and_then(Path::file_name).and_then(|name| name.to_str());
    parent.unwrap_or(line)
}

/// The splits with a list, each once.
fn split_names(root: &Path) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for list in LISTS {
        let dir = root.join(list);
        for path in listing::files(&dir, "txt").unwrap_or_default() {
            if let Some(stem) = path.file_stem().and_then(|stem| stem.to_str())
                && !names.iter().any(|name| name == stem)
            {
                names.push(stem.into());
            }
        }
    }
    names
}
