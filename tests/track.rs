//! `segtrt track`: the files that it writes, the bench's masks, and the errors of bad input.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use vos::decode::mask_png;
use vos::mask::Mask;
use vos::prompt::{Prompt, PromptKind, PromptPolicy};

use crate::bench_gpu::{PADDED, Setting};
use crate::selftest::fakes::shared;
use crate::support::{bench, frames_of, require_onnxruntime, segtrt, small_bundle, synth};

/// Frames of the first clip of a synthetic split.
fn frames(split: &Path) -> PathBuf {
    split.join("JPEGImages_24fps/synth_000")
}

/// The true mask of an object on the first frame.
fn truth(split: &Path, object: usize) -> PathBuf {
    split.join(format!("Annotations_6fps/synth_000/{object:03}/00000.png"))
}

/// The bench's click on an object.
fn click(split: &Path, object: usize) -> String {
    let mask = mask_png(&truth(split, object)).unwrap().mask(None);
    match Prompt::from_mask(&mask, PromptKind::Points, PromptPolicy::Predecessor).unwrap() {
        Prompt::Point { x, y } => format!("{x},{y}"),
        other => panic!("{other:?}"),
    }
}

/// A track without ffmpeg, so that overlays are frames.
fn track(video: &Path, out: &Path) -> Command {
    let mut command = segtrt();
    command.env("ORT_DYLIB_PATH", require_onnxruntime()).env("PATH", "/nowhere");
    command.args(["track", "--model", "edgetam_mini", "--threads", "1"]);
    command.arg(video).arg("--out").arg(out);
    command
}

