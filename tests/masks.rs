//! `segtrt masks`: the layout of the evaluation servers, the merging of objects, its refusals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use predicates::prelude::*;
use predicates::str::contains;

use report::compare::runs::RunFolder;
use vos::decode::{IdImage, mask_png};
use vos::record::ObjectKey;

use crate::support::{bench, segtrt, synth};

/// The small YouTube-VOS split: objects on frame 0 and later, names in steps of 5.
fn youtube() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/datasets/youtube_vos")
}

fn masks(run: &Path, split: &Path, out: &Path) -> assert_cmd::Command {
    let mut command = segtrt();
    command.arg("masks").arg(run).arg("--split-dir").arg(split).arg("--out").arg(out);
    command
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The mask of an object on a frame, as the run has it.
fn measured(run: &Path, video: &str, object: &str, frame: usize) -> vos::mask::Mask {
    let key =
        ObjectKey { video: video.into(), object: object.into(), tag: "edgetam_mini_points".into() };
    let file = RunFolder::read(run).unwrap().masks(&key).unwrap();
    file.frames.iter().find(|it| it.frame == frame).unwrap().decode().unwrap()
}

#[test]
fn all_objects_of_a_frame_are_in_one_indexed_file() {
    let dir = tempfile::tempdir().unwrap();
    let (run, out) = (dir.path().join("run"), dir.path().join("out"));
    bench(&youtube(), &run).args(["--save-masks", "--save-logits"]).assert().success();
    masks(&run, &youtube(), &out)
        .assert()
        .success()
        .stdout(contains("10 masks of 4 objects in 2 clips"))
        .stderr(contains("smaller id").not());
    assert_eq!(names(&out), ["Annotations"]);
    assert_eq!(names(&out.join("Annotations")), ["003234408d", "0062f687f1"]);
    for (video, late, from) in [("003234408d", "2", 1), ("0062f687f1", "4", 2)] {
        let folder = out.join("Annotations").join(video);
        let frames = ["00000.png", "00005.png", "00010.png", "00015.png", "00020.png"];
        assert_eq!(names(&folder), frames);
        for (index, name) in frames.iter().enumerate() {
            let IdImage { width, height, ids, has_ids } = mask_png(&folder.join(name)).unwrap();
            assert!(has_ids && (width, height) == (48, 32));
            let one = measured(&run, video, "1", index);
            let two = (index >= from).then(|| measured(&run, video, late, index));
            for (at, id) in ids.iter().enumerate() {
                let (x, y) = (at % width, at / width);
                let two = two.as_ref().is_some_and(|mask| mask.get(x, y));
                let of_late = *id == late.parse::<u16>().unwrap();
                match (one.get(x, y), two) {
                    (true, true) => assert!(*id == 1 || of_late, "{name} {x} {y}: {id}"),
                    (true, false) => assert_eq!(*id, 1, "{name} {x} {y}"),
                    (false, true) => assert!(of_late, "{name} {x} {y}: {id}"),
                    (false, false) => assert_eq!(*id, 0, "{name} {x} {y}"),
                }
            }
        }
    }
    // What a server's tools read.
    let file = out.join("Annotations/003234408d/00010.png");
    let script = "import sys; from PIL import Image; i = Image.open(sys.argv[1]); \
                  print(i.mode, i.size, i.getpalette()[:12], sorted(set(i.getdata())))";
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/python");
    let Ok(said) = Command::new(python).args(["-W", "ignore", "-c", script]).arg(&file).output()
    else {
        eprintln!("SKIPPED: no Python in .venv; `make test` installs it");
        return;
    };
    let found = mask_png(&file).unwrap().present();
    let ids: Vec<u16> = std::iter::once(0).chain(found).collect();
    let expected = format!("P (48, 32) [0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0] {ids:?}");
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), expected);
}

#[test]
fn objects_of_sa_v_keep_their_folders() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 2, 6);
    let (run, out) = (dir.path().join("run"), dir.path().join("out"));
    bench(&split, &run).args(["--save-masks", "--max-clip-frames", "3"]).assert().success();
    masks(&run, &split, &out).assert().success();
    let clip = out.join("Annotations/synth_000");
    assert_eq!(names(&clip), ["000", "001"]);
    assert_eq!(names(&clip.join("001")), ["00000.png", "00001.png", "00002.png"]);
    let found = mask_png(&clip.join("001/00002.png")).unwrap().mask(Some(1));
    assert!(found == measured(&run, "synth_000", "001", 2));
    let mut again = masks(&run, &split, &out);
    again.assert().code(1).stderr(contains("is not empty").and(contains("--out")));
}

#[test]
fn runs_that_lack_masks_are_refused_and_lost_objects_named() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let run = dir.path().join("run");
    bench(&youtube(), &run)
        .args(["--models", "edgetam_mini_points,edgetam_mini_bbox", "--limit-videos", "1"])
        .args(["--limit-objects", "1", "--max-clip-frames", "2"])
        .assert()
        .success();
    let mut refused = masks(&run, &youtube(), &out);
    refused.assert().code(2).stderr(contains("edgetam_mini_points, edgetam_mini_bbox"));
    let one = ["--model", "edgetam_mini_bbox"];
    let mut refused = masks(&run, &youtube(), &out);
    refused.args(one).assert().code(1).stderr(contains("--save-masks"));
    let split = dir.path().join("split");
    crate::support::copy(&youtube(), &split);
    let first = split.join("JPEGImages/0062f687f1/00000.jpg");
    fs::write(first, b"no picture").unwrap();
    let run = dir.path().join("lost");
    bench(&split, &run).args(["--save-masks"]).assert().code(1);
    masks(&run, &youtube(), &out)
        .assert()
        .code(1)
        .stdout(contains("5 masks of 2 objects in 1 clip"))
        .stderr(contains("no mask of 0062f687f1 object 4"));
    // Of a limited run, what was left out is counted.
    let run = dir.path().join("short");
    let limits = ["--save-masks", "--limit-videos", "1", "--max-clip-frames", "2"];
    bench(&youtube(), &run).args(limits).assert().success();
    masks(&run, &youtube(), &dir.path().join("short_out"))
        .assert()
        .success()
        .stdout(contains("3 masks of 2 objects"))
        .stderr(contains("2 frames without a mask"));
}
