//! Rows of the bench on a GPU, on the stand-ins of [`crate::bench_gpu`]: what a fault costs and
//! whom, and that each row has its own frames and its own memory.

use std::fs;

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

use crate::bench_gpu::{PADDED, Setting};
use crate::support::segtrt;

#[test]
fn a_lost_device_costs_one_pass_of_one_object() {
    let Some(setting) = Setting::new(3, 12, &PADDED) else { return };
    setting.cpu("cpu").assert().success();
    let fault = setting.path("fault");
    // Each object has 36 masks: of a warm-up and of two recorded passes, 12 each.
    let lose = |at: usize, out: &str| {
        fs::write(&fault, "").unwrap();
        let mut command = setting.gpu(out);
        command.args(["--profile-runs", "2"]).env("FAKE_CUDA_FAULT", &fault);
        let lost = command.env("FAKE_CUDA_FAULT_AT", at.to_string()).assert().code(1);
        lost.stderr(contains("edgetam_mini_points: a new worker goes on, because"));
        assert!(!fault.exists());
    };
    // The second object's fifth frame, the first time it is recorded and the second time.
    lose(36 + 12 + 5, "first");
    assert_eq!(setting.column("first", "status"), ["ok", "failed", "ok"]);
    assert_eq!(setting.column("first", "runs"), ["2", "", "2"]);
    let reason = &setting.column("first", "reason")[1];
    assert!(reason.starts_with("inference: frame 4: the CUDA driver could not launch"), "{reason}");
    assert!(reason.contains("ILLEGAL_ADDRESS"), "{reason}");
    lose(36 + 24 + 5, "second");
    assert_eq!(setting.column("second", "status"), ["ok", "ok", "ok"]);
    assert_eq!(setting.column("second", "runs"), ["2", "1", "2"]);
    let reason = &setting.column("second", "reason")[1];
    assert!(
        reason.starts_with("runs_lost: 1 of 2 passes have no numbers (inference: frame 4"),
        "{reason}"
    );
    assert!(setting.masks("second") == setting.masks("cpu"));
}

#[test]
fn a_driver_that_crashes_when_it_is_closed_spoils_nothing_that_was_measured() {
    let Some(setting) = Setting::new(2, 4, &PADDED) else { return };
    let mut command = setting.gpu("out");
    let done = command.env("FAKE_CUDA_EXIT", "1").assert().success();
    done.stderr(contains("after the last row, the worker process was killed by signal 6"));
    assert_eq!(setting.column("out", "status"), ["ok", "ok"]);
}

/// From the allocator and the engines: the sidecar has it always, the screen where it is asked for.
#[test]
fn device_memory_is_told_by_its_use() {
    let Some(setting) = Setting::new(1, 4, &PADDED) else { return };
    let shown = setting.gpu("out").arg("--memory").assert().success();
    shown.stdout(contains("memory bank").and(contains("activations and workspace MiB")));
    let text = fs::read(setting.path("out").join("sidecar.json")).unwrap();
    let sidecar: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let device = &sidecar["memory"]["edgetam_mini_points"]["device"];
    for held in ["inputs", "features", "bank", "outputs"] {
        assert!(device[held].as_f64().unwrap() > 0.0, "{held}: {device}");
    }
    let engines = device["engines"].as_array().unwrap();
    let of = |role: &str| engines.iter().find(|engine| engine["role"] == role);
    assert!(of("encoder").unwrap()["plan"].as_f64().unwrap() > 0.0, "{device}");
    assert!(of("track_padded").is_some() && of("memory").is_some(), "{device}");
    // ONNX Runtime tells nothing of the kind.
    let cpu = setting.cpu("cpu").arg("--memory").assert().success();
    cpu.stdout(contains("--backend tensorrt"));
}

