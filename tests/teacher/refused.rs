//! Folders that cannot teach: a usage error before anything is measured, with the file, what was
//! found, and what to type.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::shared::{base, logits_files, sidecar};
use crate::support::{bench, copy, synth};

/// Runs a bench with this teacher and these flags; it must be refused with these words.
fn refuses(split: &Path, teacher: &Path, flags: &[&str], words: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut command = bench(split, &out);
    let output = command.arg("--teacher").arg(teacher).args(flags).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(!out.join("rows.jsonl").exists(), "nothing was begun");
    for word in words.iter().chain(&["--save-logits"]) {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
}

#[test]
fn a_folder_of_something_else_is_refused_before_anything_runs() {
    let (split, run) = (&base().split, &base().run);
    let dir = tempfile::tempdir().unwrap();
    let changed = |name: &str, change: &dyn Fn(&Path)| {
        let to = dir.path().join(name);
        copy(run, &to);
        change(&to);
        to
    };
    let edited = |name: &str, change: &dyn Fn(&mut Value)| {
        changed(name, &|to: &Path| {
            let mut value = sidecar(to);
            change(&mut value);
            fs::write(to.join("sidecar.json"), value.to_string()).unwrap();
        })
    };
    refuses(split, Path::new("/nowhere"), &[], &["/nowhere/sidecar.json"]);
    let plain = edited("plain", &|s| {
        drop(s["configuration"].as_object_mut().unwrap().remove("save_logits"))
    });
    refuses(split, &plain, &[], &["found no logits, expected files in", "plain/logits"]);
    let forced = edited("forced", &|s| s["configuration"]["teacher"] = json!({}));
    refuses(split, &forced, &[], &["was teacher-forced itself"]);
    let lost = changed("lost", &|to| fs::remove_file(&logits_files(to)[0]).unwrap());
    refuses(split, &lost, &[], &["synth_000__obj000__edgetam_mini_points.npy"]);
    let cut = changed("cut", &|to| {
        let path = &logits_files(to)[0];
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 2]).unwrap();
    });
    refuses(split, &cut, &[], &["points.npy: found 196606 bytes of logits, expected 196608"]);
    let size = edited("size", &|s| s["configuration"]["models"][0]["imgsz"] = json!(512));
    refuses(split, &size, &[], &["imgsz of edgetam_mini_points: found 512, expected 256"]);
    let small = changed("small", &|to| {
        let logits = vos::logits::LogitsFile::new(4, vec![half::f16::ONE; 24 * 16]).unwrap();
        logits.write(&logits_files(to)[0]).unwrap();
    });
    refuses(
        split,
        &small,
        &[],
        &["found 24 frames of 4x4 logits, expected 24 of 64x64", "--imgsz"],
    );
    let weights = edited("weights", &|s| s["configuration"]["models"][0]["weights"] = json!("x"));
    refuses(split, &weights, &[], &["weights of edgetam_mini_points: found \"x\", expected"]);
    refuses(
        split,
        run,
        &["--models", "edgetam_mini_bbox"],
        &["model and prompt: found [\"edgetam_mini_points\"], expected \"edgetam_mini_bbox\""],
    );
    refuses(
        split,
        run,
        &["--input-frame-stride", "2"],
        &["--input-frame-stride: found 1, expected 2"],
    );
    refuses(
        split,
        run,
        &["--max-clip-frames", "9"],
        &["found 24 frames, 0 to 23, expected 9 frames, 0 to 8"],
    );
    refuses(
        split,
        run,
        &["--prompt-policy", "interior"],
        &["prompt_policy: found \"predecessor\""],
    );
    refuses(split, run, &["--geometry", "letterbox"], &["geometry: found \"stretch\""]);
    let other = synth(&dir.path().join("other"), 1, 2, 24);
    refuses(&other, run, &[], &["of synth_000: found sha256"]);
}

#[test]
fn fewer_objects_or_a_folder_that_moved_teach_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 2, 5);
    let (run, moved) = (dir.path().join("run"), dir.path().join("moved"));
    bench(&split, &run).arg("--save-logits").assert().success();
    fs::rename(&run, &moved).unwrap();
    let out = dir.path().join("out");
    let mut command = bench(&split, &out);
    command.arg("--teacher").arg(&moved).args(["--limit-objects", "1"]).assert().success();
    let taught = sidecar(&out);
    let inputs = taught["inputs"].as_object().unwrap();
    assert_eq!(inputs.keys().filter(|name| name.starts_with("teacher/")).count(), 1);
}

#[test]
fn flags_that_exclude_each_other_are_told() {
    let (split, run) = (&base().split, &base().run);
    let dir = tempfile::tempdir().unwrap();
    let copied = dir.path().join("run");
    copy(run, &copied);
    for (flags, said) in [
        (&["--save-logits"][..], "cannot be used with"),
        (&["--repeat-clip", "2"], "leave --repeat-clip out"),
        (&["--backend", "tensorrt", "--mode", "throughput"], "use --mode latency"),
    ] {
        let mut command = bench(split, &dir.path().join("out"));
        let output = command.arg("--teacher").arg(run).args(flags).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(said), "{said:?}: {text}");
    }
    // The teacher's own folder would be overwritten.
    let output = bench(split, &copied).arg("--teacher").arg(&copied).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && text.contains("another --out-dir"), "{text}");
    assert_eq!(logits_files(&copied).len(), 1);
}
