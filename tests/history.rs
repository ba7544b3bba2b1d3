//! `segtrt history` over copies of one run that were made slower, or are of another machine.

use std::fs;
use std::path::{Path, PathBuf};

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

use crate::support::{bench, segtrt, synth};

/// Runs of one folder each, `0` as it was measured; the frames of others take `factor` of its time.
fn runs(dir: &Path, factors: &[f64]) -> Vec<PathBuf> {
    let split = synth(dir, 1, 1, 6);
    let first = dir.join("0");
    bench(&split, &first).args(["--profile-runs", "2"]).assert().success();
    // The same time for each pass, so that only the factors differ.
    let sidecar: Value =
        serde_json::from_slice(&fs::read(first.join("sidecar.json")).unwrap()).unwrap();
    let folders = factors.iter().enumerate().map(|(at, factor)| {
        let folder = dir.join(format!("run_{at}"));
        fs::create_dir(&folder).unwrap();
        let table = "profile_summary.csv";
        fs::copy(first.join(table), folder.join(table)).unwrap();
        let mut sidecar = sidecar.clone();
        for pass in sidecar["passes"].as_array_mut().unwrap() {
            for ms in pass["frame_times"]["latency_ms"].as_array_mut().unwrap() {
                // A little later in each run: two runs never have the same times.
                *ms = (10.0 * factor + 1e-6 * at as f64).into();
            }
        }
        fs::write(folder.join("sidecar.json"), sidecar.to_string()).unwrap();
        folder
    });
    folders.collect()
}

fn history(file: &Path, runs: &[&PathBuf]) -> assert_cmd::Command {
    let mut command = segtrt();
    command.arg("history").arg(file).args(runs);
    command
}

#[test]
fn a_slowdown_is_named_ends_in_one_and_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kept/h.jsonl");
    let made = runs(dir.path(), &[1.0, 1.0, 1.2, 1.2, 0.9]);
    history(&file, &[]).assert().success().stdout(contains("has no runs"));
    history(&file, &[]).arg("--json").assert().success().stdout(contains("\"runs\": []"));
    history(&file, &[&made[0], &made[1]]).assert().success().stdout(contains("2 runs, 0 regress"));
    history(&file, &[&made[2]])
        .assert()
        .code(1)
        .stdout(contains("3 runs, 1 regression").and(contains("-16.67 %")).and(contains("WORSE")));
    // Without a new run the last one is judged.
    history(&file, &[]).assert().code(1);
    history(&file, &[&made[3]]).assert().success().stdout(contains("0 regressions"));
    history(&file, &[&made[4]]).assert().success().stdout(contains("better"));
    let output = history(&file, &[]).arg("--json").assert().success().get_output().stdout.clone();
    let json: Value = serde_json::from_slice(&output).unwrap();
    let fps = json["series"].as_array().unwrap().iter().find(|of| of["metric"] == "fps").unwrap();
    let changes: Vec<_> =
        fps["changes"].as_array().unwrap().iter().map(|it| &it["entry"]).collect();
    assert_eq!(changes, [2, 4]);
    // A larger limit sees no regression.
    history(&file, &[]).args(["--max-slowdown", "50%"]).assert().success();
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 5);
    // The page.
    let page = dir.path().join("page.html");
    let plots = dir.path().join("plots");
    let mut report = segtrt();
    report.arg("report").arg(&file).arg("-o").arg(&page).arg("--plots").arg(&plots);
    report.assert().success();
    let html = fs::read_to_string(&page).unwrap();
    for part in ["Runs over time", "h on ", "5 runs, 2 changes", "worse", "run 3, "] {
        assert!(html.contains(part), "no {part:?} on the page");
    }
    let rate = plots.join("history_h_edgetam_mini_points_256_fp32_Rate.svg");
    assert!(rate.is_file(), "{:?}", fs::read_dir(&plots).unwrap().collect::<Vec<_>>());
}

#[test]
fn other_machines_known_runs_and_damage_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("h.jsonl");
    let made = runs(dir.path(), &[1.0, 1.0]);
    history(&file, &[&made[0]]).assert().success();
    history(&file, &[&made[0]]).assert().code(1).stderr(contains("run_0 is in"));
    let sidecar = made[1].join("sidecar.json");
    let mut other: Value = serde_json::from_slice(&fs::read(&sidecar).unwrap()).unwrap();
    other["environment"]["processor"] = "another".into();
    fs::write(&sidecar, other.to_string()).unwrap();
    history(&file, &[&made[1]])
        .assert()
        .code(1)
        .stderr(contains("processor").and(contains("--allow-different processor")));
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1, "nothing was added");
    history(&file, &[&made[1]]).args(["--allow-different", "machine"]).assert().success();
    history(&file, &[&dir.path().join("none")]).assert().code(1).stderr(contains("none"));
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() - 9]).unwrap();
    history(&file, &[]).assert().code(1).stderr(contains("h.jsonl line 2: the line is damaged"));
    let mut report = segtrt();
    report.arg("report").arg(&file).arg("-o").arg(dir.path().join("page.html"));
    report.assert().code(1).stderr(contains("h.jsonl line 2"));
}
