//! Sides that fp32's masks do not vouch for, held to the original code at their own precision.

use std::path::Path;

use serde_json::Value;
use vos::rle::Rle;

use super::shared::{
    Said, as_pytorch, base, compare, copy_run, edit_column, edit_masks, empty, json as read, run,
    side,
};

/// Four sides of one reference: `mixed`, and in fp16 an engine and PyTorch's two; those that
/// `differ` lose a little of one frame.
fn with_original(dir: &Path, differ: &[&str]) -> (Said, Value) {
    changed(dir, "meta", differ, |frames| nibble(&mut frames[5]))
}

/// Takes as many pixels from a mask as bring its IoU below 0.99.
fn nibble(frame: &mut Value) {
    take_a_part(frame, 100);
}

/// Takes one pixel of `of` from a mask, the first ones.
fn take_a_part(frame: &mut Value, of: usize) {
    let rle: Rle = serde_json::from_value(frame["mask"].clone()).unwrap();
    let mut mask = rle.to_mask().unwrap();
    let pixels: Vec<_> = mask.pixels().collect();
    for (x, y) in &pixels[..=pixels.len() / of] {
        mask.set(*x, *y, false);
    }
    frame["mask"] = serde_json::to_value(Rle::compressed(&mask)).unwrap();
}

fn changed(dir: &Path, whose: &str, differ: &[&str], change: fn(&mut Vec<Value>)) -> (Said, Value) {
    let kinds = [
        ("mixed", "mixed", "tensorrt 8.6.0 mixed segmented graph"),
        ("engine", "fp16", "tensorrt 8.6.0 fp16 segmented graph"),
        ("eager", "fp16", ""),
        ("compile", "fp16", ""),
    ];
    let sides = kinds.map(|(name, precision, backend)| {
        let run = copy_run(&dir.join(name));
        edit_column(&run, "precision", precision);
        match backend {
            "" => as_pytorch(&run, whose, name),
            backend => edit_column(&run, "backend", backend),
        }
        if differ.contains(&name) {
            edit_masks(&run, change);
        }
        run
    });
    let out = dir.join("cmp");
    let said =
        run(compare(&out).arg("--reference-run").arg(&base().run).arg("--runs").args(&sides));
    (said, read(&out.join("comparison.json")))
}

fn ratio(found: &Value, subject: &str, baseline: &str) -> Value {
    let ratios = found["models"][0]["ratios"].as_array().unwrap();
    let mut of = ratios.iter().filter(|r| r["subject"] == subject && r["baseline"] == baseline);
    of.next().unwrap_or_else(|| panic!("no ratio of {subject} to {baseline}")).clone()
}