fn lines(out: &Path) -> Vec<Value> {
    let text = fs::read_to_string(out.join("frames.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The masks of an object, frame after frame.
fn masks(out: &Path, id: u16) -> Vec<Mask> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(out.join("masks")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| mask_png(file).unwrap().mask(Some(id))).collect()
}

#[test]
fn masks_are_the_benchs_whatever_the_prompt() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 6);
    let mask = mask_png(&truth(&split, 0)).unwrap().mask(None);
    let extents = mask.extents().unwrap();
    let corners = [extents.x_min, extents.y_min, extents.x_max, extents.y_max];
    let corners = corners.map(|at| at.to_string()).join(",");
    let file = truth(&split, 0).display().to_string();
    for (kind, flag, word) in [
        ("points", "--click", click(&split, 0)),
        ("bbox", "--box", corners),
        ("mask", "--mask", file),
    ] {
        let (measured, tracked) = (dir.path().join(kind), dir.path().join(format!("{kind}_track")));
        let tag = format!("edgetam_mini_{kind}");
        bench(&split, &measured).args(["--save-masks", "--models", &tag]).assert().success();
        track(&frames(&split), &tracked).args([flag, &word]).assert().success();
        let (expected, found) = (frames_of(&measured), lines(&tracked));
        assert_eq!((expected.len(), found.len()), (6, 6));
        for ((expected, found), mask) in expected.iter().zip(&found).zip(masks(&tracked, 1)) {
            let wanted = expected.mask.to_mask().unwrap();
            assert!(wanted == mask, "{kind}, frame {}: {wanted:?} {mask:?}", found["frame"]);
            assert_eq!(found["area"], mask.area(), "{kind}");
            let score = found["objectness"].as_f64().unwrap() as f32;
            assert_eq!(score, expected.objectness, "{kind}");
            assert_eq!(found["predicted_iou"].as_f64().unwrap() as f32, expected.predicted_iou);
            let corners = mask.extents().map(|b| [b.x_min, b.y_min, b.x_max, b.y_max]);
            assert_eq!(found["box"], serde_json::json!(corners), "{kind}");
            assert!(found["ms"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn objects_that_are_tracked_together_have_the_masks_that_each_has_alone() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 2, 5);
    let clicks = [0, 1].map(|object| click(&split, object));
    let alone = [0, 1].map(|object| {
        let out = dir.path().join(format!("alone_{object}"));
        track(&frames(&split), &out).args(["--click", &clicks[object]]).assert().success();
        lines(&out)
    });
    let out = dir.path().join("both");
    let output = track(&frames(&split), &out)
        .args(["--click", &format!("7:{}", clicks[1]), "--click", &format!("3:{}", clicks[0])])
        .args(["--show-fps", "--opacity", "0.3"])
        .assert()
        .success()
        .stdout(contains("5 frames of 160x120, 2 objects").and(contains("FPS")))
        .stdout(contains("outside: decoding"));
    let output = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    let first = out.join("overlay/00000.png");
    assert!(output.contains(&format!("Open first: {}", first.display())), "{output}");
    assert!(first.is_file() && out.join("overlay/00004.png").is_file());
    let both = lines(&out);
    for (id, alone) in [(3, &alone[0]), (7, &alone[1])] {
        let mine: Vec<&Value> = both.iter().filter(|line| line["object"] == id).collect();
        assert_eq!(mine.len(), 5);
        for (together, alone) in mine.iter().zip(alone) {
            for name in ["frame", "area", "box", "objectness", "predicted_iou"] {
                assert_eq!(together[name], alone[name], "object {id}: {name}");
            }
        }
    }
    let image = mask_png(&out.join("masks/00000.png")).unwrap();
    assert_eq!(image.present(), [3, 7]);
    // Whatever was there of an earlier track is replaced.
    track(&frames(&split), &out)
        .args(["--click", &clicks[0], "--max-frames", "2", "--no-overlay", "--json"])
        .assert()
        .success();
    assert!(!out.join("overlay").exists());
    assert_eq!((lines(&out).len(), masks(&out, 1).len()), (2, 2));
}

#[test]
fn tracking_goes_forward_from_the_prompted_frame() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 6);
    let out = dir.path().join("out");
    let output = track(&frames(&split), &out)
        .args(["--frame", "2", "--click", &click(&split, 0), "--json"])
        .assert()
        .success();
    let summary: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    assert_eq!(summary["frames"], 4);
    assert_eq!((&summary["first"], &summary["clip_frames"]), (&2.into(), &6.into()));
    assert!(summary["fps"].as_f64().unwrap() > 0.0);
    let indices: Vec<u64> = lines(&out).iter().map(|l| l["frame"].as_u64().unwrap()).collect();
    assert_eq!(indices, [2, 3, 4, 5]);
    assert!(!out.join("masks/00001.png").exists() && out.join("masks/00002.png").is_file());
}

#[test]
fn more_clicks_change_the_mask_and_a_negative_one_is_not_a_positive_one() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 2, 1);
    let [on, off] = [0, 1].map(|object| click(&split, object));
    let line = |name: &str, clicks: &[&str]| {
        let out = dir.path().join(name);
        let mut command = track(&frames(&split), &out);
        clicks.iter().for_each(|click| {
            command.args(["--click", click]);
        });
        command.arg("--no-overlay").assert().success();
        lines(&out)[0].clone()
    };
    let one = line("one", &[&on]);
    let negative = line("negative", &[&on, &format!("{off},-")]);
    let positive = line("positive", &[&on, &off]);
    assert_ne!(one["predicted_iou"], negative["predicted_iou"]);
    assert_ne!(positive["predicted_iou"], negative["predicted_iou"]);
    // A click beside the object: the mask is of something else, and that is said.
    let mut beside = track(&frames(&split), &dir.path().join("beside"));
    let said = beside.args(["--click", &on, "--click", "0,0", "--no-overlay"]).assert().success();
    said.stderr(contains("leaves out its click 0,0").and(contains("click well inside the object")));
}

