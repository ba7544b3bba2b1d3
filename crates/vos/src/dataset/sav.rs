/*!
The SA-V layout (Segment Anything Video, val and test), found by the predecessor's rules.

```text
<split_dir>/<split_name>.txt                                  optional manifest, one video id a line
<split_dir>/JPEGImages_24fps/<video>/00000.jpg …              every frame
<split_dir>/Annotations_6fps/<video>/<object>/00000.png …     masks; the stem is the frame's index
<split_dir>/video_fps_24/<video>.mp4                          instead of JPEGs, through ffmpeg
```

Frame N is the JPEG with the number N; a clip with a missing frame is refused (see `numbers`). A
video file is decoded at 24 frames a second: at another rate frames are repeated or dropped.
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::{Clip, ClipError, Dataset, Frames, ObjectTruth, Outline, listing, numbers};
use crate::ffmpeg::Ffmpeg;

const FRAMES: &str = "JPEGImages_24fps";
const MASKS: &str = "Annotations_6fps";
const VIDEOS: [&str; 2] = ["video_fps_24", "videos_fps_24"];
const VIDEO_SUFFIXES: [&str; 3] = ["mp4", "mov", "mkv"];

/// A split in the SA-V layout.
#[derive(Debug)]
pub struct SavSplit {
    root: PathBuf,
    videos: Vec<String>,
}

/// Whether `dir` looks like a SA-V split, complete or not.
pub(super) fn is_here(dir: &Path) -> bool {
    [FRAMES, MASKS].iter().chain(&VIDEOS).any(|name| dir.join(name).is_dir())
}

impl SavSplit {
    /// Opens the split. `<split_name>.txt` lists its videos, else the folders (or video files) do.
    ///
    /// # Errors
    /// There is no source of frames, no annotations, an unreadable manifest, or no video.
    pub fn open(split_dir: &Path, split_name: &str) -> Result<Self> {
        let root = split_dir.to_path_buf();
        let sources = std::iter::once(FRAMES).chain(VIDEOS);
        if !sources.clone().any(|name| root.join(name).is_dir()) {
            bail!(
                "Missing JPEGImages_24fps directory: expected JPEGImages_24fps or \
                 video_fps_24/videos_fps_24 under {}, found {}",
                root.display(),
                listing::summary(&root)
            );
        }
        if !root.join(MASKS).is_dir() {
            bail!(
                "Missing Annotations_6fps directory: expected it under {}, found {}; without \
                 ground truth there is no prompt and no score",
                root.display(),
                listing::summary(&root)
            );
        }
        let manifest = root.join(format!("{split_name}.txt"));
        let videos = if manifest.is_file() {
            listing::manifest(&manifest)
                .with_context(|| format!("cannot read the manifest {}", manifest.display()))?
        } else {
            list_videos(&root)?
        };
        if videos.is_empty() && manifest.is_file() {
            bail!(
                "the manifest {} lists no video; write one video id a line, or remove the file to \
                 take all videos",
                manifest.display()
            );
        }
        if videos.is_empty() {
            bail!(
                "the split {} names no video: there is no {} and no folder in {FRAMES}/; add \
                 videos, or make a split with `segtrt synth --out DIR`",
                root.display(),
                manifest.display()
            );
        }
        Ok(Self { root, videos })
    }

    /// The objects with masks, and warnings about folders without.
    fn objects(&self, video: &str) -> Result<(Vec<ObjectTruth>, Vec<String>), ClipError> {
        let dir = self.root.join(MASKS).join(video);
        let missing = || ClipError::NoAnnotations { expected: dir.join("<object>/00000.png") };
        if !dir.is_dir() {
            return Err(missing());
        }
        let (mut objects, mut remarks) = (Vec::new(), Vec::new());
        for folder in listing::folders(&dir).map_err(unlistable(&dir))? {
            let Some(name) = folder.file_name().and_then(|name| name.to_str()) else {
                return Err(ClipError::NotUtf8 { path: folder });
            };
            let name = name.to_owned();
            let mut masks = BTreeMap::new();
            for path in listing::files(&folder, "png").map_err(unlistable(&folder))? {
                if let Some(index) = index_of(&path) {
                    // Of two stems with the same number, SA-V's spelling is the mask.
                    let usual = path.ends_with(format!("{index:05}.png"));
                    if usual || !masks.contains_key(&index) {
                        masks.insert(index, path);
                    }
                }
            }
            match masks.is_empty() {
                // As in the predecessor, it has no rows.
                true => remarks.push(format!(
                    "{} is skipped: it has no PNG with a number as its name (00000.png, 00004.png, \
                     …)",
                    folder.display()
                )),
                false => objects.push(ObjectTruth { name, masks, id: None }),
            }
        }
        if objects.is_empty() { Err(missing()) } else { Ok((objects, remarks)) }
    }
}

impl Dataset for SavSplit {
    fn root(&self) -> &Path {
        &self.root
    }

    fn videos(&self) -> &[String] {
        &self.videos
    }

    fn has_object_folders(&self) -> bool {
        true
    }

    fn clip(&self, video: &str) -> Result<Clip, ClipError> {
        let (frames, film) = self.sources(video)?;
        let (objects, mut remarks) = self.objects(video)?;
        let frames = match film {
            Some(film) => Frames::Video(Ffmpeg::find()?.frames(&film, None)?),
            None => Frames::Jpegs(frames),
        };
        for object in &objects {
            let mut beyond = object.masks.range(frames.len()..);
            if let Some((_, path)) = beyond.next() {
                remarks.push(format!(
                    "the clip has {} frames; {} and {} more masks of object {} belong to later \
                     frames and are not scored",
                    frames.len(),
                    path.display(),
                    beyond.count(),
                    object.name
                ));
            }
        }
        Ok(Clip { video: video.into(), frames, objects, remarks })
    }

    fn outline(&self, video: &str) -> Result<Outline, ClipError> {
        let (frames, _) = self.sources(video)?;
        let (objects, _) = self.objects(video)?;
        let last = objects.iter().filter_map(|object| object.masks.keys().next_back()).max();
        let frames = match frames.len() {
            0 => last.map_or(0, |last| last + 1),
            listed => listed,
        };
        Ok(Outline { frames, objects: objects.len() })
    }
}

impl SavSplit {
    /// The frame files of a video, or else its video file.
    fn sources(&self, video: &str) -> Result<(Vec<PathBuf>, Option<PathBuf>), ClipError> {
        if !listing::is_plain_name(video) {
            return Err(ClipError::BadVideoId { video: video.into() });
        }
        for name in std::iter::once(FRAMES).chain(VIDEOS) {
            listing::refuse_other_than_utf8(&self.root.join(name), video)?;
        }
        let dir = self.root.join(FRAMES).join(video);
        let frames = if dir.is_dir() {
            listing::files(&dir, "jpg").map_err(unlistable(&dir))?
        } else {
            Vec::new()
        };
        let frames = if frames.is_empty() { frames } else { numbers::in_order(&dir, frames)? };
        let film = if frames.is_empty() { find_film(&self.root, video)? } else { None };
        if frames.is_empty() && film.is_none() {
            return Err(if dir.is_dir() {
                ClipError::NoFrames { dir }
            } else {
                ClipError::MissingVideo { video: video.into(), expected: dir }
            });
        }
        Ok((frames, film))
    }
}

/// Ids without a manifest: the JPEG folders, or else the entries of the first video folder that is
/// not empty.
fn list_videos(root: &Path) -> Result<Vec<String>> {
    let frames = root.join(FRAMES);
    if frames.is_dir() {
        let folders = listing::folders(&frames)
            .with_context(|| format!("cannot list {}", frames.display()))?;
        if !folders.is_empty() {
            return Ok(listing::names(&folders));
        }
    }
    for dir in VIDEOS.map(|name| root.join(name)).into_iter().filter(|dir| dir.is_dir()) {
        let paths =
            listing::entries(&dir).with_context(|| format!("cannot list {}", dir.display()))?;
        let mut ids: Vec<String> = Vec::new();
        for path in paths {
            let id = if path.is_dir() { Some(listing::name(&path)) } else { film_stem(&path) };
            if let Some(id) = id.filter(|id| !ids.contains(id)) {
                ids.push(id);
            }
        }
        if !ids.is_empty() {
            return Ok(ids);
        }
    }
    Ok(Vec::new())
}

/// The video file of an id: in a folder of that name (`.mp4` only, as in the predecessor), or a file
/// with that stem.
fn find_film(root: &Path, video: &str) -> Result<Option<PathBuf>, ClipError> {
    for dir in VIDEOS.map(|name| root.join(name)).into_iter().filter(|dir| dir.is_dir()) {
        let folder = dir.join(video);
        if folder.is_dir() {
            let films = listing::files(&folder, "mp4").map_err(unlistable(&folder))?;
            if let Some(film) = films.into_iter().next() {
                return Ok(Some(film));
            }
        }
        let direct = dir.join(format!("{video}.mp4"));
        if direct.is_file() {
            return Ok(Some(direct));
        }
        let mut paths = listing::entries(&dir).map_err(unlistable(&dir))?.into_iter();
        if let Some(film) = paths.find(|path| film_stem(path).as_deref() == Some(video)) {
            return Ok(Some(film));
        }
    }
    Ok(None)
}

/// The stem of a path with a video suffix in any case.
fn film_stem(path: &Path) -> Option<String> {
    let suffix = path.extension()?.to_str()?.to_ascii_lowercase();
    let stem = path.file_stem()?.to_string_lossy();
    VIDEO_SUFFIXES.contains(&suffix.as_str()).then(|| stem.into_owned())
}

/// The frame index in a mask's file name.
fn index_of(path: &Path) -> Option<usize> {
    path.file_stem()?.to_str()?.parse().ok()
}

fn unlistable(path: &Path) -> impl FnOnce(std::io::Error) -> ClipError {
    let path = path.to_path_buf();
    |source| ClipError::Unlistable { path, source }
}
