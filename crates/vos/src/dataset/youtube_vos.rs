/*!
The layout of YouTube-VOS, MOSE and LVOS.

```text
<split_dir>/<split_name>.txt                    optional list, one video a line
<split_dir>/meta.json                           YouTube-VOS: objects of each video (see youtube_meta)
<split_dir>/JPEGImages/<video>/00000.jpg …      names may count in steps: 00000, 00005, …
<split_dir>/Annotations/<video>/00000.png …     indexed: a pixel is the object's id
```

An object begins with the first mask that shows it, on any frame; later masks are its ground truth,
also where it is hidden. Without meta.json, the objects are the ids in all masks. With it, they are
the listed ones. A mask that lacks an object on a frame where the list has it visible is no ground
truth of that object: the validation split shows each object on its first frame alone.
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::indexed::{self, VOID};
use super::youtube_meta::{self, Objects};
use super::{Clip, ClipError, Dataset, Frames, ObjectTruth, Outline, listing};
use crate::decode;

const FRAMES: &str = "JPEGImages";
const MASKS: &str = "Annotations";
const META: &str = "meta.json";

/// A split in the layout of YouTube-VOS, MOSE and LVOS.
#[derive(Debug)]
pub struct YoutubeVosSplit {
    root: PathBuf,
    videos: Vec<String>,
    /// meta.json, where there is one.
    listed: Option<BTreeMap<String, Objects>>,
}

/// Whether `dir` looks like such a split, complete or not. DAVIS has the same folders with 480p
/// below them.
pub(super) fn is_here(dir: &Path) -> bool {
    [FRAMES, MASKS].iter().any(|name| dir.join(name).is_dir())
}

impl YoutubeVosSplit {
    /// Opens the split. `<split_name>.txt` lists its videos, else meta.json, else the folders.
    ///
    /// # Errors
    /// There are no frames, no annotations, an unreadable list or meta.json, or no video.
    pub fn open(split_dir: &Path, split_name: &str) -> Result<Self> {
        let root = split_dir.to_path_buf();
        for part in [FRAMES, MASKS] {
            if !root.join(part).is_dir() {
                bail!(
                    "Missing {part} directory: expected it under {} (layout of YouTube-VOS, MOSE \
                     and LVOS), found {}",
                    root.display(),
                    listing::summary(&root)
                );
            }
        }
        let meta = root.join(META);
        let listed = if meta.is_file() { Some(youtube_meta::read(&meta)?) } else { None };
        let list = root.join(format!("{split_name}.txt"));
        let videos = match &listed {
            _ if list.is_file() => listing::manifest(&list)
                .with_context(|| format!("cannot read the list {}", list.display()))?,
            Some(listed) => listed.keys().cloned().collect(),
            None => {
                let frames = root.join(FRAMES);
                let folders = listing::folders(&frames)
                    .with_context(|| format!("cannot list {}", frames.display()))?;
                listing::names(&folders)
            }
        };
        if videos.is_empty() {
            bail!(
                "the split {} has no video; expected folders in {FRAMES}/, or videos in {} or {}",
                root.display(),
                meta.display(),
                list.display()
            );
        }
        Ok(Self { root, videos, listed })
    }

    /// The objects that meta.json has for a video; `None` without the file.
    fn listed(&self, video: &str) -> Result<Option<&Objects>, ClipError> {
        let Some(listed) = &self.listed else { return Ok(None) };
        let missing =
            || ClipError::NotListed { list: self.root.join(META), video: video.to_owned() };
        listed.get(video).map(Some).ok_or_else(missing)
    }

    /// Frames and masks of a video.
    fn files(&self, video: &str) -> Result<(Vec<PathBuf>, BTreeMap<usize, PathBuf>), ClipError> {
        let frames = indexed::frames(&self.root, FRAMES, video)?;
        let dir = self.root.join(MASKS).join(video);
        let (masks, strays) = indexed::masks(&dir, &frames)?;
        if let Some(mask) = strays.into_iter().next() {
            let frame = Path::new(mask.file_name().unwrap_or_default()).with_extension("jpg");
            let expected = self.root.join(FRAMES).join(video).join(frame);
            return Err(ClipError::MaskWithoutFrame { mask, expected });
        }
        if masks.is_empty() {
            return Err(ClipError::NoAnnotations { expected: dir.join("00000.png") });
        }
        Ok((frames, masks))
    }
}

impl Dataset for YoutubeVosSplit {
    fn root(&self) -> &Path {
        &self.root
    }

    fn videos(&self) -> &[String] {
        &self.videos
    }

    fn clip(&self, video: &str) -> Result<Clip, ClipError> {
        let (frames, masks) = self.files(video)?;
        let listed = self.listed(video)?;
        // If the frame cannot be read, each object's row has the reason.
        let size = frames.first().and_then(|frame| decode::probe_size(frame).ok());
        let mut shown = BTreeMap::new();
        for (&index, mask) in &masks {
            shown.insert(index, indexed::ids(mask, size)?);
        }
        let ids: Vec<u16> = match listed {
            Some(listed) => listed.keys().copied().collect(),
            None => {
                let mut ids: Vec<u16> =
                    shown.values().flatten().copied().filter(|&id| id != VOID).collect();
                ids.sort_unstable();
                ids.dedup();
                ids
            }
        };
        if ids.is_empty() {
            let expected = self.root.join(MASKS).join(video).join("00000.png");
            return Err(ClipError::NoAnnotations { expected });
        }
        let (mut objects, mut remarks) = (Vec::new(), Vec::new());
        for id in ids {
            let visible = listed.and_then(|listed| listed.get(&id)?.as_ref());
            let truth = truth(&masks, &shown, id, |index| {
                let stem = frames.get(index).and_then(|frame| frame.file_stem()?.to_str());
                stem.zip(visible).is_some_and(|(stem, visible)| visible.contains(stem))
            });
            if truth.is_empty() {
                remarks.push(format!(
                    "{} lists object {id}, but no mask in {} shows it",
                    self.root.join(META).display(),
                    self.root.join(MASKS).join(video).display()
                ));
            }
            objects.push(ObjectTruth { name: id.to_string(), masks: truth, id: Some(id) });
        }
        Ok(Clip { video: video.into(), frames: Frames::Jpegs(frames), objects, remarks })
    }

    /// Objects that meta.json lists, else those of the first mask: later masks are not decoded.
    fn outline(&self, video: &str) -> Result<Outline, ClipError> {
        let (frames, masks) = self.files(video)?;
        let objects = match (self.listed(video)?, masks.values().next()) {
            (Some(listed), _) => listed.len(),
            (None, Some(first)) => {
                indexed::ids(first, None)?.iter().filter(|&&id| id != VOID).count()
            }
            (None, None) => 0,
        };
        Ok(Outline { frames: frames.len(), objects: objects.max(1) })
    }
}

/// The masks of object `id`, from the first that shows it on; without those that lack it on a frame
/// where it is `visible`.
fn truth(
    masks: &BTreeMap<usize, PathBuf>,
    shown: &BTreeMap<usize, Vec<u16>>,
    id: u16,
    visible: impl Fn(usize) -> bool,
) -> BTreeMap<usize, PathBuf> {
    let shows = |index: &usize| shown.get(index).is_some_and(|ids| ids.contains(&id));
    let masks = masks.iter().skip_while(|(index, _)| !shows(index));
    let masks = masks.filter(|(index, _)| shows(index) || !visible(**index));
    masks.map(|(index, path)| (*index, path.clone())).collect()
}
