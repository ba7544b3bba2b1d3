//! A resumed bench: which rows it goes on with, which it refuses; and what no bench writes over or
//! loses.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{bench, column, copy, synth};

const SUMMARY: &str = "sav_benchmark_summary.csv";

/// Standard error of a command that must end with `code`.
fn said(command: &mut assert_cmd::Command, code: i32) -> String {
    let ended = command.assert().code(code);
    String::from_utf8_lossy(&ended.get_output().stderr).into_owned()
}

/// A resumed bench of `split` into `out`.
fn resumed(split: &Path, out: &Path) -> assert_cmd::Command {
    let mut command = bench(split, out);
    command.arg("--resume");
    command
}

fn videos(out: &Path) -> Vec<String> {
    column(&out.join(SUMMARY), "video")
}

fn sidecar(out: &Path) -> Value {
    serde_json::from_slice(&fs::read(out.join("sidecar.json")).unwrap()).unwrap()
}

/// Rows of other frames, other masks or an object that is gone would share a table, a mean and a
/// sidecar with new ones.
#[test]
fn rows_of_other_data_are_refused_by_name_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 2, 4);
    let out = dir.path().join("out");
    bench(&split, &out).args(["--limit-videos", "1"]).assert().success();
    let before = [SUMMARY, "sidecar.json"].map(|name| fs::read(out.join(name)).unwrap());
    let clip = split.join("JPEGImages_24fps/synth_000");
    let masks = split.join("Annotations_6fps/synth_000");

    let (frame, other) = (clip.join("00001.jpg"), clip.join("00002.jpg"));
    let kept = fs::read(&frame).unwrap();
    fs::copy(other, &frame).unwrap();
    let error = said(&mut resumed(&split, &out), 1);
    assert!(error.contains("rows.jsonl has rows from another machine, data or library"), "{error}");
    assert!(error.contains("the frames of synth_000 were sha256 "), "{error}");
    assert!(error.contains("--out-dir") && !error.contains("masks"), "{error}");
    fs::write(&frame, kept).unwrap();

    // The same mask for another frame is another mask.
    let object = masks.join("001");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&object).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (last, moved) = (files.last().unwrap(), object.join("00003.png"));
    assert_ne!(*last, moved);
    fs::rename(last, &moved).unwrap();
    let error = said(&mut resumed(&split, &out), 1);
    assert!(error.contains("the masks of object 001 of synth_000 were sha256 "), "{error}");
    assert!(!error.contains("object 000"), "{error}");
    fs::rename(&moved, last).unwrap();

    let aside = dir.path().join("aside");
    fs::rename(&object, &aside).unwrap();
    let error = said(&mut resumed(&split, &out), 1);
    assert!(error.contains("object 001 of synth_000 is gone from the split"), "{error}");
    fs::rename(&aside, &object).unwrap();

    assert_eq!(before, [SUMMARY, "sidecar.json"].map(|name| fs::read(out.join(name)).unwrap()));
    resumed(&split, &out).args(["--limit-videos", "1"]).assert().success();
}

/// Host, program and library are kept with each row; here they are changed where they are kept.
#[test]
fn rows_of_another_machine_program_or_library_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 2, 3);
    let out = dir.path().join("out");
    bench(&split, &out).args(["--limit-objects", "1"]).assert().success();
    let journal = out.join("rows.jsonl");
    let kept = fs::read_to_string(&journal).unwrap();
    let row: Value = serde_json::from_str(kept.lines().nth(1).unwrap()).unwrap();
    for (place, name) in [
        ("machine", "host"),
        ("machine", "processor"),
        ("machine", "segtrt"),
        ("library", "library"),
    ] {
        let fact = &row["measured_on"][place][name];
        assert!(fact.as_str().is_some_and(|fact| !fact.is_empty()), "{name}: {fact}");
        let mut other = row.clone();
        other["measured_on"][place][name] = "another".into();
        let header = kept.lines().next().unwrap();
        fs::write(&journal, format!("{header}\n{other}\n")).unwrap();
        let error = said(&mut resumed(&split, &out), 1);
        assert!(error.contains(&format!("{name} was \"another\" and is {fact}")), "{error}");
        assert_eq!(
            fs::read_to_string(&journal).unwrap().lines().count(),
            2,
            "nothing was measured"
        );
    }
    fs::write(&journal, kept).unwrap();
    resumed(&split, &out).assert().success();
    assert_eq!(videos(&out).len(), 2);
}

