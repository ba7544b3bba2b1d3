/*!
The DAVIS layout, 2016 (one object) and 2017 (several), 480p.

```text
<dir>/JPEGImages/480p/<video>/00000.jpg …
<dir>/Annotations/480p/<video>/00000.png …     indexed: a pixel is the object's id
<dir>/ImageSets/{2017,2016,480p}/<split>.txt   one video (2016, 2017) or one pair of files (480p) a line
```

The objects of a clip are the ids in its first mask (Perazzi et al., CVPR 2016; Pont-Tuset et al.,
"The 2017 DAVIS Challenge on Video Object Segmentation").
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::{Clip, ClipError, Dataset, Frames, MaskError, ObjectTruth, listing, numbers, truth};
use crate::decode;

const FRAMES: &str = "JPEGImages/480p";
const MASKS: &str = "Annotations/480p";
const LISTS: [&str; 3] = ["ImageSets/2017", "ImageSets/2016", "ImageSets/480p"];
/// Foreground in the 2016 masks. In the 2017 masks it is background, where a prediction is an error
/// as on any other background pixel: davis2017-evaluation turns 255 into 0 in its semi-supervised
/// task.
const FULL: u16 = 255;

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
        if !listing::is_plain_name(video) {
            return Err(ClipError::BadVideoId { video: video.into() });
        }
        listing::refuse_other_than_utf8(&self.root.join(FRAMES), video)?;
        let dir = self.root.join(FRAMES).join(video);
        if !dir.is_dir() {
            return Err(ClipError::MissingVideo { video: video.into(), expected: dir });
        }
        let list = |dir: &Path, suffix: &str| {
            listing::files(dir, suffix)
                .map_err(|source| ClipError::Unlistable { path: dir.into(), source })
        };
        let mut frames = list(&dir, "jpg")?;
        if let Some(path) = frames.iter().find(|path| listing::not_utf8(path)) {
            return Err(ClipError::NotUtf8 { path: path.clone() });
        }
        // A mask has its frame's name, so none is missed; only the order follows the numbers.
        numbers::sort(&mut frames);
        if frames.is_empty() {
            return Err(ClipError::NoFrames { dir });
        }
        let masks_dir = self.root.join(MASKS).join(video);
        let masks = if masks_dir.is_dir() { list(&masks_dir, "png")? } else { Vec::new() };
        let masks = by_frame(&frames, masks);
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

/// Maps each frame to the mask file with the same stem.
fn by_frame(frames: &[PathBuf], masks: Vec<PathBuf>) -> BTreeMap<usize, PathBuf> {
    let index: BTreeMap<_, _> =
        frames.iter().enumerate().filter_map(|(i, path)| Some((path.file_stem()?, i))).collect();
    let position = |path: PathBuf| Some((*index.get(path.file_stem()?)?, path));
    masks.into_iter().filter_map(position).collect()
}

/// One object for each id of the first mask; `frame` is the clip's first frame.
fn objects(
    masks: &BTreeMap<usize, PathBuf>,
    frame: Option<&Path>,
) -> Result<Vec<ObjectTruth>, ClipError> {
    let Some(first) = masks.values().next() else { return Ok(Vec::new()) };
    // If the frame cannot be read, each object's row has the reason.
    let size = frame.and_then(|frame| decode::probe_size(frame).ok());
    let image = truth::read(first, size).map_err(ClipError::FirstMask)?;
    let ids = image.present();
    if !image.has_ids && !ids.is_empty() {
        return Err(ClipError::FirstMask(MaskError::NoIds { path: first.clone(), id: ids[0] }));
    }
    let object = |name: String, id| ObjectTruth { name, masks: masks.clone(), id };
    Ok(match ids.as_slice() {
        // DAVIS 2016: one object, drawn in white.
        [FULL] => vec![object("1".into(), None)],
        ids => {
            let ids = ids.iter().filter(|&&id| id != FULL);
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
