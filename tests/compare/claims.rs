//! What a side is said to be and what it is: precisions by name alone, names that look alike,
//! folders of another kind.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::judge::changed;
use super::shared::{
    Said, as_pytorch, base, compare, copy_run, edit_column, edit_json, edit_masks, edit_sidecar,
    empty, json as read, measure, run, side,
};

/// PyTorch's fp32 with TF32 products on a GPU.
fn in_tf32(run: &Path) {
    edit_sidecar(run, |sidecar| sidecar["configuration"]["tf32"] = true.into());
    edit_column(run, "device", "NVIDIA Test GPU");
}

/// The first such folder is no reference, and one pixel more is what fp16 is allowed.
#[test]
fn tf32_is_no_fp32() {
    let dir = tempfile::tempdir().unwrap();
    let said = changed(dir.path(), |b| {
        in_tf32(b);
        in_tf32(&dir.path().join("a"));
    });
    assert_eq!(said.code, 2, "{}", said.out);
    assert!(said.err.contains("none of the runs is in single precision"), "{}", said.err);
    let said = changed(&dir.path().join("2"), in_tf32);
    assert_eq!(said.code, 0, "{}", said.err);
    let found = read(&dir.path().join("2/cmp/comparison.json"));
    assert_eq!(side(&found, "b")["precision"], "tf32");
    assert_eq!(side(&found, "b")["equality"]["limits"]["precision"], "fp16");
}

/// The flag does nothing on a processor: what ran with it is held to fp32's limits, and nobody asks
/// for it.
#[test]
fn a_processor_has_no_tf32() {
    let dir = tempfile::tempdir().unwrap();
    let said = changed(dir.path(), |run| {
        edit_sidecar(run, |sidecar| sidecar["configuration"]["tf32"] = true.into());
    });
    assert_eq!(said.code, 0, "{}", said.err);
    let found = read(&dir.path().join("cmp/comparison.json"));
    assert_eq!(side(&found, "b")["precision"], "fp32");
    assert_eq!(side(&found, "b")["equality"]["limits"]["precision"], "fp32");

    let out = dir.path().join("measured");
    for (baselines, more) in
        [("eager,compile:tf32", &[][..]), ("compile", &["--baseline-precision", "tf32"])]
    {
        let said = run(measure(&out, baselines, "1").args(more));
        let told = "compile in tf32 with --device cpu: a processor has no TF32";
        assert!(said.code == 2 && said.err.contains(told), "{}", said.err);
    }
    assert!(!out.exists());
}

#[test]
fn names_that_look_alike_have_a_picture_each() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let folders = ["1", "2", "3"].map(|name| copy_run(&dir.path().join(name)));
    // Each is worst at another frame.
    for (at, folder) in folders.iter().enumerate() {
        edit_masks(folder, |frames| empty(&mut frames[3 + at]));
    }
    let named = ["a.b", "a_b", "c.d"];
    let named = named.iter().zip(&folders).map(|(name, path)| format!("{name}={}", path.display()));
    let mut command = compare(&out);
    command.arg("--reference-run").arg(&base().run).arg("--runs").args(named);
    let said = run(&mut command);
    assert_eq!(said.code, 1, "{}", said.err);
    let found = read(&out.join("comparison.json"));
    let picture = |name: &str| {
        let picture = side(&found, name)["equality"]["worst"]["picture"].clone();
        (
            picture.as_str().unwrap().to_owned(),
            fs::read(out.join(picture.as_str().unwrap())).unwrap(),
        )
    };
    let (one, other) = (picture("a.b"), picture("a_b"));
    assert!(one.0 != other.0 && one.1 != other.1, "{} {}", one.0, other.0);
    assert_eq!(picture("c.d").0, "worst/edgetam_mini_points__c_d.png");
    assert_eq!(fs::read_dir(out.join("worst")).unwrap().count(), 3);
}

