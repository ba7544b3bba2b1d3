//! The encode stage of a bench: inside a frame's time and beside it, in both modes.

use std::fs;
use std::path::Path;

use predicates::str::contains;
use serde_json::Value;
use vos::decode::mask_png;

use crate::bench_gpu::{PADDED, Setting};
use crate::support::{bench, column, require_onnxruntime, synth};

const SUMMARY: &str = "sav_benchmark_summary.csv";

fn number(out: &Path, name: &str) -> f64 {
    let cell = &column(&out.join(SUMMARY), name)[0];
    cell.parse().unwrap_or_else(|_| panic!("{name} is {cell:?}"))
}

/// Area of the only object in each mask file, and in each saved mask.
fn areas(out: &Path) -> (Vec<usize>, Vec<usize>) {
    let folder = out.join("synth_000__obj000__edgetam_mini_points__encoded");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let ids = files.iter().map(|file| mask_png(file).unwrap().ids);
    let encoded = ids.map(|ids| ids.iter().filter(|id| **id == 1).count()).collect();
    let saved = out.join("masks/synth_000__obj000__edgetam_mini_points.json");
    let saved: Value = serde_json::from_slice(&fs::read(saved).unwrap()).unwrap();
    let saved = saved["frames"].as_array().unwrap().iter();
    (encoded, saved.map(|frame| frame["area"].as_u64().unwrap() as usize).collect())
}

#[test]
fn masks_are_encoded_inside_and_beside_and_rows_say_so() {
    require_onnxruntime();
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 5);
    for place in ["inside", "beside"] {
        let out = dir.path().join(place);
        let stage = format!("masks,{place}");
        let mut command = bench(&split, &out);
        command.args(["--encode", &stage, "--save-masks", "--profile-runs", "2"]);
        command.assert().success();
        assert_eq!(column(&out.join(SUMMARY), "encode"), [stage]);
        let (encoded, saved) = areas(&out);
        assert_eq!((encoded.len(), &encoded), (5, &saved));
        let (encode, end) = (number(&out, "encode_ms"), number(&out, "end_to_end_p50_ms"));
        assert!(encode > 0.0 && end > number(&out, "latency_p50_ms"), "{encode} {end}");
        assert!(number(&out, "residue_ms").abs() < 0.5 * number(&out, "latency_ms"));
        assert!(number(&out, "source_age_p50_ms") > 0.0);
        let sidecar: Value =
            serde_json::from_slice(&fs::read(out.join("sidecar.json")).unwrap()).unwrap();
        let times = &sidecar["passes"][1]["frame_times"];
        assert_eq!(times["encode_ms"].as_array().unwrap().len(), 5);
        assert_eq!(times["end_to_end_ms"].as_array().unwrap().len(), 5);
        assert!(sidecar["timed_region"].as_str().unwrap().contains(place));
        let left = fs::read_dir(&out).unwrap().map(|file| file.unwrap().file_name());
        assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
    }
    let repeat = ["--encode", "overlay", "--backend", "tensorrt", "--repeat-clip", "2"];
    let wrong = bench(&split, dir.path()).args(repeat).assert().code(2);
    wrong.stderr(contains("leave --repeat-clip out"));
    let wrong = bench(&split, dir.path()).args(["--encode", "film"]).assert().code(2);
    wrong.stderr(contains("expected overlay or masks"));
}

#[test]
fn overlapping_frames_are_encoded_with_all_their_objects() {
    let Some(setting) = Setting::new(2, 6, &PADDED) else { return };
    setting.gpu("plain").args(["--objects-together", "2"]).assert().success();
    for (out, mode, stage) in [
        ("inside", "throughput", "overlay,inside"),
        ("beside", "throughput", "overlay,beside"),
        ("latency", "latency", "overlay,inside"),
    ] {
        let mut command = setting.gpu(out);
        command.args(["--mode", mode, "--objects-together", "2", "--encode", stage]);
        command.assert().success();
        assert!(setting.masks(out) == setting.masks("plain"), "{stage}");
        let overlay = &setting.column(out, "overlay")[1];
        assert!(overlay.contains("__obj000+001__"), "{overlay}");
        assert!(setting.path(out).join(overlay).exists());
        let number = |name: &str| setting.column(out, name)[1].parse::<f64>().unwrap();
        assert!(number("encode_ms") > 0.0);
        if mode == "throughput" {
            assert!(number("end_to_end_p50_ms") >= number("encode_ms"));
        }
    }
}