/// Each mistake on the command line: its exit code, and the next command in its error.
#[test]
fn a_prompt_that_does_not_fit_is_a_usage_error_that_says_what_does() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let out = dir.path().join("out");
    let small = dir.path().join("small.png");
    vos::palette_png::write(&small, (8, 6), &[(1, &Mask::from_fn(8, 6, |_, _| true))]).unwrap();
    let empty = dir.path().join("empty.png");
    vos::palette_png::write(&empty, (160, 120), &[]).unwrap();
    let [small, empty] = [small, empty].map(|path| path.display().to_string());
    let cases: [(&[&str], &[&str]); 16] = [
        (&[], &["no prompt", "--click 320,180"]),
        (&["--click", "160,20"], &["--click 160,20 (object 1)", "160x120", "x is 0 to 159"]),
        (&["--click", "-1,20"], &["--click -1,20 (object 1)", "outside"]),
        (&["--click", "3:5,120.5"], &["--click 5,120.5 (object 3)", "y is 0 to 119"]),
        (&["--click", "5;5"], &["5;5", "320,180"]),
        (&["--click", "5,", "5"], &["one word without spaces", "--click 420,5"]),
        (&["--points", "5,5"], &["is --click X,Y"]),
        (&["--box", "0,0,161,20"], &["--box 0,0,161,20 (object 1)", "160x120"]),
        (&["--box", "9,9,5,20"], &["empty box", "did you mean 5,9,9,20?"]),
        (&["--click", "5,5", "--frame", "3"], &["--frame 3", "3 frames", "--frame 2"]),
        (&["--click", "5,5,-"], &["negative clicks only", "--click 1:X,Y"]),
        (&["--mask", &small], &["8x6", "160x120"]),
        (&["--mask", &empty], &["is empty"]),
        (&["--click", "5,5", "--mask", &small], &["a mask and clicks"]),
        (
            &["--click", "5,5", "--model", "edgetam_minni"],
            &["unknown", "did you mean edgetam_mini?"],
        ),
        (&["--click", "5,5", "--opacity", "2"], &["0 to 1"]),
    ];
    for (words, said) in cases {
        let assert = track(&frames(&split), &out).args(words).assert().code(2);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        for part in said {
            assert!(text.contains(part), "{words:?}: {part:?} is not in {text}");
        }
        assert!(!out.exists(), "{words:?} made a folder");
    }
    // Somebody else's files stay.
    fs::create_dir(&out).unwrap();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    let refused = track(&frames(&split), &out).args(["--click", "5,5"]).assert().code(2);
    refused.stderr(contains("is not empty"));
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
}

#[test]
fn a_clip_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let said = |path: &Path, parts: &[&str]| {
        let assert = track(path, &out).args(["--click", "5,5"]).assert().code(1);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    };
    let gone = dir.path().join("gone.mp4");
    said(&gone, &["gone.mp4 does not exist", "folder of JPEG frames"]);
    let bare = dir.path().join("bare");
    fs::create_dir(&bare).unwrap();
    said(&bare, &["an empty folder", "00000.jpg"]);
    fs::write(bare.join("00000.png"), "").unwrap();
    said(&bare, &["found 00000.png", "ffmpeg -i"]);
    fs::write(bare.join("00000.jpg"), "no JPEG").unwrap();
    said(&bare, &["00000.jpg", "JPEG frame"]);
    let film = dir.path().join("film.mp4");
    fs::write(&film, "no video").unwrap();
    said(&film, &["ffmpeg is not on PATH", "film.mp4", "apt-get install ffmpeg"]);
    let mask = dir.path().join("mask.png");
    fs::write(&mask, "no PNG").unwrap();
    let split = synth(dir.path(), 1, 1, 1);
    let assert = track(&frames(&split), &out).arg("--mask").arg(&mask).assert().code(1);
    assert.stderr(contains("mask.png").and(contains("PNG")));
    let assert = track(&frames(&split), &out)
        .args(["--click", "5,5", "--model", "sam2_tiny", "--onnx-dir"])
        .arg(small_bundle())
        .assert()
        .code(2);
    let ways = contains("onnx/export.py").or(contains("segtrt fetch"));
    assert.stderr(contains("--model sam2_tiny").and(ways));
}

#[test]
fn frames_before_a_damaged_one_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 4);
    fs::write(frames(&split).join("00002.jpg"), "no JPEG").unwrap();
    let out = dir.path().join("out");
    track(&frames(&split), &out)
        .args(["--click", &click(&split, 0)])
        .assert()
        .code(1)
        .stderr(contains("00002.jpg").and(contains("the 2 frames before it are kept")));
    assert_eq!((lines(&out).len(), masks(&out, 1).len()), (2, 2));
    assert!(out.join("overlay/00001.png").is_file());

    // Nothing of it is lost by tracking into the folder again.
    track(&frames(&split), &out)
        .args(["--click", &click(&split, 0), "--max-frames", "1"])
        .assert()
        .success()
        .stderr(contains("frames.jsonl is kept in frames.previous.jsonl"));
    assert_eq!((lines(&out).len(), masks(&out, 1).len()), (1, 1));
    for kept in ["frames.previous.jsonl", "masks.previous/00001.png", "overlay.previous/00001.png"]
    {
        assert!(out.join(kept).is_file(), "{kept}");
    }
}

