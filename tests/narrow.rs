//! Tables in 80 columns: nothing is wider, no word is cut, and columns left out are named.

use std::fs;

use assert_cmd::Command;

use crate::support::{bench, segtrt, synth};

const COLUMNS: usize = 80;

/// The output of a command in 80 columns, whose table ends with a rule.
#[track_caller]
fn fits(command: &mut Command) -> String {
    let output = command.env("COLUMNS", COLUMNS.to_string()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().collect::<Vec<_>>().iter().rposition(|line| line.starts_with('─'));
    let Some(last) = last else {
        panic!("no table in {text:?}: {}", String::from_utf8_lossy(&output.stderr))
    };
    // The terminal wraps the sentences after a table.
    for line in text.lines().take(last + 1) {
        assert!(line.chars().count() <= COLUMNS, "{line:?} is too wide in:\n{text}");
    }
    text
}

/// Each word stands whole in a line.
#[track_caller]
fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.lines().any(|line| line.contains(word)), "no {word:?} in:\n{text}");
    }
}

#[test]
fn tables_of_a_run_fit_80_columns() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 4);
    let out = dir.path().join("out");
    let text = fits(bench(&split, &out).args(["--profile-runs", "2"]));
    has(&text, &["edgetam_mini_points", "fps", "J&F, %", "(predecessor", "valid", "1/1"]);
    has(&text, &["Not shown in 80 columns:", "peak RSS MiB"]);
    let whole = bench(&split, &dir.path().join("whole")).env_remove("COLUMNS").output().unwrap();
    let whole = String::from_utf8(whole.stdout).unwrap();
    has(&whole, &["J&F, % (predecessor rules)", "peak RSS MiB"]);
    assert!(!whole.contains("Not shown"), "a pipe gets all columns: {whole}");

    let file = dir.path().join("suite.toml");
    fs::write(&file, "[[experiment]]\nname = 'all'\ndescription = 'every frame'\n").unwrap();
    let mut suite = segtrt();
    suite.arg("suite").arg(&file).args(["--models", "edgetam_mini_points", "--split-dir"]);
    suite.arg(&split).arg("--out-root").arg(dir.path().join("suite"));
    has(&fits(&mut suite), &["edgetam_mini_", "J&F, %", "status", "done"]);

    let baseline = |words: &[&str]| {
        let mut command = segtrt();
        command.arg("baseline").args(words).arg("--baselines").arg(dir.path().join("kept"));
        command.arg("--from").arg(&out);
        command
    };
    has(&fits(&mut baseline(&["save", "b"])), &["edgetam_mini_", "fps", "J&F, %"]);
    let check = fits(&mut baseline(&["check", "b"]));
    has(&check, &["fps", "J&F, %", "same", "0.00 pt"]);
}

#[test]
fn tables_without_a_network_fit_80_columns() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let mut predecode = segtrt();
    predecode.args(["predecode", "--imgsz", "256", "--values", "u8", "--split-dir"]).arg(&split);
    predecode.arg("--out-dir").arg(dir.path().join("frames"));
    has(&fits(&mut predecode), &["synth_000", "written"]);

    let doctor = segtrt().arg("doctor").env("COLUMNS", COLUMNS.to_string()).output().unwrap();
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    has(&doctor, &["Machine", "Needed", "For a GPU", "Optional"]);
    for line in doctor.lines().filter(|line| line.chars().count() > COLUMNS) {
        // Only a word that cannot be broken is wider.
        let long = line.split_whitespace().any(|word| word.chars().count() > COLUMNS / 2);
        assert!(long, "{line:?} is too wide in:\n{doctor}");
    }
}
