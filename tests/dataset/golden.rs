/*!
The small splits in tests/data/datasets: each reader lists what Python lists, and its ground truth
gives predictions the scores that Python gives them.
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use vos::dataset::{self, ObjectTruth};
use vos::decode::mask_png;
use vos::metrics::{MetricsKind, Scorer};
use vos::record::Quality;
use vos::stats::mean;

use super::disk::names;

#[derive(Deserialize)]
struct Golden {
    videos: BTreeMap<String, Video>,
    mean: Score,
}

#[derive(Deserialize)]
struct Video {
    frames: Vec<String>,
    objects: BTreeMap<String, Object>,
}

#[derive(Deserialize)]
struct Object {
    masks: Vec<usize>,
    official: Option<Score>,
    predecessor: Option<Score>,
}

#[derive(Deserialize)]
struct Score {
    j: f64,
    f: f64,
    #[serde(default)]
    scored_frames: usize,
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/datasets");
const SIZE: (usize, usize) = (48, 32);

/// J and F of the committed predictions.
fn score(
    kind: MetricsKind,
    predictions: &Path,
    frames: &[PathBuf],
    object: &ObjectTruth,
) -> Option<Quality> {
    let mut scorer = Scorer::new(kind);
    for &index in object.masks.keys() {
        let stem = frames[index].file_stem().unwrap();
        let path = predictions.join(stem).with_extension("png");
        let predicted = mask_png(&path).unwrap().mask(object.id);
        scorer.push(Some(&object.mask(index, SIZE).unwrap()), Some(&predicted));
    }
    scorer.finish()
}

fn same(found: Option<Quality>, expected: Option<&Score>, what: &str) {
    let Some(expected) = expected else { return assert!(found.is_none(), "{what}") };
    let found = found.unwrap_or_else(|| panic!("{what}: nothing was scored"));
    assert!((found.j - expected.j).abs() < 1e-12, "{what}: J {} {}", found.j, expected.j);
    assert!((found.f - expected.f).abs() < 1e-12, "{what}: F {} {}", found.f, expected.f);
    assert_eq!(found.scored_frames, expected.scored_frames, "{what}");
}

#[test]
fn each_layout_is_found_and_scored_as_in_python() {
    let golden = std::fs::read(Path::new(FOLDER).join("golden.json")).unwrap();
    let golden: BTreeMap<String, Golden> = serde_json::from_slice(&golden).unwrap();
    assert_eq!(golden.len(), 4);
    for (name, expected) in golden {
        let root = Path::new(FOLDER).join(&name);
        let split = dataset::open(&root, "val").unwrap();
        let videos: Vec<&String> = expected.videos.keys().collect();
        let mut found: Vec<&String> = split.videos().iter().collect();
        found.sort();
        assert_eq!(found, videos, "{name}");
        let (mut j, mut f) = (Vec::new(), Vec::new());
        for (video, expected) in &expected.videos {
            let clip = split.clip(video).unwrap();
            let frames = clip.frames.files().to_vec();
            assert_eq!(names(&frames), expected.frames, "{name} {video}");
            let ids: Vec<&str> = clip.objects.iter().map(|object| object.name.as_str()).collect();
            assert_eq!(ids, expected.objects.keys().collect::<Vec<_>>(), "{name} {video}");
            assert!(clip.remarks.is_empty(), "{:?}", clip.remarks);
            let outline = split.outline(video).unwrap();
            assert_eq!(outline.frames, frames.len(), "{name} {video}");
            for object in &clip.objects {
                let expected = &expected.objects[&object.name];
                let what = format!("{name} {video} object {}", object.name);
                assert_eq!(
                    object.masks.keys().copied().collect::<Vec<_>>(),
                    expected.masks,
                    "{what}"
                );
                assert_eq!(object.prompt_index(), expected.masks.first().copied(), "{what}");
                let predictions = root.join("predictions").join(video);
                let score = |kind| score(kind, &predictions, &frames, object);
                same(score(MetricsKind::Predecessor), expected.predecessor.as_ref(), &what);
                let official = score(MetricsKind::Official);
                same(official, expected.official.as_ref(), &what);
                j.extend(official.map(|quality| quality.j));
                f.extend(official.map(|quality| quality.f));
            }
        }
        let (j, f) = (mean(&j).unwrap(), mean(&f).unwrap());
        assert!((j - expected.mean.j).abs() < 1e-12, "{name}: J {j} {}", expected.mean.j);
        assert!((f - expected.mean.f).abs() < 1e-12, "{name}: F {f} {}", expected.mean.f);
    }
}