/// Rows are of one object each, so that more or fewer of them are the same run.
#[test]
fn other_clips_and_objects_of_the_same_data_go_on_in_one_table() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 3, 2, 3);
    let out = dir.path().join("out");
    let list = dir.path().join("list");
    fs::write(&list, "synth_001\n").unwrap();
    let one = ["--limit-objects", "1"];
    bench(&split, &out).arg("--video-list").arg(&list).args(one).assert().success();
    let said_more = said(&mut resumed(&split, &out), 0);
    assert!(said_more.contains("1 of 6 rows exist already"), "{said_more}");
    let all: Vec<String> =
        [0, 0, 1, 1, 2, 2].iter().map(|clip| format!("synth_{clip:03}")).collect();
    assert_eq!(videos(&out), all);
    assert_eq!(column(&out.join(SUMMARY), "object"), ["000", "001"].repeat(3));
    let whole = sidecar(&out);
    assert_eq!(whole["configuration"]["videos"].as_array().unwrap().len(), 3);
    assert_eq!(whole["configuration"]["limit_objects"], 0);
    let rows = fs::read(out.join(SUMMARY)).unwrap();

    let fewer = said(resumed(&split, &out).arg("--video-list").arg(&list).args(one), 0);
    assert!(fewer.contains("1 of 1 rows exist already"), "{fewer}");
    assert_eq!(fs::read(out.join(SUMMARY)).unwrap(), rows, "what was measured stays");
    let sidecar = sidecar(&out);
    // Of each clip with rows the hash, and what ran them though nothing was run now.
    assert_eq!(sidecar["inputs"], whole["inputs"]);
    assert_eq!(sidecar["inputs"].as_object().unwrap().len(), 6);
    assert_eq!(sidecar["environment"]["onnxruntime"], whole["environment"]["onnxruntime"]);
    assert!(sidecar["environment"]["onnxruntime"][0].is_string());
    assert_eq!(sidecar["passes"].as_array().unwrap().len(), 6);
}

/// The predecessor's tables have the same names, and its folder is the usual one.
#[test]
fn result_files_of_others_are_kept_with_and_without_resume() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    for resume in [None, Some("--resume")] {
        let out = dir.path().join(format!("out{}", resume.is_some()));
        fs::create_dir(&out).unwrap();
        let names = [
            (SUMMARY, "sav_benchmark_summary.previous.csv"),
            ("profile_summary.csv", "profile_summary.previous.csv"),
            ("sidecar.json", "sidecar.previous.json"),
        ];
        names
            .iter()
            .for_each(|(name, _)| fs::write(out.join(name), format!("old {name}")).unwrap());
        let told = said(bench(&split, &out).args(resume), 0);
        for (name, kept) in names {
            assert!(told.contains(&format!("{name} is kept in {kept}")), "{told}");
            assert_eq!(fs::read_to_string(out.join(kept)).unwrap(), format!("old {name}"));
        }
        assert_eq!(videos(&out).len(), 1);
        // The machine of a run's rows goes with them.
        let first = fs::read(out.join("sidecar.json")).unwrap();
        bench(&split, &out).assert().success();
        assert_eq!(fs::read(out.join("sidecar.previous.json")).unwrap(), first);
        assert_eq!(
            fs::read_to_string(out.join("sidecar.previous-2.json")).unwrap(),
            "old sidecar.json"
        );
    }
}

