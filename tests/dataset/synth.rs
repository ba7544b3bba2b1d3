/*!
The synthetic split is a real one: it opens, its masks fit, and a seed fixes every byte.
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use vos::dataset;
use vos::synth::{MASK_STRIDE, SynthOptions, write_split};

fn options(out: &Path) -> SynthOptions {
    SynthOptions {
        out: out.into(),
        videos: 2,
        objects: 3,
        frames: 9,
        width: 97,
        height: 61,
        seed: 5,
        alike: false,
        mask_stride: MASK_STRIDE,
    }
}

/// Every file below `dir` with its bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(path.strip_prefix(dir).unwrap().into(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn the_split_opens_and_every_object_is_seen_on_its_prompt_frame() {
    let dir = tempfile::tempdir().unwrap();
    let summary = write_split(&options(dir.path())).unwrap();
    assert_eq!((summary.frames, summary.masks), (18, 2 * 3 * 3));
    let split = dataset::open(dir.path(), "sav_val").unwrap();
    assert_eq!(split.videos(), ["synth_000", "synth_001"]);
    for video in split.videos() {
        let clip = split.clip(video).unwrap();
        assert_eq!((clip.frames.len(), clip.frame_size().unwrap()), (9, (97, 61)));
        let names: Vec<_> = clip.objects.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(names, ["000", "001", "002"]);
        for object in &clip.objects {
            assert_eq!(object.masks.keys().copied().collect::<Vec<_>>(), [0, 4, 8]);
            assert!(object.mask_of_size(0, 97, 61).unwrap().area() >= 40);
        }
        let (first, last) = (clip.frame(0, (97, 61)).unwrap(), clip.frame(8, (97, 61)).unwrap());
        assert_ne!(first, last, "the scene moves");
    }
}

#[test]
fn a_seed_fixes_every_byte() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    for (dir, seed) in dirs.iter().zip([5, 5, 6]) {
        write_split(&SynthOptions { seed, ..options(dir.path()) }).unwrap();
    }
    let [a, b, c] = dirs.each_ref().map(|dir| files(dir.path()));
    assert_eq!(a.len(), 2 + 18 + 18);
    assert!(a == b, "same seed, same files");
    let frame = Path::new("JPEGImages_24fps/synth_000/00000.jpg");
    assert_ne!(a[frame], c[frame], "another seed, another scene");
}

#[test]
fn alike_objects_differ_in_place_alone() {
    let dir = tempfile::tempdir().unwrap();
    let alike = SynthOptions { alike: true, objects: 2, frames: 1, ..options(dir.path()) };
    write_split(&SynthOptions { width: 320, height: 180, ..alike }).unwrap();
    let split = dataset::open(dir.path(), "sav_val").unwrap();
    for video in split.videos() {
        let clip = split.clip(video).unwrap();
        let image = clip.frame(0, (320, 180)).unwrap();
        // Angles and light differ, so areas and mean colours are near, not equal.
        let looks = clip.objects.iter().map(|object| {
            let mask = object.mask_of_size(0, 320, 180).unwrap();
            let red = |(x, y): (usize, usize)| f64::from(image.data[3 * (y * 320 + x)]);
            (mask.area() as f64, mask.pixels().map(red).sum::<f64>() / mask.area() as f64)
        });
        let [(area, red), (other_area, other_red)] = looks.collect::<Vec<_>>()[..] else {
            panic!()
        };
        assert!((area / other_area - 1.0).abs() < 0.05, "{area} and {other_area} pixels");
        assert!((red - other_red).abs() < 12.0, "mean red {red} and {other_red}");
    }
}

#[test]
fn objects_move_change_and_hide_one_another() {
    let dir = tempfile::tempdir().unwrap();
    let long = SynthOptions { videos: 1, objects: 4, frames: 45, ..options(dir.path()) };
    write_split(&long).unwrap();
    let clip = dataset::open(dir.path(), "sav_val").unwrap().clip("synth_000").unwrap();
    let size = clip.frame_size().unwrap();
    let mut hidden = 0;
    for object in &clip.objects {
        let masks: Vec<_> = object.masks.keys().map(|&i| object.mask(i, size).unwrap()).collect();
        // Wholly hidden twice in a row is no standing still.
        let moves = masks.windows(2).all(|pair| pair[0] != pair[1] || pair[0].is_empty());
        assert!(moves && masks[0] != masks[1], "object {} stands still", object.name);
        let areas: Vec<_> = masks.iter().map(vos::mask::Mask::area).collect();
        hidden += usize::from(areas.iter().any(|&area| area * 10 < areas[0] * 7));
    }
    assert!(hidden >= 1, "no object is ever hidden by a third");
    for index in [0, 20, 44] {
        let seen: Vec<_> = clip.objects.iter().filter_map(|o| o.mask(index, size).ok()).collect();
        for (i, a) in seen.iter().enumerate() {
            for b in &seen[i + 1..] {
                assert_eq!(a.intersection_union(b).0, 0, "a pixel shows one object");
            }
        }
    }
}

#[test]
fn nothing_but_an_old_synthetic_split_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    write_split(&options(dir.path())).unwrap();
    let smaller = SynthOptions { videos: 1, objects: 1, frames: 1, ..options(dir.path()) };
    write_split(&smaller).unwrap();
    assert_eq!(files(dir.path()).len(), 4, "marker, manifest, one frame, one mask");

    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("thesis.tex"), "precious").unwrap();
    let message = write_split(&options(other.path())).unwrap_err().to_string();
    assert!(message.contains("not empty") && message.contains("--out"), "{message}");
    assert_eq!(files(other.path()).len(), 1);
}

#[test]
fn options_out_of_range_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let base = options(dir.path());
    for (bad, part) in [
        (SynthOptions { width: 15, ..base.clone() }, "15x61"),
        (SynthOptions { height: 9000, ..base.clone() }, "9000"),
        (SynthOptions { frames: 0, ..base.clone() }, "--frames is 0"),
        (SynthOptions { videos: 0, ..base.clone() }, "--videos is 0"),
        (SynthOptions { objects: 0, ..base.clone() }, "--objects is 0"),
        (SynthOptions { objects: 500, ..base.clone() }, "--objects 500 do not fit"),
    ] {
        let message = write_split(&bad).unwrap_err().to_string();
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
    assert!(files(dir.path()).is_empty());
}

mod smallest {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn prompt_masks_are_never_empty(
            width in 16_usize..70, height in 16_usize..70, objects in 1_usize..8, seed: u64,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let one = SynthOptions {
                out: dir.path().into(), videos: 1, objects, frames: 1, width, height, seed, alike: false,
                mask_stride: MASK_STRIDE,
            };
            // Too many objects for the size is an error, never an empty mask.
            prop_assume!(write_split(&one).is_ok());
            let clip = dataset::open(dir.path(), "sav_val").unwrap().clip("synth_000").unwrap();
            prop_assert_eq!(clip.objects.len(), objects);
            for object in &clip.objects {
                prop_assert!(object.mask_of_size(0, width, height).unwrap().area() >= 4);
            }
        }
    }
}
