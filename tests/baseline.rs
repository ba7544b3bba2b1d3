//! `segtrt baseline` over a real run and over copies of it that were made slower, larger or different.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

use crate::support::{bench, segtrt, synth};

/// One run of the small network, two passes; every test works on a copy.
fn run_folder() -> &'static Path {
    static RUN: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = RUN.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 1, 2, 6);
        bench(&split, &dir.path().join("out")).args(["--profile-runs", "2"]).assert().success();
        dir
    });
    static OUT: OnceLock<PathBuf> = OnceLock::new();
    OUT.get_or_init(|| dir.path().join("out"))
}

/// A place with a baseline `b` of the run, and a copy of the run in `now`.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.now()).unwrap();
        for name in ["profile_summary.csv", "sidecar.json"] {
            fs::copy(run_folder().join(name), place.now().join(name)).unwrap();
        }
        place.command(&["save", "b"]).assert().success();
        place
    }

    fn now(&self) -> PathBuf {
        self.0.path().join("now")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = segtrt();
        command.arg("baseline").args(words);
        command.arg("--baselines").arg(self.0.path().join("kept"));
        if ["save", "check"].contains(&words[0]) {
            command.arg("--from").arg(self.now());
        }
        command
    }

    /// Changes a file of the copy as text.
    fn edit(&self, name: &str, change: impl Fn(String) -> String) {
        let path = self.now().join(name);
        let text = fs::read_to_string(&path).unwrap();
        let changed = change(text.clone());
        assert_ne!(changed, text, "the edit changed nothing");
        fs::write(&path, changed).unwrap();
    }

    /// Changes the copy's sidecar.
    fn edit_sidecar(&self, change: impl Fn(&mut Value)) {
        self.edit("sidecar.json", |text| {
            let mut sidecar: Value = serde_json::from_str(&text).unwrap();
            change(&mut sidecar);
            sidecar.to_string()
        });
    }

    fn slow_down(&self, factor: f64) {
        self.edit_sidecar(|sidecar| {
            for pass in sidecar["passes"].as_array_mut().unwrap() {
                for ms in pass["frame_times"]["latency_ms"].as_array_mut().unwrap() {
                    *ms = (ms.as_f64().unwrap() * factor).into();
                }
            }
        });
    }

    fn json(&self, words: &[&str], code: i32) -> Value {
        let assert = self.command(words).arg("--json").assert().code(code);
        serde_json::from_slice(&assert.get_output().stdout).unwrap()
    }
}

#[test]
fn the_same_run_passes_and_a_slower_one_fails_with_a_table() {
    let place = Place::new();
    place.command(&["check", "b", "--strict"]).assert().success().stdout(
        contains("0 worse, 0 missing, 0 unclear")
            .and(contains("edgetam_mini_points 256 fp32"))
            .and(contains(" the same, 2 too short to judge; objects lost: 0"))
            .and(contains("p95 ms takes 21 frames of every clip, p99 ms takes 101 frames"))
            .and(contains("--max-clip-frames")),
    );
    place.slow_down(2.0);
    let assert = place.command(&["check", "b"]).assert().code(1);
    assert.stdout(contains("WORSE").and(contains("-50.00 %")).and(contains("+100.00 %")));
    let document = place.json(&["check", "b"], 1);
    assert_eq!(document["outcome"], "worse");
    let comparisons = document["comparisons"].as_array().unwrap();
    let of = |metric: &str| comparisons.iter().find(|c| c["metric"] == metric).unwrap();
    assert_eq!(
        (&of("fps")["judgement"], &of("p50_ms")["judgement"]),
        (&"worse".into(), &"worse".into())
    );
    assert_eq!(of("p95_ms")["judgement"], "not_judged", "five frames have no 95th percentile");
    assert_eq!(of("cpu_peak_rss_mib")["judgement"], "same");
    assert_eq!(of("fps")["was"]["passes"], 2);
    // What is allowed is the user's business.
    place.command(&["check", "b", "--max-slowdown", "101%"]).assert().success();
}

#[test]
fn a_run_at_the_power_limit_is_told_of() {
    let place = Place::new();
    place.edit("profile_summary.csv", |text| {
        text.replace("few_frames: ", "power_limited: so it was; few_frames: ")
    });
    let assert = place.command(&["check", "b"]).assert().success();
    let told = "passes of the run are at the GPU's power limit";
    assert.stderr(contains(told).and(contains("of the baseline are").not()));
}

