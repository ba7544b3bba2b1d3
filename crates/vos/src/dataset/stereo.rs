/*!
Pairs of clips as the two views of a stereo camera: one clip whose even frames are the left view and
whose odd frames are the right one, so that both run in step.
*/

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{Clip, ClipError, Dataset, Frames, ObjectTruth};

/// Views of a pair.
pub const VIEWS: usize = 2;
/// Endings of the names of a pair's clips.
const ENDINGS: [&str; VIEWS] = ["_left", "_right"];
/// Beginnings of the names of a pair's objects.
const SIDES: [&str; VIEWS] = ["left_", "right_"];

/// A split whose clips are pairs of another split's clips, `LEFT+RIGHT`.
#[derive(Debug)]
pub struct StereoSplit {
    split: Box<dyn Dataset>,
    pairs: Vec<[String; VIEWS]>,
    names: Vec<String>,
}

impl StereoSplit {
    /// Pairs `NAME_left` with `NAME_right`; where no clip is called so, each clip with the next.
    ///
    /// # Errors
    /// There is no pair.
    pub fn pair(split: Box<dyn Dataset>) -> Result<Self> {
        let videos = split.videos();
        let other = |left: &String| {
            let right = format!("{}{}", left.strip_suffix(ENDINGS[0])?, ENDINGS[1]);
            videos.contains(&right).then(|| [left.clone(), right])
        };
        let mut pairs: Vec<_> = videos.iter().filter_map(other).collect();
        if pairs.is_empty() {
            let (twos, _) = videos.as_chunks::<VIEWS>();
            pairs = twos.to_vec();
        }
        if pairs.is_empty() {
            bail!(
                "{} has 1 clip, and --stereo needs two: NAME_left and NAME_right, or any two",
                split.root().display()
            );
        }
        let names = pairs.iter().map(|[left, right]| format!("{left}+{right}")).collect();
        Ok(Self { split, pairs, names })
    }
}

impl Dataset for StereoSplit {
    fn root(&self) -> &Path {
        self.split.root()
    }

    fn videos(&self) -> &[String] {
        &self.names
    }

    fn has_object_folders(&self) -> bool {
        self.split.has_object_folders()
    }

    fn clip(&self, video: &str) -> Result<Clip, ClipError> {
        let at = self.names.iter().position(|name| name == video);
        let Some(pair) = at.and_then(|at| self.pairs.get(at)) else {
            return self.split.clip(video);
        };
        let clips = [self.split.clip(&pair[0])?, self.split.clip(&pair[1])?];
        let sizes = [clips[0].frame_size()?, clips[1].frame_size()?];
        let unequal = |what: String| ClipError::Pair { video: video.to_owned(), what };
        if sizes[0] != sizes[1] {
            let [(a, b), (c, d)] = sizes;
            return Err(unequal(format!("its views have {a}x{b} and {c}x{d} pixels")));
        }
        interleave(video, clips).map_err(|what| unequal(what.to_owned()))
    }
}

/// One clip of two of the same size; of the longer one the end is left out.
fn interleave(video: &str, clips: [Clip; VIEWS]) -> Result<Clip, &'static str> {
    let mut files: Vec<Vec<PathBuf>> = Vec::new();
    let (mut objects, mut remarks) = (Vec::new(), Vec::new());
    for (view, clip) in clips.into_iter().enumerate() {
        let Frames::Jpegs(frames) = clip.frames else {
            return Err("a view is a video file; write its frames as JPEG files");
        };
        files.push(frames);
        let of_view = |object: ObjectTruth| ObjectTruth {
            name: format!("{}{}", SIDES[view], object.name),
            masks: object.masks.into_iter().map(|(at, file)| (VIEWS * at + view, file)).collect(),
            id: object.id,
        };
        objects.push(clip.objects.into_iter().map(of_view).collect::<Vec<_>>());
        remarks.extend(clip.remarks);
    }
    let frames = files.iter().map(Vec::len).min().unwrap_or_default();
    let pairs = objects.iter().map(Vec::len).min().unwrap_or_default();
    let all: usize = objects.iter().map(Vec::len).sum();
    if all > VIEWS * pairs {
        let left = all - VIEWS * pairs;
        remarks.push(format!("{left} objects of one view have no partner and are not run"));
    }
    let mut objects: Vec<_> = objects.into_iter().map(Vec::into_iter).collect();
    let objects: Vec<ObjectTruth> = (0..pairs)
        .flat_map(|_| objects.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())
        .collect();
    let objects = objects.into_iter().map(|mut object| {
        object.masks.retain(|at, _| *at < VIEWS * frames);
        object
    });
    let objects = objects.collect();
    let frames = (0..frames).flat_map(|at| files.iter().filter_map(move |view| view.get(at)));
    let frames = Frames::Jpegs(frames.cloned().collect());
    Ok(Clip { video: video.to_owned(), frames, objects, remarks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clip(frames: usize, objects: &[&str]) -> Clip {
        let name = |at: usize| PathBuf::from(format!("{at}.jpg"));
        let object = |name: &&str| ObjectTruth {
            name: (*name).to_owned(),
            masks: (0..frames).map(|at| (at, PathBuf::from(format!("{name}/{at}.png")))).collect(),
            id: None,
        };
        Clip {
            video: "v".into(),
            frames: Frames::Jpegs((0..frames).map(name).collect()),
            objects: objects.iter().map(object).collect(),
            remarks: Vec::new(),
        }
    }

    #[test]
    fn frames_and_objects_alternate_and_what_has_no_partner_is_left_out() {
        let pair = interleave("a+b", [clip(3, &["0", "1"]), clip(2, &["0"])]).unwrap();
        assert_eq!(pair.frames.len(), 4);
        let names: Vec<&str> = pair.objects.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(names, ["left_0", "right_0"]);
        let frames = |at: usize| pair.objects[at].masks.keys().copied().collect::<Vec<_>>();
        assert_eq!((frames(0), frames(1)), (vec![0, 2], vec![1, 3]));
        assert!(pair.remarks[0].contains("1 objects of one view"), "{:?}", pair.remarks);
    }
}
