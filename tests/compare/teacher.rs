//! `--teacher-forced`: a second drift curve for each side, and folders that were forced by hand.

use std::fs;

use serde_json::Value;

use super::shared::{FRAMES, base, compare, copy_run, edit_sidecar, json, measure, run, side};
use crate::support::{bench, column, read_csv};

/// The drift curve of a side by what was in its memories.
fn curve(comparison: &Value, name: &str, memory: &str) -> Vec<f64> {
    let curves = comparison["drift_curves"].as_array().unwrap();
    let is_it = |curve: &&Value| curve["side"] == name && curve["memory"] == memory;
    let found = curves.iter().find(is_it).unwrap_or_else(|| panic!("no curve of {name} {memory}"));
    found["iou"].as_array().unwrap().iter().map(|iou| iou.as_f64().unwrap()).collect()
}

#[test]
fn a_side_that_errs_once_drifts_freely_and_recovers_under_a_teacher() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let flags = [
        "--reference",
        "cpu",
        "--teacher-forced",
        "--runner-arg=--fake-wrong",
        "--runner-arg=eager",
        "--runner-arg=--fake-no-pupil",
        "--runner-arg=compile",
    ];
    let said = run(measure(&out, "eager,compile", "1").args(flags));
    assert_eq!(said.code, 1, "{}", said.err);
    let comparison = json(&out.join("comparison.json"));
    let (free, taught) =
        (curve(&comparison, "eager", "free"), curve(&comparison, "eager", "teacher"));
    assert_eq!((free.len(), taught.len()), (FRAMES, FRAMES));
    for t in 0..FRAMES {
        assert_eq!(taught[t], if t == 3 { 0.0 } else { 1.0 }, "teacher-forced, frame {t}");
        assert!(
            if t < 3 { free[t] == 1.0 } else { free[t] < 0.9 },
            "free-running, frame {t}: {free:?}"
        );
    }
    let eager = side(&comparison, "eager");
    assert_eq!(eager["outcome"], "mismatch", "a teacher proves nothing");
    assert_eq!(eager["teacher_forced"]["min_iou"], 0.0);
    let mean = eager["teacher_forced"]["mean_iou"].as_f64().unwrap();
    assert!((mean - (FRAMES - 1) as f64 / FRAMES as f64).abs() < 1e-12, "{mean}");
    // No speed comes from there: the rounds are the timed ones alone.
    assert!(side(&comparison, "cpu")["speed"]["frames"] == 2 * FRAMES && eager["rounds"] == 1);
    let compile = side(&comparison, "compile");
    assert_eq!((&compile["outcome"], &compile["rounds"]), (&"same".into(), &1.into()));
    assert!(compile["speed"]["fps"].as_f64().unwrap() > 0.0);
    let why = compile["teacher_forced"]["why"].as_str().unwrap();
    assert!(why.contains("this one learns nothing; teach another"), "{why}");
    assert!(side(&comparison, "cpu")["teacher_forced"].is_null(), "the reference taught");

    let (header, rows) = read_csv(&out.join("comparison_drift.csv"));
    assert_eq!(header, ["model", "side", "memory", "frame", "iou", "iou_lowest", "objects"]);
    let of = |memory: &str| rows.iter().filter(|row| row[2] == memory).count();
    assert_eq!((of("free"), of("teacher")), (2 * FRAMES, FRAMES));
    assert_eq!(column(&out.join("comparison.csv"), "iou_lowest_teacher_forced"), ["", "0", ""]);
    let text = fs::read_to_string(out.join("comparison.md")).unwrap();
    for part in [
        "| IoU teacher-forced |",
        "0.87500 / 0.0000",
        "0.87500 and 0.0000 teacher-forced (memories from the reference",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }

    // Once is enough, and a pupil that failed is asked again.
    let measured = json(&out.join("measured.json"));
    assert_eq!(measured["teachers"][0]["folder"], "runs/edgetam_mini_points/cpu/teacher");
    assert_eq!(measured["teacher_forced"][0]["side"], "eager");
    assert!(out.join("runs/edgetam_mini_points/cpu/teacher/logits").is_dir());
    let again = run(measure(&out, "eager,compile", "1").args(flags));
    assert_eq!(json(&out.join("measured.json"))["teachers"], measured["teachers"]);
    assert!(
        !again.err.contains("cpu: teacher") && again.err.contains("compile: teacher-forced"),
        "{}",
        again.err
    );

    // Folders by hand: the forced one is told by its sidecar and is no round.
    let at = |part: &str| out.join("runs/edgetam_mini_points").join(part).display().to_string();
    let mut hand = compare(&dir.path().join("hand"));
    hand.arg("--runs").arg(format!("cpu={}", at("cpu/round_1")));
    hand.args([at("eager/from_round_1/round_0"), at("eager/teacher_forced/round_0")]);
    let said = run(&mut hand);
    assert_eq!(said.code, 1, "{}", said.err);
    let by_hand = json(&dir.path().join("hand/comparison.json"));
    assert_eq!(side(&by_hand, "eager")["rounds"], 1);
    assert_eq!(curve(&by_hand, "eager", "teacher"), taught);
    // Nor is it a reference, nor a side of its own.
    let mut alone = compare(&dir.path().join("alone"));
    alone
        .arg("--runs")
        .arg(at("cpu/round_1"))
        .arg(format!("x={}", at("eager/teacher_forced/round_0")));
    let said = run(&mut alone);
    assert!(said.code == 2 && said.err.contains("\"x\" has no free run"), "{}", said.err);
    let mut reference = compare(&dir.path().join("reference"));
    reference
        .arg("--runs")
        .arg(at("cpu/round_1"))
        .arg("--reference-run")
        .arg(at("eager/teacher_forced/round_0"));
    let said = run(&mut reference);
    assert!(said.code == 2 && said.err.contains("cannot be the reference"), "{}", said.err);
}

#[test]
fn a_reference_folder_teaches_only_with_logits() {
    let dir = tempfile::tempdir().unwrap();
    let plain = copy_run(&dir.path().join("plain"));
    let taught = |reference: &std::path::Path, name: &str| {
        let mut command = measure(&dir.path().join(name), "", "1");
        command.arg("--teacher-forced").arg("--reference-run").arg(reference);
        let said = run(&mut command);
        assert_eq!(said.code, 0, "{}", said.err);
        (json(&dir.path().join(name).join("comparison.json")), said)
    };
    let (comparison, said) = taught(&plain, "without");
    let why = side(&comparison, "cpu")["teacher_forced"]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("has no logits; make that run again with --save-logits"), "{why}");
    assert!(said.out.contains("no teacher-forced drift curve"), "{}", said.out);

    let with = dir.path().join("with");
    bench(&base().split, &with)
        .args(["--save-masks", "--metrics", "official", "--save-logits"])
        .assert()
        .success();
    let (comparison, _) = taught(&with, "taught");
    assert!(curve(&comparison, "cpu", "teacher").iter().all(|iou| *iou > 0.999));
    // A pupil of something else has no curve, and its side keeps everything else.
    let forced = dir.path().join("taught/runs/edgetam_mini_points/cpu/teacher_forced");
    edit_sidecar(&forced, |sidecar| sidecar["configuration"]["models"][0]["weights"] = "x".into());
    let (comparison, _) = taught(&with, "taught");
    let cpu = side(&comparison, "cpu");
    assert!(cpu["teacher_forced"]["why"].as_str().unwrap().contains("the weights are \"x\""));
    assert_eq!(cpu["outcome"], "same");
}