#[test]
fn a_slowdown_within_the_spread_is_told_and_fails_only_strictly() {
    let place = Place::new();
    // One pass four times as slow, the other as it was: the medians differ, the ranges touch.
    place.edit_sidecar(|sidecar| {
        for pass in sidecar["passes"].as_array_mut().unwrap() {
            let factor = if pass["run"] == 0 { 4.0 } else { 0.99 };
            for ms in pass["frame_times"]["latency_ms"].as_array_mut().unwrap() {
                *ms = (ms.as_f64().unwrap() * factor).into();
            }
        }
    });
    let fps = |document: &Value| document["comparisons"][0]["judgement"].clone();
    let document = place.json(&["check", "b"], 0);
    assert_eq!((fps(&document), &document["outcome"]), ("unclear".into(), &"ok".into()));
    place.command(&["check", "b"]).assert().success().stdout(contains("record more passes"));
    place.command(&["check", "b", "--strict"]).assert().code(1);
}

#[test]
fn a_loss_of_accuracy_memory_or_an_object_fails() {
    let column = |table: &str, name: &str| {
        table.lines().next().unwrap().split(',').position(|column| column == name).unwrap()
    };
    // No field before the ones that are changed here has a comma in it.
    let set = |place: &Place, name: &str, row: usize, value: &str| {
        place.edit("profile_summary.csv", |text| {
            let at = column(&text, name);
            let mut lines: Vec<String> = text.split("\r\n").map(str::to_owned).collect();
            let mut fields: Vec<&str> = lines[row].split(',').collect();
            fields[at] = value;
            lines[row] = fields.join(",");
            lines.join("\r\n")
        });
    };
    let place = Place::new();
    (1..=4).for_each(|row| set(&place, "cpu_peak_rss_MiB", row, "9999.0"));
    place.command(&["check", "b"]).assert().code(1).stdout(contains("peak RSS MiB"));

    let place = Place::new();
    (1..=4).for_each(|row| set(&place, "J", row, "0.999"));
    place.command(&["check", "b"]).assert().success().stdout(contains("1 better"));
    place.command(&["save", "better"]).assert().success();
    (1..=4).for_each(|row| set(&place, "J", row, "0.9970"));
    place.command(&["check", "better"]).assert().code(1).stdout(contains("-0.20 pt"));
    place.command(&["check", "better", "--max-jf-drop", "0.2"]).assert().success();

    let place = Place::new();
    for row in [1, 2] {
        set(&place, "status", row, "failed");
        set(&place, "reason", row, "worker_died: signal 9");
    }
    place.command(&["check", "b"]).assert().code(1).stdout(contains(
        "synth_000/000 was measured in the baseline and not in this run (failed: worker_died",
    ));
}

#[test]
fn another_machine_or_another_configuration_is_refused_by_name() {
    let place = Place::new();
    place.edit_sidecar(|sidecar| {
        sidecar["environment"]["processor"] = "Another Chip".into();
        sidecar["environment"]["gpu"] =
            serde_json::json!({"name": "NVIDIA H200", "driver": "580.95.05"});
        sidecar["configuration"]["threads"] = 7.into();
        sidecar["configuration"]["models"][0]["weights"] = "checkpoint other.pt".into();
        sidecar["inputs"]["synth_000/frames"]["sha256"] = "00".into();
    });
    place.edit("profile_summary.csv", |text| {
        text.replace(",fp32,", ",fp16,").replace(",stretch,", ",letterbox,")
    });
    let refused = place.command(&["check", "b"]).assert().code(1);
    let said = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
    for sentence in [
        ", Another Chip in this run",
        "gpu: unknown in the baseline, NVIDIA H200",
        "driver: unknown in the baseline, 580",
        "threads: 1 in the baseline, 7 in this run",
        "weights of edgetam_mini_points: checkpoint edgetam_mini.safetensors in the baseline, \
         checkpoint other.pt",
        "precision of edgetam_mini_points: fp32 in the baseline, fp16",
        "geometry of edgetam_mini_points: stretch in the baseline, letterbox",
        "sha256 00 for synth_000/frames",
        "--allow-different clips,driver,geometry,gpu,precision,processor,threads,weights",
    ] {
        assert!(said.contains(sentence), "no {sentence:?} in: {said}");
    }
    let document = place.json(&["check", "b", "--allow-different", "gpu"], 1);
    assert_eq!(document["outcome"], "refused");
    assert_eq!(document["refused_differences"].as_array().unwrap().len(), 7);
    assert_eq!(document["comparisons"], Value::Array(vec![]));

    let allowed = [
        "--allow-different",
        "machine,settings,clips",
        "--allow-different=precision,geometry,weights",
    ];
    let words = [&["check", "b"], &allowed[..]].concat();
    place.command(&words).assert().success().stdout(contains(
        "compared in spite of a difference: precision of edgetam_mini_points: fp32",
    ));
    let document = place.json(&words, 0);
    assert_eq!(document["allowed_differences"].as_array().unwrap().len(), 8);
    // A misspelt word is noticed even where nothing hangs on it.
    place.command(&["save", "same"]).assert().success();
    place
        .command(&["check", "same", "--allow-different", "wether"])
        .assert()
        .success()
        .stderr(contains("--allow-different wether: nothing of that name differs"));
}

