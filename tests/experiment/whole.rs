//! Experiments: the folder, its configuration, what is said about the backend, and going on with one.

use std::fs;
use std::path::{Path, PathBuf};

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

use crate::support::{column, require_onnxruntime, segtrt, synth};

fn experiment(split: &Path) -> assert_cmd::Command {
    require_onnxruntime();
    let mut command = segtrt();
    command.args(["experiment", "--videos", "1", "--objects", "1", "--runs", "2", "--warmup", "0"]);
    // Named, and not there: a machine that has nsys must not take longer.
    command.env("NSYS_CMD", "/nowhere/nsys").arg("--split-dir").arg(split);
    command.arg("--out-dir").arg(split);
    command
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_string_lossy().contains("nsight_experiment_")).collect()
}

/// Else it would measure on beside the experiment that is begun next.
#[test]
#[cfg(target_os = "linux")]
fn a_killed_experiment_leaves_no_bench_behind() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 2, 5);
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("segtrt"));
    command.args(["experiment", "--models", "edgetam_mini_points", "--runs", "100000"]);
    command.env("NSYS_CMD", "/nowhere/nsys").arg("--split-dir").arg(split);
    command.arg("--out-dir").arg(dir.path());
    crate::support::killed_it_leaves_no_bench(&mut command, dir.path());
}

#[test]
fn an_experiment_leaves_the_predecessors_folder_and_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 2, 5);
    experiment(&split)
        .args(["--models", "edgetam_mini_points", "--platform", "desktop", "--", "--threads", "1"])
        .assert()
        .success()
        .stderr(
            contains("NOT a GPU").and(contains("no profiled passes: /nowhere/nsys does not run")),
        )
        .stderr(contains("segtrt report "))
        .stderr(contains("no model is there at the predecessor's 768 pixels"));
    let found = folders(&split);
    let [folder] = found.as_slice() else { panic!("{found:?}") };
    let name = folder.file_name().unwrap().to_str().unwrap();
    let stamp = name.strip_prefix("nsight_experiment_desktop_").unwrap();
    assert!(stamp.len() == 15 && stamp.as_bytes()[8] == b'_', "{stamp}");

    let config = fs::read_to_string(folder.join("experiment_config.txt")).unwrap();
    let lines: Vec<&str> = config.lines().collect();
    let names: Vec<&str> = lines[2..].iter().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(lines[..2], ["Experiment Configuration", "========================"]);
    assert_eq!(
        names,
        [
            "Timestamp",
            "Platform",
            "Hostname",
            "Dataset",
            "Models",
            "Videos",
            "Objects per video",
            "Profile runs",
            "Warmup runs",
            "Autocast",
            "Nsight",
            "Python",
            "CUDA",
            "GPU",
            "Image size"
        ]
    );
    assert_eq!(lines[2], format!("Timestamp: {stamp}"));
    for line in [
        "Models: edgetam_mini_points",
        "Profile runs: 2",
        "Autocast: fp32",
        "Image size: 256",
        "CUDA: N/A",
    ] {
        assert!(lines.contains(&line), "{line} is not in {config}");
    }
    let rows = folder.join("profile_outputs/profile_summary.csv");
    assert_eq!(column(&rows, "run"), ["0", "1"]);
    assert!(folder.join("profile_outputs/profile_stats.json").is_file());
    assert!(folder.join("nsight_reports").is_dir());

    let before = fs::read(&rows).unwrap();
    let resume = || {
        let mut command = segtrt();
        command.env("NSYS_CMD", "/nowhere/nsys").args(["experiment", "--resume"]).arg(folder);
        command
    };
    resume().assert().success().stderr(contains("continuing the experiment of"));
    assert_eq!(fs::read(&rows).unwrap(), before, "what was there was measured again");
    resume().args(["--runs", "3"]).assert().code(2);
    // The rows are lost: they are measured again, under the settings of the beginning.
    let journal = folder.join("profile_outputs/rows.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.split_inclusive('\n').next().unwrap()).unwrap();
    let output = resume().arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["rows"], rows.display().to_string());
    assert_eq!(document["experiment"]["steps"].as_array().unwrap().len(), 3);
    assert!(document["nsight_reports"].is_null());
    assert_eq!(column(&rows, "run"), ["0", "1"]);
    assert_ne!(fs::read(&rows).unwrap(), before);
    let spec: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("experiment.json")).unwrap()).unwrap();
    assert_eq!(spec["steps"].as_array().unwrap().len(), 3);
    assert_eq!(folders(&split).len(), 1);

    fs::write(folder.join("experiment.json"), "{").unwrap();
    resume().assert().code(1).stderr(contains("experiment.json is damaged"));
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    // None of the platform's models is in this checkout.
    experiment(&split)
        .arg("--backend=onnxruntime")
        .assert()
        .code(2)
        .stderr(contains(
            "none of the platform's models can be run; here are others: --models \
                          edgetam_mini_points,",
        ))
        .stderr(contains("segtrt fetch sam2.1_tiny"));
    experiment(&split).args(["--models", "sam2_huge_points"]).assert().code(2);
    experiment(&split)
        .args(["--models", "edgetam_mini_points", "--", "--out_dir", "/x"])
        .assert()
        .code(2)
        .stderr(contains("--out_dir after the two hyphens"));
    experiment(&split)
        .args(["--models", "edgetam_mini_points", "--", "--no-such-flag"])
        .assert()
        .code(2)
        .stderr(contains("--no-such-flag"));
    experiment(&dir.path().join("nowhere"))
        .args(["--models", "edgetam_mini_points"])
        .assert()
        .code(1)
        .stderr(contains("does not exist"));
    segtrt().arg("experiment").assert().code(2);
    segtrt()
        .args(["experiment", "--resume"])
        .arg(&split)
        .assert()
        .code(1)
        .stderr(contains("name a folder nsight_experiment_"));
    assert!(folders(&split).is_empty());
}

