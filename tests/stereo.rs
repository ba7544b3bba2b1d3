//! Two clips in step, as the views of a stereo camera: each view's masks are those of its clip alone.

use std::fs;
use std::path::Path;

use predicates::str::contains;
use serde_json::Value;
use vos::bundle::Role;

use crate::bench_gpu::{PADDED, Setting};
use crate::support::{bench, column, require_onnxruntime, synth};

const SUMMARY: &str = "sav_benchmark_summary.csv";

/// The masks of an object, frame by frame.
fn masks(out: &Path, stem: &str) -> Vec<Value> {
    let path = out.join(format!("masks/{stem}__edgetam_mini_points.json"));
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: Value = serde_json::from_slice(&text).unwrap();
    file["frames"].as_array().unwrap().iter().map(|frame| frame["mask"].clone()).collect()
}

fn assert_views_equal_clips(alone: &Path, pair: &Path) {
    for (clip, view) in [("synth_000", "left_000"), ("synth_001", "right_000")] {
        let expected = masks(alone, &format!("{clip}__obj000"));
        assert!(!expected.is_empty());
        assert!(masks(pair, &format!("synth_000+synth_001__obj{view}")) == expected, "{view}");
    }
}

#[test]
fn each_view_has_the_masks_of_its_clip_and_the_time_of_the_pair() {
    require_onnxruntime();
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 1, 6);
    let (alone, pair) = (dir.path().join("alone"), dir.path().join("pair"));
    bench(&split, &alone).arg("--save-masks").assert().success();
    let ran = bench(&split, &pair).args(["--save-masks", "--stereo"]).assert().success();
    ran.stdout(contains("target Stereo, each view ≥ 60 FPS: "));
    assert_views_equal_clips(&alone, &pair);
    let summary = pair.join(SUMMARY);
    assert_eq!(column(&summary, "object"), ["left_000", "right_000"]);
    assert_eq!(column(&summary, "views"), ["stereo", "stereo"]);
    assert_eq!(column(&summary, "frames"), ["6", "6"]);
    let fps = column(&summary, "fps");
    assert_eq!(fps[0], fps[1]);
    for explained in column(&summary, "residue_ms") {
        assert!(explained.parse::<f64>().unwrap() < 5.0, "{explained}");
    }
    let wrong = bench(&split, &pair).args(["--stereo", "--encode", "masks"]).assert().code(2);
    wrong.stderr(contains("--encode is for one clip"));
    let one = synth(&dir.path().join("one"), 1, 1, 3);
    let wrong = bench(&one, &pair).arg("--stereo").assert().code(1);
    wrong.stderr(contains("NAME_left and NAME_right"));
}

#[test]
fn a_pair_is_one_batch_of_the_encoder_or_two_frames() {
    let roles: Vec<Role> = PADDED.into_iter().chain([Role::EncoderB2]).collect();
    let Some(mut setting) = Setting::new(1, 2, &roles) else { return };
    setting.split = synth(&setting.path("two"), 2, 1, 9);
    setting.cpu("alone").assert().success();
    for (out, flags) in [
        ("latency", &["--mode", "latency"][..]),
        ("throughput", &["--mode", "throughput", "--encode-batch", "2", "--object-streams"]),
    ] {
        let mut command = setting.gpu(out);
        command.args(flags).arg("--stereo").env("FAKE_CUDA_SEED", "3").assert().success();
        assert_views_equal_clips(&setting.path("alone"), &setting.path(out));
    }
}