#[test]
fn sides_with_the_masks_of_the_original_at_their_precision_are_compared_with_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let (said, found) = with_original(dir.path(), &["engine", "eager", "compile"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(side(&found, "mixed")["outcome"], "same");
    for name in ["engine", "eager", "compile"] {
        let side = side(&found, name);
        assert_eq!(
            (&side["outcome"], &side["as_original"]["side"]),
            (&"as_original".into(), &"eager".into())
        );
        let lowest = |found: &Value| found["min_iou"].as_f64().unwrap();
        let with_reference = lowest(&side["equality"]);
        assert!(with_reference > 0.9 && with_reference < 0.99, "{with_reference}");
        assert_eq!(lowest(&side["as_original"]["equality"]), 1.0);
        assert!(side["speed"].is_object(), "{side}");
    }
    let both = ratio(&found, "engine", "compile");
    assert!(both["times_as_fast"].is_object());
    let footing = ", both with the masks of eager fp16, not the reference's";
    assert!(both["sentence"].as_str().unwrap().ends_with(footing), "{both}");
    let stricter = ratio(&found, "mixed", "compile");
    let footing = ", mixed with the reference's masks, compile only with those of eager fp16";
    assert!(stricter["times_as_fast"].is_object(), "{stricter}");
    assert!(stricter["sentence"].as_str().unwrap().ends_with(footing), "{stricter}");
    // An engine is no original: its fp16 vouches for nothing that another may be compared with.
    let withheld = ratio(&found, "mixed", "engine");
    assert_eq!(
        withheld["why"],
        "other masks: mixed has the reference's masks, engine those of eager fp16"
    );
    assert!(withheld["times_as_fast"].is_null(), "{withheld}");
    let told = "engine: not the reference's masks (lowest IoU 0.9";
    assert!(
        said.out.contains(told)
            && said.out.contains("but the masks of eager at that precision (IoU mean 1.00000"),
        "{}",
        said.out
    );
    assert!(said.out.contains("as eager"), "{}", said.out);
}

/// eager is within the limit, compile beyond it and within eager's: the engine has the reference's
/// masks, and eager's.
#[test]
fn each_sides_footing_is_said_whoever_is_the_subject() {
    let dir = tempfile::tempdir().unwrap();
    let sides = [
        ("engine", "tensorrt 8.6.0 fp16 segmented graph", 0),
        ("eager", "", 160),
        ("compile", "", 80),
    ];
    let sides = sides.map(|(name, backend, part)| {
        let run = copy_run(&dir.path().join(name));
        edit_column(&run, "precision", "fp16");
        match backend {
            "" => as_pytorch(&run, "meta", name),
            backend => edit_column(&run, "backend", backend),
        }
        match part {
            160 => edit_masks(&run, |frames| take_a_part(&mut frames[5], 160)),
            80 => edit_masks(&run, |frames| take_a_part(&mut frames[5], 80)),
            _ => {}
        }
        run
    });
    for (subject, baseline, footing) in [
        (
            "engine",
            "compile",
            ", engine with the reference's masks, compile only with those of eager fp16",
        ),
        (
            "compile",
            "engine",
            ", compile only with the masks of eager fp16, engine with the reference's",
        ),
    ] {
        let out = dir.path().join(format!("of_{subject}"));
        let mut command = compare(&out);
        command.arg("--reference-run").arg(&base().run).args(["--subject", subject]);
        let said = run(command.arg("--runs").args(&sides));
        let found = read(&out.join("comparison.json"));
        let outcome = |name| side(&found, name)["outcome"].clone();
        let outcomes = [outcome("engine"), outcome("eager"), outcome("compile")];
        assert_eq!(outcomes, ["same", "same", "as_original"], "{}", said.out);
        let told = ratio(&found, subject, baseline)["sentence"].clone();
        assert!(told.as_str().unwrap().ends_with(footing), "{told}");
    }
}

#[test]
fn an_engine_that_neither_reference_vouches_for_is_a_mismatch() {
    let dir = tempfile::tempdir().unwrap();
    let (said, found) = with_original(dir.path(), &["engine"]);
    assert_eq!(side(&found, "engine")["outcome"], "mismatch");
    assert_eq!(side(&found, "engine")["as_original"]["equality"]["same"], false);
    assert!(ratio(&found, "engine", "compile")["why"].as_str().unwrap().contains("MISMATCH"));
    assert!(ratio(&found, "mixed", "compile")["times_as_fast"].is_object(), "{}", said.out);
    // The original alone turned over: the engine has fp32's masks, and no PyTorch side does.
    let dir = tempfile::tempdir().unwrap();
    let (_, found) = with_original(dir.path(), &["eager", "compile"]);
    assert_eq!(
        (&side(&found, "engine")["outcome"], &side(&found, "eager")["outcome"]),
        (&"same".into(), &"as_original".into())
    );
    let said = ratio(&found, "engine", "eager")["sentence"].clone();
    let footing = ", engine with the reference's masks, eager only with those of eager fp16";
    assert!(said.as_str().unwrap().ends_with(footing), "{said}");
}

/// An engine that is named behind PyTorch's sides has its ratios too.
#[test]
fn the_order_of_names_loses_no_ratio() {
    let dir = tempfile::tempdir().unwrap();
    let kinds = [
        ("first", "tensorrt 8.6.0 fp32 segmented graph"),
        ("compile", ""),
        ("second", "tensorrt 8.6.0 fp32 graph"),
    ];
    let sides = kinds.map(|(name, backend)| {
        let run = copy_run(&dir.path().join(name));
        match backend {
            "" => as_pytorch(&run, "meta", name),
            backend => edit_column(&run, "backend", backend),
        }
        run
    });
    let out = dir.path().join("cmp");
    let said = run(compare(&out).arg("--runs").args(&sides));
    assert_eq!(said.code, 0, "{}", said.err);
    let found = read(&out.join("comparison.json"));
    for (subject, baseline) in [("first", "compile"), ("first", "second"), ("second", "compile")] {
        assert!(ratio(&found, subject, baseline)["times_as_fast"].is_object());
    }
    assert_eq!(found["models"][0]["ratios"].as_array().unwrap().len(), 3);
}

/// Beside a reference without a mask nothing is proven, whatever the original made.
#[test]
fn an_original_does_not_stand_in_for_a_reference_that_shows_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let reference = copy_run(&dir.path().join("reference"));
    edit_masks(&reference, |frames| frames.iter_mut().for_each(empty));
    let sides = ["eager", "compile"].map(|mode| {
        let run = copy_run(&dir.path().join(mode));
        edit_column(&run, "precision", "fp16");
        as_pytorch(&run, "meta", mode);
        run
    });
    let out = dir.path().join("cmp");
    let said = run(compare(&out).arg("--reference-run").arg(&reference).arg("--runs").args(&sides));
    assert_eq!(said.code, 1, "{}", said.out);
    let found = read(&out.join("comparison.json"));
    assert_eq!(side(&found, "compile")["outcome"], "mismatch");
    assert!(ratio(&found, "eager", "compile")["times_as_fast"].is_null());
}

