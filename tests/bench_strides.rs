//! Strides: a bench that feeds every third frame is a bench over a clip of every third frame, on the CPU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{bench, column, read_csv, synth};

const SUMMARY: &str = "sav_benchmark_summary.csv";
const MASKS: &str = "masks/synth_000__obj000__edgetam_mini_points.json";

/// Every `stride`-th frame of the split's first clip from the first on, with its annotations, renumbered.
pub fn thinned(split: &Path, stride: usize) -> PathBuf {
    let out = split.with_file_name("thinned");
    for folder in ["JPEGImages_24fps/synth_000", "Annotations_6fps/synth_000"] {
        copy_thinned(&split.join(folder), &out.join(folder), stride);
    }
    out
}

fn copy_thinned(from: &Path, to: &Path, stride: usize) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if path.is_dir() {
            copy_thinned(&path, &to.join(name), stride);
            continue;
        }
        let index: usize = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        if index.is_multiple_of(stride) {
            let extension = path.extension().unwrap().to_str().unwrap();
            fs::copy(&path, to.join(format!("{:05}.{extension}", index / stride))).unwrap();
        }
    }
}

/// A mask file with its frames divided by `stride`, to be compared with another's.
pub fn masks(path: &Path, stride: usize) -> Vec<Value> {
    let mut file: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let frames = file["frames"].as_array_mut().unwrap();
    for frame in frames.iter_mut() {
        let index = frame["frame"].as_u64().unwrap() as usize;
        assert!(index.is_multiple_of(stride), "frame {index} was run with stride {stride}");
        frame["frame"] = (index / stride).into();
    }
    std::mem::take(frames)
}

#[test]
fn a_stride_is_a_clip_of_fewer_frames() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 14);
    let out = dir.path().join("out");
    let flags = ["--save-masks", "--input_frame_stride", "3"];
    bench(&split, &out).args(flags).assert().success();
    let other = dir.path().join("other");
    bench(&thinned(&split, 3), &other).arg("--save-masks").assert().success();

    let (strided, all) = (masks(&out.join(MASKS), 3), masks(&other.join(MASKS), 1));
    assert_eq!(strided.len(), 5);
    assert_eq!(strided, all);
    // Annotated are 0, 4, 8 and 12; fed are 0, 3, 6, 9 and 12. What was not fed has no score, not a
    // score of zero.
    let (summary, expected) = (out.join(SUMMARY), other.join(SUMMARY));
    for name in ["frames", "scored_frames", "J", "F", "JandF"] {
        assert_eq!(column(&summary, name), column(&expected, name), "{name}");
    }
    assert_eq!(column(&summary, "scored_frames"), ["2"]);
    assert_eq!(column(&summary, "processed_end_frame"), ["14"]);
    assert_eq!(column(&summary, "fidelity"), ["mem7/ptr16/256/pil13-bicubic/stride3/nofill"]);
    // The extended columns come by themselves, and only with a stride.
    assert_eq!(column(&summary, "input_frame_stride"), ["3"]);
    assert_eq!(column(&summary, "input_fps"), ["8.0"]);
    assert_eq!(column(&summary, "annotation_stride_frames"), [""]);
    assert!(!read_csv(&expected).0.contains(&"input_fps".to_owned()));
    let sidecar: Value =
        serde_json::from_slice(&fs::read(out.join("sidecar.json")).unwrap()).unwrap();
    let frames = &sidecar["passes"][0]["frame_times"]["frame"];
    assert_eq!(*frames, serde_json::json!([0, 3, 6, 9, 12]));
}

#[test]
fn thinner_annotations_score_less_and_run_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 18);
    let (thin, all) = (dir.path().join("thin"), dir.path().join("all"));
    bench(&split, &thin).args(["--annotation-stride-frames", "8"]).assert().success();
    bench(&split, &all).args(["--columns", "extended"]).assert().success();
    assert_eq!(column(&thin.join(SUMMARY), "frames"), column(&all.join(SUMMARY), "frames"));
    assert_eq!(column(&thin.join(SUMMARY), "scored_frames"), ["3"]);
    assert_eq!(column(&all.join(SUMMARY), "scored_frames"), ["5"]);
    assert_eq!(column(&thin.join(SUMMARY), "annotation_stride_frames"), ["8"]);
    assert_eq!(column(&all.join(SUMMARY), "input_fps"), ["24.0"]);
    assert_eq!(read_csv(&thin.join(SUMMARY)).0, read_csv(&all.join(SUMMARY)).0);

    // Another stride is another run; other columns are not.
    bench(&split, &thin)
        .args(["--resume", "--annotation-stride-frames", "4"])
        .assert()
        .code(1)
        .stderr(predicates::str::contains("strides was"));
    bench(&split, &all).arg("--resume").assert().success();
    assert!(!read_csv(&all.join(SUMMARY)).0.contains(&"input_fps".to_owned()));
    bench(&split, &thin).args(["--input-frame-stride", "0"]).assert().code(2);
}

#[test]
fn a_limit_counts_the_frames_of_the_clip_and_a_stride_beyond_it_leaves_the_prompted_one() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 9);
    let out = dir.path().join("out");
    let flags = ["--input-frame-stride", "2", "--max-clip-frames", "5", "--warmup-runs", "1"];
    bench(&split, &out).args(flags).assert().success();
    assert_eq!(column(&out.join(SUMMARY), "frames"), ["3"]);
    assert_eq!(column(&out.join(SUMMARY), "processed_end_frame"), ["5"]);
    bench(&split, &out).args(["--input-frame-stride", "100"]).assert().success();
    assert_eq!(column(&out.join(SUMMARY), "frames"), ["1"]);
    assert_eq!(column(&out.join(SUMMARY), "latency_p50_ms"), [""]);
    assert_eq!(column(&out.join(SUMMARY), "input_fps"), ["0.24"]);
}

#[test]
fn an_overlay_lasts_as_long_as_the_clip() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 12);
    let out = dir.path().join("out");
    let flags = ["--save_overlays", "1", "--input-frame-stride", "3"];
    bench(&split, &out).args(flags).assert().success();
    let overlay = out.join(&column(&out.join(SUMMARY), "overlay")[0]);
    assert!(overlay.exists(), "{}", overlay.display());
    if overlay.is_dir() {
        let mut names: Vec<_> =
            fs::read_dir(&overlay).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["00000.png", "00001.png", "00002.png", "00003.png"]);
        eprintln!("SKIPPED: no ffmpeg with libx264, so no mp4 to look into");
        return;
    }
    let facts = Command::new("ffmpeg").arg("-i").arg(&overlay).output().unwrap();
    let facts = String::from_utf8_lossy(&facts.stderr).into_owned();
    assert!(facts.contains(" 8 fps,") && facts.contains("Duration: 00:00:00.50"), "{facts}");
}