fn judge(dir: &Path, folder: &Path) -> Said {
    run(compare(&dir.join("judged")).arg("--runs").arg(folder))
}

/// As older releases measured them with --runner-arg=--mode and the like: the comparison still says
/// what the side was to be.
#[test]
fn a_folder_of_another_kind_than_its_side_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let said = run(&mut measure(&out, "eager,compile", "1"));
    assert_eq!(said.code, 0, "{}", said.err);
    let folder = out.join("runs/edgetam_mini_points/compile/from_round_1/round_0");
    let sidecar = fs::read(folder.join("sidecar.json")).unwrap();
    let sound = judge(dir.path(), &out);
    assert_eq!(sound.code, 0, "{}", sound.err);

    let refused = |told: &str| {
        let judged = dir.path().join("judged");
        // Going on in the folder finds it too.
        let results = [
            (judge(dir.path(), &out), judged.join("comparison.json")),
            (run(&mut measure(&out, "eager,compile", "1")), out.join("comparison.json")),
        ];
        for (said, file) in results {
            assert_eq!(said.code, 1, "{}", said.err);
            let found = side(&read(&file), "compile");
            assert_eq!(found["outcome"], "refused", "{found}");
            let why = found["why"].as_str().unwrap();
            assert!(why.contains(told) && why.contains("measure it again"), "{why}");
            assert!(found["speed"].is_null());
            assert_eq!(side(&read(&file), "cpu")["outcome"], "same", "it costs that side alone");
        }
    };
    edit_sidecar(&folder, |sidecar| sidecar["configuration"]["run_mode"] = "eager".into());
    refused("ran in mode eager, and the side is said to run in mode compile");
    fs::write(folder.join("sidecar.json"), sidecar).unwrap();
    edit_column(&folder, "device", "NVIDIA Test GPU");
    refused("ran on a GPU, and the side is said to run on a CPU");
    edit_column(&folder, "device", "cpu: one");
    edit_column(&folder, "precision", "fp16");
    refused("ran in precision fp16, and the side is said to run in precision fp32");
    // Nothing but its name tells, where a comparison noted nothing.
    edit_column(&folder, "precision", "fp32");
    edit_sidecar(&folder, |sidecar| sidecar["configuration"]["run_mode"] = "eager".into());
    edit_json(&out.join("measured.json"), |measured| measured["side_settings"] = json!({}));
    let said = judge(dir.path(), &out);
    assert!(said.code == 1 && said.out.contains("ran in mode eager"), "{}{}", said.out, said.err);
}

/// A name that is typed says what the side is, if it is one of compare's.
#[test]
fn a_typed_name_is_a_word_too() {
    let dir = tempfile::tempdir().unwrap();
    let a = copy_run(&dir.path().join("a"));
    let b = copy_run(&dir.path().join("b"));
    as_pytorch(&b, "meta", "eager");
    let named = |name: &str| {
        let mut command = compare(&dir.path().join("cmp"));
        run(command.arg("--runs").arg(&a).arg(format!("{name}={}", b.display())))
    };
    for (name, told) in [
        ("compile", "ran in mode eager, and the side is said to run in mode compile"),
        ("eager-fp16", "ran in precision fp32, and the side is said to run in precision fp16"),
    ] {
        let said = named(name);
        assert!(said.code == 1 && said.err.contains(told), "{}{}", said.out, said.err);
    }
    for name in ["eager", "eager-fp32", "mine"] {
        let said = named(name);
        assert_eq!(said.code, 0, "{name}: {}", said.err);
    }
}

/// Not a side that is "not available", measured beside others for an hour.
#[test]
fn a_precision_that_segtrt_has_not_is_a_wrong_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    for precision in ["fp8", "bf16"] {
        let said = run(measure(&out, "compile", "1").args(["--precision", precision]));
        let told = format!("cpu: --precision {precision}: ");
        assert!(said.code == 2 && said.err.contains(&told), "{}", said.err);
    }
    assert!(!out.exists());
}
