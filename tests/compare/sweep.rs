//! Sweeps: on the CPU with a report of each point, and over the encoder's batch on the stand-ins.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

use super::shared::{compare, json, run};
use crate::bench_gpu::{PADDED, Setting};
use crate::profile::FAKE;
use crate::selftest::fakes::shared as fakes;
use crate::support::{column, require_onnxruntime, script, segtrt, small_bundle};
use vos::bundle::Role;

/// A sweep on the CPU under a stand-in for nsys, whose log and program lie in `place`.
fn sweep(place: &Path, axes: &[&str], fake: &str) -> Command {
    let nsys = script(&place.join("bin/nsys"), FAKE);
    let mut command = compare(&place.join("sweep"));
    command.env("NSYS_CMD", nsys).env("FAKE_NSYS_LOG", place.join("log")).env("FAKE_NSYS", fake);
    command.args(["--models", "edgetam_mini_points", "--backend", "cpu", "--warmup-runs", "0"]);
    command.args(axes.iter().flat_map(|axis| ["--sweep", axis]));
    command.args(["--rounds", "1", "--limit-videos", "1", "--nsys"]);
    command.arg("--onnx-dir").arg(small_bundle());
    command
}

#[test]
fn every_point_leaves_a_row_and_a_report_and_one_that_fails_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("sweep");
    let axes = ["precision=fp32,fp16", "threads=1,2"];
    let said = run(&mut sweep(dir.path(), &axes, ""));
    assert_eq!(said.code, 1, "the bundle is in fp32 only: {} {}", said.out, said.err);
    let names = ["fp32-threads_001", "fp32-threads_002", "fp16-threads_001", "fp16-threads_002"];
    let names = names.map(|name| format!("precision_{name}"));
    assert_eq!(column(&out.join("sweep.csv"), "combination"), names);
    assert_eq!(column(&out.join("sweep.csv"), "swept threads"), ["1", "2", "1", "2"]);
    assert_eq!(
        column(&out.join("sweep.csv"), "masks"),
        ["reference", "same", "not available", "not available"]
    );
    // A debug build's speeds are INVALID, so there is no fastest, and gains are in brackets.
    assert!(!said.out.contains("fastest is"), "{}", said.out);
    assert!(said.out.contains("cannot name a fastest combination: all 2 speeds"), "{}", said.out);
    assert!(said.out.contains("precision_fp16-threads_001: not available"), "{}", said.out);
    assert!(said.out.contains("the slowest stage"), "{}", said.out);
    let rows = json(&out.join("sweep.json"))["rows"].clone();
    assert_eq!(rows[1]["gain_to_first"]["of"], names[0]);
    assert!(rows[0]["gain_to_first"].is_null() && rows[2]["speed"].is_null());
    let (fps, objects) = (&rows[0]["speed"]["fps"], &rows[0]["object_fps"]);
    let (fps, objects) = (fps.as_f64().unwrap(), objects.as_f64().unwrap());
    assert!((fps - objects).abs() < 1e-9, "one object at a time");
    assert!(rows[0]["stages"][0]["outside"].as_bool().unwrap(), "decoding is not in the time");
    let mut reports: Vec<String> = fs::read_dir(out.join("nsight_reports"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    reports.sort();
    assert_eq!(reports, [format!("{}.nsys-rep", names[0]), format!("{}.nsys-rep", names[1])]);
    assert_eq!(rows[1]["nsys_report"], format!("nsight_reports/{}.nsys-rep", names[1]));
    let page = fs::read_to_string(out.join("sweep.html")).unwrap();
    for part in ["id=\"sweep\"", "plot-sweep_edgetam_mini_points_rate", "stages_precision_fp32"] {
        assert!(page.contains(part), "{part}");
    }
    // What is there is neither measured nor recorded again; a missing report is.
    fs::remove_file(out.join("nsight_reports").join(&reports[1])).unwrap();
    let first = out.join("runs/edgetam_mini_points").join(&names[0]).join("round_1/sidecar.json");
    let before = fs::read_to_string(&first).unwrap();
    let again = run(&mut sweep(dir.path(), &axes, "mute"));
    assert!(again.out.contains(&format!("{}: no nsys report", names[1])), "{}", again.out);
    assert_eq!(before, fs::read_to_string(&first).unwrap());
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    let recorded = |name: &str| log.matches(&format!("/{name}.nsys-rep")).count();
    assert_eq!((recorded(&names[0]), recorded(&names[1])), (1, 2), "{log}");
}

#[test]
fn what_cannot_be_swept_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = |more: &[&str]| {
        let mut command = compare(&dir.path().join("sweep"));
        command.args(["--models", "edgetam_mini_points", "--backend", "cpu"]).args(more);
        run(&mut command)
    };
    for (flags, says) in [
        (&["--sweep", "objects=1,2"][..], "by TensorRT's backend alone"),
        (&["--sweep", "encode_batch=1,2"], "encodes frame by frame"),
        (&["--sweep", "batch=2"], "cannot be swept"),
        (&["--sweep", "precision=fp8"], "is no value of precision"),
        (&["--sweep", "imgsz=256", "--imgsz", "512"], "leave --imgsz out"),
        (&["--sweep", "threads=1", "--bench-arg=--threads=2"], "the sweep sets --threads itself"),
        (&["--nsys"], "--sweep"),
    ] {
        let said = wrong(flags);
        assert!(said.code == 2 && said.err.contains(says), "{flags:?}: {} {}", said.code, said.err);
    }
    assert!(!dir.path().join("sweep").exists());
}

#[test]
fn a_batch_that_was_not_built_costs_only_its_point() {
    let roles: Vec<Role> = PADDED.into_iter().chain([Role::EncoderB2]).collect();
    let Some((setting, fakes)) = Setting::new(1, 8, &roles).zip(fakes()) else { return };
    let out = setting.path("sweep");
    let mut command = segtrt();
    command.env("LD_LIBRARY_PATH", fakes.dir());
    command.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime());
    command.args(["compare", "--models", "edgetam_mini_points", "--precision", "fp32", "--json"]);
    command.args(["--sweep", "encode_batch=1,2,4", "--rounds", "1", "--warmup-runs", "0"]);
    command.arg("--bench-arg=--tensorrt-lib").arg(format!("--bench-arg={}", fakes.dir().display()));
    command.arg("--engines").arg(setting.path("engines")).arg("--split-dir").arg(&setting.split);
    let said = run(command.arg("--out-dir").arg(&out));
    assert_eq!(said.code, 1, "{}", said.err);
    let result: Value = serde_json::from_str(&said.out).unwrap();
    let row = |at: usize, member: &str| result["rows"][at][member].clone();
    assert_eq!([0, 1, 2].map(|at| row(at, "outcome")), ["reference", "same", "not_available"]);
    assert!(row(2, "why").as_str().unwrap().contains("--encoder-batches 4"), "{}", row(2, "why"));
    assert_eq!(row(1, "gain_to_previous")["of"], "encode_batch_01");
    assert_eq!(row(1, "overlapping"), true);
    // Decoding limits the rate of overlapping frames.
    assert_eq!(
        (row(1, "stages")[0]["stage"].clone(), row(1, "stages")[0]["outside"].clone()),
        ("decode".into(), false.into())
    );
    assert!(out.join("sweep.html").is_file());
}