#[test]
fn a_message_that_nobody_can_read_costs_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 3, 1, 3);
    let start = |out: &Path, stderr: Stdio| {
        let command = bench(&split, out);
        std::process::Command::new(command.get_program())
            .args(command.get_args())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap()
    };
    // As a full disk: the campaign goes on.
    if let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") {
        let out = dir.path().join("full");
        assert_eq!(start(&out, full.into()).wait().unwrap().code(), Some(0));
        assert_eq!(videos(&out).len(), 3);
    } else {
        eprintln!("SKIPPED: no /dev/full");
    }
    // As `| head -1`: it ends, and what it had measured is kept before it is shown.
    let out = dir.path().join("gone");
    let mut running = start(&out, Stdio::piped());
    let mut lines = BufReader::new(running.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.starts_with("[1/3]"), "{line}");
    drop(lines);
    assert_eq!(running.wait().unwrap().code(), Some(141));
    let journal = fs::read_to_string(out.join("rows.jsonl")).unwrap();
    assert_eq!(
        journal.lines().count(),
        3,
        "a header, the row that was shown, the one that could not be"
    );
}

/// `a` with object `1__obj2` and `a__obj1` with object `2`; and a clip whose name leaves no room
/// for `.json`.
#[test]
fn no_object_writes_over_another_ones_files_and_long_names_cost_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let made = synth(dir.path(), 1, 1, 3);
    let split = dir.path().join("named");
    let long = "v".repeat(250);
    for (clip, object) in [("a", "1__obj2"), ("a__obj1", "2"), (&long, "000")] {
        let (frames, masks) = (split.join("JPEGImages_24fps"), split.join("Annotations_6fps"));
        copy(&made.join("JPEGImages_24fps/synth_000"), &frames.join(clip));
        copy(&made.join("Annotations_6fps/synth_000/000"), &masks.join(clip).join(object));
    }
    let out = dir.path().join("out");
    let saved = ["--save-masks", "--save-logits", "--save-overlays"];
    let told = said(bench(&split, &out).args(saved), 0);
    assert_eq!(column(&out.join(SUMMARY), "status"), ["ok"; 3], "{told}");
    for folder in ["masks", "logits"] {
        assert_eq!(fs::read_dir(out.join(folder)).unwrap().count(), 3, "{folder}");
    }
    let mut overlays = column(&out.join(SUMMARY), "overlay");
    overlays.sort();
    overlays.dedup();
    assert_eq!(overlays.iter().filter(|path| out.join(path).exists()).count(), 3, "{overlays:?}");
    // Whoever looks for them finds them.
    bench(&split, &dir.path().join("taught")).arg("--teacher").arg(&out).assert().success();
}

#[test]
fn rows_without_the_files_that_a_resumed_run_asks_for_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 1, 3);
    let out = dir.path().join("out");
    bench(&split, &out).args(["--limit-videos", "1"]).assert().success();
    let told = said(resumed(&split, &out).arg("--save-masks"), 0);
    assert!(told.contains("--save-masks: 1 of the 1 existing rows have no"), "{told}");
    assert!(told.contains("edgetam_mini_points synth_000 000"), "{told}");
    assert!(told.contains("without --resume"), "{told}");
    let told = said(resumed(&split, &out).args(["--save-masks", "--save-overlays"]), 0);
    assert!(told.contains("--save-masks: 1 of the 2 existing rows"), "{told}");
    assert!(told.contains("--save-overlays: 2 of the 2 existing rows"), "{told}");
}

#[test]
fn a_clip_that_is_listed_twice_is_measured_once_and_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 1, 3);
    let list = dir.path().join("list");
    fs::write(&list, "synth_001\nsynth_000\nsynth_001\n").unwrap();
    let out = dir.path().join("out");
    let told = said(bench(&split, &out).arg("--video-list").arg(&list), 0);
    assert!(told.contains("listed more than once, and taken once: synth_001"), "{told}");
    assert!(told.contains("[2/2]") && !told.contains("[3/"), "{told}");
    assert_eq!(videos(&out), ["synth_001", "synth_000"]);
}