#[test]
fn a_file_that_cannot_be_written_costs_its_own_objects_row() {
    let Some(setting) = Setting::new(3, 6, &PADDED) else { return };
    let place = "masks/synth_000__obj001__edgetam_mini_points.json";
    fs::create_dir_all(setting.path("out").join(place)).unwrap();
    setting.gpu("out").args(["--objects-together", "3"]).assert().code(1);
    assert_eq!(setting.column("out", "status"), ["ok", "failed", "ok"]);
    let reason = &setting.column("out", "reason")[1];
    assert!(reason.contains("synth_000__obj001"), "{reason}");
}

#[test]
fn a_part_of_a_clip_that_comes_again_is_scored_as_it_is_alone() {
    let Some(setting) = Setting::new(2, 14, &PADDED) else { return };
    // The second object begins at frame 4, so its six frames end after the first one's.
    fs::remove_file(setting.split.join("Annotations_6fps/synth_000/001/00000.png")).unwrap();
    let part = ["--max-clip-frames", "6"];
    setting.cpu("cpu").args(part).assert().success();
    let mut command = setting.gpu("out");
    command.args(part).args(["--objects-together", "2", "--repeat-clip", "2"]).assert().success();
    assert!(setting.masks("out") == setting.masks("cpu"));
    assert_eq!(setting.column("out", "scored_frames"), setting.column("cpu", "scored_frames"));
}

#[test]
fn a_small_clip_behind_a_large_one_has_its_own_peak_of_memory() {
    let Some(mut setting) = Setting::new(1, 4, &PADDED) else { return };
    const MODES: [&str; 2] = ["latency", "throughput"];
    for mode in MODES {
        setting.gpu(&format!("{mode}_alone")).args(["--mode", mode]).assert().success();
    }
    let large = setting.path("large");
    let sizes = ["--videos", "2", "--objects", "1", "--frames", "4", "--size", "640x480"];
    segtrt().args(["synth", "--out"]).arg(&large).args(sizes).assert().success();
    // Its second clip becomes the small one.
    for folder in ["JPEGImages_24fps/synth_00", "Annotations_6fps/synth_00"] {
        let to = large.join(format!("{folder}1"));
        fs::remove_dir_all(&to).unwrap();
        fs::rename(setting.split.join(format!("{folder}0")), to).unwrap();
    }
    setting.split = large;
    for mode in MODES {
        setting.gpu(mode).args(["--mode", mode]).assert().success();
        let peaks = setting.column(mode, "gpu_peak_alloc_MiB");
        let alone = setting.column(&format!("{mode}_alone"), "gpu_peak_alloc_MiB");
        assert_eq!(peaks[1], alone[0], "{mode}");
        let [large, small] = [&peaks[0], &peaks[1]].map(|peak| peak.parse::<f64>().unwrap());
        assert!(large > small + 0.5, "{mode}: {peaks:?}");
    }
}

#[test]
fn every_third_frame_is_the_cpus_too_and_objects_on_other_frames_run_apart() {
    let Some(setting) = Setting::new(3, 14, &PADDED) else { return };
    // The last object comes one annotation later, so it shares no frame of the others'.
    let late = setting.split.join("Annotations_6fps/synth_000/002/00000.png");
    fs::remove_file(late).unwrap();
    let flags = ["--input-frame-stride", "3", "--save-overlays"];
    setting.cpu("cpu").args(flags).assert().success();
    let expected = setting.masks("cpu");
    assert!(expected[0].1.contains("\"frame\":12,") && expected[2].1.contains("\"frame\":13,"));
    for mode in ["latency", "throughput"] {
        let mut command = setting.gpu(mode);
        command.args(flags).args(["--mode", mode, "--objects-together", "3"]);
        command.args(["--repeat-clip", "2"]).assert().success();
        assert!(setting.masks(mode) == expected, "{mode}");
        assert_eq!(setting.column(mode, "frames"), ["10", "10", "8"]);
        assert_eq!(setting.column(mode, "scored_frames"), setting.column("cpu", "scored_frames"));
        for overlay in setting.column(mode, "overlay") {
            assert!(setting.path(mode).join(&overlay).exists(), "{overlay}");
        }
    }
}