#[test]
fn speed_of_invalid_passes_alone_is_no_proof() {
    let invalid = |place: &Place| {
        place.edit("profile_summary.csv", |text| text.replace(",-,", ",INVALID,"));
    };
    let place = Place::new();
    invalid(&place);
    let words = ["check", "b"];
    let told = "edgetam_mini_points: all passes of the run are INVALID";
    place.command(&words).assert().code(1).stderr(contains(told).and(contains("--allow-invalid")));
    assert_eq!(place.json(&words, 1)["outcome"], "invalid");
    assert_eq!(place.json(&["check", "b", "--allow-invalid"], 0)["outcome"], "ok");
    // A baseline of such a run is saved with a warning, and proves nothing either.
    place.command(&["save", "noisy"]).assert().success().stderr(contains("4 of 4 passes"));
    fs::copy(run_folder().join("profile_summary.csv"), place.now().join("profile_summary.csv"))
        .unwrap();
    let told = "edgetam_mini_points: all passes of the baseline are INVALID";
    place.command(&["check", "noisy"]).assert().code(1).stderr(contains(told));
    // What is worse stays worse.
    place.slow_down(2.0);
    assert_eq!(place.json(&["check", "noisy"], 1)["outcome"], "worse");
}

#[test]
fn baselines_are_listed_shown_and_not_overwritten_by_accident() {
    let place = Place::new();
    place.command(&["save", "b"]).assert().code(1).stderr(contains("b.json exists"));
    place.command(&["save", "b", "--replace"]).assert().success().stdout(contains("b.json"));
    place.command(&["save", "nightly-2"]).assert().success();
    place
        .command(&["list"])
        .assert()
        .success()
        .stdout(contains("nightly-2").and(contains("edgetam_mini_points")));
    let listed = place.json(&["list"], 0);
    assert_eq!((&listed[0]["name"], listed.as_array().unwrap().len()), (&"b".into(), 2));
    place
        .command(&["show", "b"])
        .assert()
        .success()
        .stdout(contains("checkpoint edgetam_mini.safetensors").and(contains("processor ")));
    let shown = place.json(&["show", "b"], 0);
    assert_eq!((&shown["format"], &shown["name"]), (&"segtrt baseline 1".into(), &"b".into()));
    assert_eq!(shown["run"]["models"][0]["objects"].as_array().unwrap().len(), 2);
    assert_eq!(shown["run"]["models"][0]["objects"][0]["passes"][0]["frames"], 6);

    fs::write(place.0.path().join("kept/broken.json"), "{").unwrap();
    place
        .command(&["list"])
        .assert()
        .code(1)
        .stdout(contains("nightly-2"))
        .stderr(contains("broken.json is damaged"));
    place.command(&["check", "broken"]).assert().code(1).stderr(contains("broken.json is damaged"));
}

#[test]
fn bad_names_limits_and_folders_are_told_with_what_to_type() {
    let place = Place::new();
    place.command(&["check", "none"]).assert().code(1).stderr(
        contains("no baseline 'none': ")
            .and(contains(" has b. "))
            .and(contains("baseline save none")),
    );
    place.command(&["save", "../x"]).assert().code(2).stderr(contains("is not a baseline name"));
    place
        .command(&["check", "b", "--max-slowdown", "3"])
        .assert()
        .code(2)
        .stderr(contains("such as 3%"));
    place.command(&["check", "b", "--max-jf-drop", "-1"]).assert().code(2);
    let empty = place.0.path().join("empty");
    fs::create_dir(&empty).unwrap();
    segtrt()
        .args(["baseline", "save", "x", "--from"])
        .arg(&empty)
        .assert()
        .code(1)
        .stderr(contains("sidecar.json; name the --out-dir"));
    place.edit_sidecar(|sidecar| sidecar["passes"] = Value::Array(vec![]));
    place.command(&["check", "b"]).assert().code(1).stderr(contains("the run is unfinished"));
    place.edit("sidecar.json", |text| text[..text.len() / 2].to_owned());
    place.command(&["check", "b"]).assert().code(1).stderr(contains("sidecar.json is damaged"));
}