/// Whatever ends the process alone or with its group: what was written is complete.
#[cfg(unix)]
#[test]
fn a_signal_keeps_what_was_written_and_says_so() {
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 400);
    let out = dir.path().join("out");
    let child = std::process::Command::new(assert_cmd::cargo::cargo_bin("segtrt"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("ORT_DYLIB_PATH", require_onnxruntime())
        .env("PATH", "/nowhere")
        .args(["track", "--model", "edgetam_mini", "--threads", "1", "--click"])
        .arg(click(&split, 0))
        .arg(frames(&split))
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while fs::read_to_string(out.join("frames.jsonl")).map_or(0, |text| text.lines().count()) < 3 {
        assert!(Instant::now() < deadline, "three frames within two minutes");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("Stopped after") && text.contains("kept in"), "{text}");
    let written = lines(&out).len();
    assert!((3..400).contains(&written), "{written}");
    assert_eq!(masks(&out, 1).len(), written);
    let painted = fs::read_dir(out.join("overlay")).unwrap().count();
    assert_eq!(painted, written);
}

#[test]
fn the_demo_names_the_file_to_open() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("demo");
    let mut command = segtrt();
    command.env("ORT_DYLIB_PATH", require_onnxruntime()).env("PATH", "/nowhere");
    let first = out.join("track/overlay/00000.png");
    command
        .args(["demo", "--frames", "8", "--out"])
        .arg(&out)
        .assert()
        .success()
        .stderr(contains("track").and(contains("8 frames, 2 objects together")))
        .stdout(contains(format!("Open first: {}", first.display())))
        .stdout(contains("report.html").and(contains("segtrt track VIDEO")));
    for file in ["track/masks/00007.png", "report.html", "out/sav_benchmark_summary.csv"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    // The demonstration network follows the demonstration's shapes.
    for (id, object) in [(1, "000"), (2, "001")] {
        let folder = out.join(format!("split/Annotations_6fps/synth_000/{object}"));
        let ious: Vec<f64> = masks(&out.join("track"), id)
            .iter()
            .enumerate()
            .map(|(frame, found)| {
                mask_png(&folder.join(format!("{frame:05}.png"))).unwrap().mask(None).iou(found)
            })
            .collect();
        let mean = ious.iter().sum::<f64>() / ious.len() as f64;
        assert!(mean > 0.7, "object {id}: mean IoU {mean}");
    }
}

#[test]
fn engines_on_a_gpu_give_the_cpus_masks_and_say_how_many_points_they_take() {
    let Some(setting) = Setting::new(1, 6, &PADDED) else { return };
    let video = frames(&setting.split);
    let first = click(&setting.split, 0);
    let clicks = [first.as_str(), "3,3,-", "5,3,-"];
    let on_gpu = |out: &str, clicks: &[&str]| {
        let mut command = track(&video, &setting.path(out));
        let fakes = shared().unwrap().dir();
        command.env("LD_LIBRARY_PATH", fakes);
        command.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime());
        command.args(["--backend", "tensorrt", "--engines"]).arg(setting.path("engines"));
        command.arg("--tensorrt-lib").arg(fakes);
        command.args(clicks.iter().flat_map(|click| ["--click", click]));
        command
    };
    for points in 1..=2 {
        let (gpu, cpu) = (format!("gpu{points}"), format!("cpu{points}"));
        on_gpu(&gpu, &clicks[..points]).assert().success();
        let mut command = track(&video, &setting.path(&cpu));
        command.args(clicks[..points].iter().flat_map(|click| ["--click", click]));
        command.assert().success();
        assert_eq!(masks(&setting.path(&gpu), 1), masks(&setting.path(&cpu), 1), "{points}");
    }
    let refused = on_gpu("gpu3", &clicks).assert().code(2);
    refused.stderr(contains("takes 2; build the engines again with: segtrt build-engines"));
}