#[test]
fn a_sweep_lies_in_the_experiments_folder_and_goes_on_there() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 5);
    let nsys = crate::support::script(&dir.path().join("bin/nsys"), crate::profile::FAKE);
    let mut command = experiment(&split);
    command.env("NSYS_CMD", &nsys).env("FAKE_NSYS_LOG", dir.path().join("log"));
    command.args(["--models", "edgetam_mini_points", "--backend", "cpu", "--runs", "1"]);
    command.args(["--sweep", "threads=1,2"]).assert().success();
    let found = folders(&split);
    let [folder] = found.as_slice() else { panic!("{found:?}") };
    for name in ["sweep.csv", "sweep.html", "nsight_reports/threads_001.nsys-rep"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    assert_eq!(column(&folder.join("sweep.csv"), "combination"), ["threads_001", "threads_002"]);
    // A round and a report that were lost are made again, and nothing else.
    fs::remove_dir_all(folder.join("runs/edgetam_mini_points/threads_002")).unwrap();
    fs::remove_file(folder.join("nsight_reports/threads_001.nsys-rep")).unwrap();
    let mut command = segtrt();
    command.env("NSYS_CMD", &nsys).env("FAKE_NSYS_LOG", dir.path().join("log"));
    command.args(["experiment", "--json", "--resume"]).arg(folder).assert().success();
    assert!(folder.join("runs/edgetam_mini_points/threads_002/round_1/sidecar.json").is_file());
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    let recorded = |name: &str| log.matches(&format!("/{name}.nsys-rep")).count();
    assert_eq!((recorded("threads_001"), recorded("threads_002")), (2, 1), "{log}");

    let wrong = |flags: &[&str], says: &'static str| {
        let mut command = experiment(&split);
        command.args(["--models", "edgetam_mini_points", "--backend", "cpu"]).args(flags);
        command.assert().code(2).stderr(contains(says));
    };
    wrong(&["--sweep", "encode_batch=1,2"], "encodes frame by frame");
    wrong(&["--sweep", "imgsz=256", "--imgsz", "256"], "leave --imgsz out");
    assert_eq!(folders(&split).len(), 1);
}
