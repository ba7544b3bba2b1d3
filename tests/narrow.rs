//! Tables in 80 columns: nothing is wider, no word is cut, and what is left out is named.

use std::fs;

use assert_cmd::Command;

use crate::support::{bench, segtrt, synth};

const COLUMNS: usize = 80;

/// What the command prints in 80 columns. Paths alone on a line may be longer.
#[track_caller]
fn fits(command: &mut Command) -> String {
    let output = command.env("COLUMNS", COLUMNS.to_string()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    // Sentences after a table are the terminal's to wrap.
    let table = text.lines().rposition(|line| line.starts_with('─')).map_or(0, |at| at + 1);
    for line in text.lines().take(table) {
        assert!(line.chars().count() <= COLUMNS, "{line:?} is too wide in:\n{text}");
    }
    text
}

/// The text without numbers, which differ between runs, and without the blanks that they need.
fn shape(text: &str) -> String {
    let is_rule = |line: &str| line.starts_with(['─', '═']);
    let words = |line: &str| {
        let words = line.split_whitespace().map(|word| {
            let number = word.trim_end_matches(['%', ',']);
            if number.parse::<f64>().is_ok() { "N".to_owned() } else { word.to_owned() }
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let lines = text.lines().map(|line| if is_rule(line) { "─".to_owned() } else { words(line) });
    lines.collect::<Vec<_>>().join("\n")
}

/// The table alone: all up to its last rule.
fn table(text: &str) -> String {
    let last = text.lines().rposition(|line| line.starts_with('─')).unwrap();
    let note = text.lines().skip(last + 1).take_while(|line| !line.is_empty());
    let note = note.skip_while(|line| !line.starts_with("Not shown")).take(2);
    let lines = text.lines().take(last + 1).chain(note);
    shape(&lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn tables_of_a_run_fit_80_columns() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 4);
    let out = dir.path().join("out");
    let text = fits(bench(&split, &out).args(["--profile-runs", "2"]));
    insta::assert_snapshot!("bench", table(&text));
    assert!(text.contains("J&F, %"), "{text}");

    let file = dir.path().join("suite.toml");
    let experiment = "[[experiment]]\nname = 'all'\ndescription = 'every frame'\n";
    fs::write(&file, experiment).unwrap();
    let mut suite = segtrt();
    suite.arg("suite").arg(&file).args(["--models", "edgetam_mini_points", "--split-dir"]);
    suite.arg(&split).arg("--out-root").arg(dir.path().join("suite"));
    insta::assert_snapshot!("suite", table(&fits(&mut suite)));

    let baseline = |words: &[&str]| {
        let mut command = segtrt();
        command.arg("baseline").args(words).arg("--baselines").arg(dir.path().join("kept"));
        if words[0] != "show" {
            command.arg("--from").arg(&out);
        }
        command
    };
    insta::assert_snapshot!("baseline_save", table(&fits(&mut baseline(&["save", "b"]))));
    insta::assert_snapshot!("baseline_check", table(&fits(&mut baseline(&["check", "b"]))));
}

#[test]
fn tables_without_a_network_fit_80_columns() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let mut predecode = segtrt();
    predecode.args(["predecode", "--imgsz", "256", "--values", "u8", "--split-dir"]).arg(&split);
    predecode.arg("--out-dir").arg(dir.path().join("frames"));
    insta::assert_snapshot!("predecode", table(&fits(&mut predecode)));
    for file in ["", "/prompt.onnx"] {
        fits(segtrt().arg("inspect").arg(format!("onnx/bundles/edgetam_mini_256_fp32{file}")));
    }
    let doctor = fits(segtrt().arg("doctor"));
    let wide: Vec<&str> = doctor.lines().filter(|line| line.chars().count() > COLUMNS).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    for heading in ["Machine", "Needed", "For a GPU", "Optional"] {
        assert!(doctor.lines().any(|line| line.starts_with(heading)), "{doctor}");
    }
}
