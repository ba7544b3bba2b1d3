//! Suites: experiments one after another, one table, and what a failing one costs.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

use crate::support::{column, read_csv, require_onnxruntime, segtrt, synth};

const MINE: &str = "\
[[experiment]]
name = 'all'
description = 'every frame, every annotation'

[[experiment]]
name = 'too_large'
description = 'there are no graphs of this size'
imgsz = 4096

[[experiment]]
name = 'half'
description = 'every second frame'
imgsz = 256
input-frame-stride = 2
annotation-stride-frames = 8
";

fn suite(dir: &Path, suite: &str, split: &Path) -> Command {
    require_onnxruntime();
    let mut command = segtrt();
    command.args(["suite", suite, "--models", "edgetam_mini_points", "--warmup-runs", "0"]);
    command.args(["--threads", "1", "--split-dir"]).arg(split);
    command.arg("--out-root").arg(root(dir));
    command
}

fn root(dir: &Path) -> PathBuf {
    dir.join("root")
}

#[test]
fn what_can_run_is_in_one_table_and_a_resume_runs_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 2, 10);
    let file = dir.path().join("mine.toml");
    fs::write(&file, MINE).unwrap();
    let file = file.to_str().unwrap();
    let told = suite(dir.path(), file, &split).arg("--json").assert().code(1);
    let told: Value = serde_json::from_slice(&told.get_output().stdout).unwrap();
    let status = |at: usize| told["experiments"][at]["status"].as_str().unwrap().to_owned();
    assert_eq!([status(0), status(1), status(2)], ["done", "failed", "done"]);
    assert!(told["experiments"][1]["error"].as_str().unwrap().contains("no bundle of"));
    assert!(told["experiments"][2]["models"][0]["fps"].as_f64().unwrap() > 0.0);

    let table = root(dir.path()).join("mine_summary.csv");
    assert_eq!(told["summary"].as_str().unwrap(), table.to_str().unwrap());
    assert_eq!(told["rows"], 4);
    let (header, rows) = read_csv(&table);
    let at = header.iter().position(|name| name == "setup_ms").unwrap();
    assert_eq!(
        header[at - 1..at + 4],
        [
            "annotation_stride_frames",
            "setup_ms",
            "experiment_name",
            "experiment_description",
            "status"
        ]
    );
    assert_eq!(rows.len(), 4);
    assert_eq!(column(&table, "experiment_name"), ["all", "all", "half", "half"]);
    assert_eq!(column(&table, "experiment_description")[2], "every second frame");
    assert_eq!(column(&table, "input_fps"), ["24.0", "24.0", "12.0", "12.0"]);
    assert_eq!(column(&table, "frames"), ["10", "10", "5", "5"]);
    assert_eq!(column(&table, "scored_frames"), ["3", "3", "2", "2"]);
    let half = root(dir.path()).join("half/sav_benchmark_summary.csv");
    assert_eq!(column(&half, "fps"), column(&table, "fps")[2..]);

    // Nothing is measured twice, and the table is the same.
    let before = fs::read(&table).unwrap();
    fs::remove_file(&table).unwrap();
    suite(dir.path(), file, &split)
        .arg("--resume")
        .assert()
        .code(1)
        .stdout(contains("too_large").and(contains("FAILED")))
        .stderr(contains("[2/3] too_large"));
    assert_eq!(fs::read(&table).unwrap(), before);
}

#[test]
fn the_table_of_an_earlier_run_does_not_pass_for_this_ones() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 4);
    // The predecessor's suites want 768 pixels and more; the small bundle has 256.
    let old = root(dir.path()).join("imgsz768_stride6");
    fs::create_dir_all(&old).unwrap();
    fs::write(old.join("sav_benchmark_summary.csv"), "video,setup_ms\r\nold,1.0\r\n").unwrap();
    let combined = root(dir.path()).join("additional_experiments_summary.csv");
    fs::write(&combined, "old").unwrap();
    suite(dir.path(), "additional", &split)
        .assert()
        .code(1)
        .stdout(contains("imgsz512_baseline").and(contains("imgsz768_stride6")));
    assert!(!combined.exists());
}

#[test]
fn what_a_suite_sets_itself_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, expected) in [
        (&["--imgsz", "256"][..], "--imgsz is set by each experiment"),
        (&["--out-dir", "x"], "--out-root"),
        (&["--input_frame_stride", "2"], "write a suite of your own"),
        (&["--columns", "standard"], "extended"),
    ] {
        suite(dir.path(), "lowfps", dir.path())
            .args(flags)
            .assert()
            .code(2)
            .stderr(contains(expected));
    }
    segtrt().args(["suite", "lowfps"]).assert().code(2).stderr(contains("--split-dir is missing"));
    segtrt()
        .args(["suite", "lowfsp", "--split-dir", "x"])
        .assert()
        .code(2)
        .stderr(contains("expected additional, lowfps, stride_sweep, or a TOML file"));
}