#[test]
fn another_implementation_is_no_original() {
    let dir = tempfile::tempdir().unwrap();
    let differ = ["engine", "eager", "compile"];
    let (said, found) =
        changed(dir.path(), "transformers", &differ, |frames| nibble(&mut frames[5]));
    assert_eq!(said.code, 1, "{}", said.out);
    for name in differ {
        let side = side(&found, name);
        assert_eq!((&side["outcome"], side["speed"].is_null()), (&"mismatch".into(), true));
    }
}

/// An original whose masks are others on the whole, and not on single frames, vouches for nobody.
#[test]
fn an_original_that_is_far_from_the_reference_proves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let differ = ["engine", "eager", "compile"];
    let (said, found) = changed(dir.path(), "meta", &differ, |frames| empty(&mut frames[5]));
    assert_eq!(said.code, 1, "{}", said.out);
    for name in differ {
        assert_eq!(side(&found, name)["outcome"], "mismatch");
    }
    assert!(ratio(&found, "engine", "compile")["times_as_fast"].is_null());
}

/// Only sides of a precision that has one beyond its limits are held to the original.
#[test]
fn a_precision_whose_sides_all_agree_needs_no_original() {
    let dir = tempfile::tempdir().unwrap();
    let (_, found) = with_original(dir.path(), &["mixed"]);
    assert_eq!(side(&found, "mixed")["outcome"], "mismatch");
    for name in ["engine", "eager", "compile"] {
        assert_eq!(side(&found, name)["outcome"], "same");
        assert!(side(&found, name)["as_original"].is_null(), "{name}");
    }
}

#[test]
fn only_fp32_is_a_reference() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (copy_run(&dir.path().join("a")), copy_run(&dir.path().join("b")));
    edit_column(&a, "precision", "fp16");
    let out = dir.path().join("cmp");
    let by_folder = run(compare(&out).arg("--reference-run").arg(&a).arg("--runs").arg(&b));
    let by_name = run(compare(&out).args(["--reference", "a", "--runs"]).args([&a, &b]));
    for said in [by_folder, by_name] {
        let told = "it ran in fp16, expected fp32";
        assert!(said.code == 1 && said.err.contains(told), "{}{}", said.out, said.err);
    }
}
