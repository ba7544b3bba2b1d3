//! Folders that are there already.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::shared::{
    Said, base, compare, copy_run, edit_column, edit_masks, edit_passes, edit_sidecar, empty,
    json as read, run, side,
};
use crate::support::{bench, synth};

/// Two copies as sides a and b, `change` applied to b; what comparing them says.
pub fn changed(dir: &Path, change: impl FnOnce(&Path)) -> Said {
    let (a, b) = (copy_run(&dir.join("a")), copy_run(&dir.join("b")));
    change(&b);
    run(compare(&dir.join("cmp")).arg("--runs").arg(&a).arg(&b))
}

#[test]
fn folders_of_one_name_are_rounds_and_the_first_name_is_the_subject() {
    let dir = tempfile::tempdir().unwrap();
    let folders = ["x", "y", "z"].map(|name| copy_run(&dir.path().join(name)));
    // Every frame of one takes twice as long: a ratio that is known.
    for slow in &folders[1..] {
        edit_passes(slow, |pass| {
            for ms in pass["frame_times"]["latency_ms"].as_array_mut().unwrap() {
                *ms = (2.0 * ms.as_f64().unwrap()).into();
            }
        });
    }
    let out = dir.path().join("cmp");
    let mut command = compare(&out);
    command.arg("--runs").args([
        format!("fast={}", folders[0].display()),
        format!("slow={}", folders[1].display()),
        format!("slow={}", folders[2].display()),
    ]);
    let said = run(&mut command);
    assert_eq!(said.code, 0, "{}", said.err);
    let found = read(&out.join("comparison.json"));
    assert_eq!((&found["subject"], &found["reference"]), (&"fast".into(), &"fast".into()));
    let factor = &found["models"][0]["ratios"][0]["times_as_fast"];
    assert!((factor["ratio"].as_f64().unwrap() - 2.0).abs() < 1e-6, "{factor}");
    assert!((factor["interval"]["low"].as_f64().unwrap() - 2.0).abs() < 1e-6, "{factor}");
    assert!(said.out.contains("2.000 ± 0.000"), "{}", said.out);
    assert_eq!(side(&found, "slow")["rounds"], 2);
    // A debug build has no speed to publish, and two rounds are few.
    let verdict = &found["models"][0]["ratios"][0]["verdict"];
    assert_eq!(verdict["judgement"], "invalid");
    for code in ["debug_build", "few_rounds", "not_in_turn"] {
        assert!(verdict.to_string().contains(code), "{verdict}");
    }
    let turned = run(compare(&out).args(["--subject", "slow"]).arg("--runs").args([
        format!("fast={}", folders[0].display()),
        format!("slow={}", folders[1].display()),
    ]));
    assert!(
        turned.out.contains("slow fp32 is 0.500 ± 0.000 times as fast as fast fp32"),
        "{}",
        turned.out
    );
}

#[test]
fn other_work_is_refused_with_what_differs() {
    type Case = (&'static str, fn(&Path));
    let cases: [Case; 6] = [
        ("geometry is letterbox in b and stretch in a", |run| {
            edit_column(run, "geometry", "letterbox")
        }),
        ("prompt_policy is interior in b", |run| edit_column(run, "prompt_policy", "interior")),
        ("imgsz is 512 in b and 256 in a", |run| edit_column(run, "imgsz", "512")),
        ("fidelity is mem4/", |run| {
            edit_column(run, "fidelity", "mem4/ptr16/256/pil13-bicubic/noskip/nofill")
        }),
        ("the weights are \"checkpoint x.pt\" in b", |run| {
            edit_sidecar(run, |sidecar| {
                sidecar["configuration"]["models"][0]["weights"] = "checkpoint x.pt".into();
            });
        }),
        ("b ran 7 frames, 0 to 6, a ran 8 frames, 0 to 7", |run| {
            edit_passes(run, |pass| {
                for (_, column) in pass["frame_times"].as_object_mut().unwrap() {
                    column.as_array_mut().unwrap().pop();
                }
            });
        }),
    ];
    for (says, change) in cases {
        let dir = tempfile::tempdir().unwrap();
        let said = changed(dir.path(), change);
        assert_eq!(said.code, 1, "{says}: {}", said.out);
        assert!(said.err.contains("nothing can be compared"), "{says}: {}", said.err);
        assert!(said.err.contains(says), "no {says:?} in {}", said.err);
        assert!(!dir.path().join("cmp/comparison.json").exists());
    }
}

#[test]
fn other_timing_is_refused_too() {
    let dir = tempfile::tempdir().unwrap();
    let said = changed(dir.path(), |run| edit_column(run, "mode", "throughput"));
    assert!(said.err.contains("a ran in latency mode and b in throughput mode"), "{}", said.err);
    let dir = tempfile::tempdir().unwrap();
    let said = changed(dir.path(), |run| {
        edit_sidecar(run, |sidecar| sidecar["configuration"]["decode"] = "inside".into());
    });
    assert!(said.err.contains("b decodes files inside the timed region"), "{}", said.err);
    let dir = tempfile::tempdir().unwrap();
    let said = changed(dir.path(), |run| {
        edit_sidecar(run, |sidecar| {
            sidecar["configuration"]["gpu"] = json!({"objects_together": 4});
        });
    });
    assert!(said.err.contains("a tracked 1 objects together and b tracked 4"), "{}", said.err);
    let dir = tempfile::tempdir().unwrap();
    let said = changed(dir.path(), |run| {
        edit_sidecar(run, |sidecar| {
            sidecar["configuration"]["other_devices_at_the_same_time"] = 3.into();
        });
    });
    let dir = tempfile::tempdir().unwrap();
    let cold = changed(dir.path(), |run| {
        edit_sidecar(run, |sidecar| sidecar["configuration"]["warmup_runs"] = 1.into());
    });
    let dir = tempfile::tempdir().unwrap();
    let encoding = changed(dir.path(), |run| {
        edit_sidecar(run, |sidecar| sidecar["configuration"]["encode"] = "masks,inside".into());
    });
    let told = "a encodes nothing and b encodes masks inside its frames' time";
    assert!(encoding.err.contains(told), "{}", encoding.err);
    assert!(cold.err.contains("a ran without warm-up passes and b with them"), "{}", cold.err);
    let busy = "a was measured with 0 other GPUs of its host in use, b with 3";
    assert!(said.err.contains(busy), "{}", said.err);
}

#[test]
fn what_may_differ_is_told_and_another_machine_is_a_fault() {
    let dir = tempfile::tempdir().unwrap();
    let said = changed(dir.path(), |run| {
        edit_column(run, "fidelity", "mem7/ptr16/256/torch-bicubic/noskip/nofill");
        edit_sidecar(run, |sidecar| {
            sidecar["environment"]["processor"] = "another processor".into();
            sidecar["configuration"]["compile_s"] = 12.5.into();
        });
    });
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.out.contains("note: other_fidelity: a ran as mem7/ptr16/256/pil13-bicubic"),
        "{}",
        said.out
    );
    assert!(
        said.out.contains("INVALID: other_machine: the sides ran on different processors"),
        "{}",
        said.out
    );
    assert!(said.out.contains("compile s") && said.out.contains("12.5"), "{}", said.out);
    // The sentence is copied alone, so it says itself that it may not be believed.
    let line = said.out.lines().find(|line| line.contains("times as fast as b fp32")).unwrap();
    assert!(line.ends_with(", INVALID"), "{line}");
}

#[test]
fn another_split_and_missing_parts_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let other = synth(dir.path(), 2, 1, 9);
    let (a, b) = (copy_run(&dir.path().join("a")), copy_run(&dir.path().join("b")));
    let mut command = crate::support::segtrt();
    command.arg("compare").arg("--split-dir").arg(&other).arg("--runs").arg(&a).arg(&b);
    let said = run(command.arg("--out-dir").arg(dir.path().join("cmp")));
    assert_eq!(said.code, 1);
    assert!(said.err.contains("the frames of synth_000"), "{}", said.err);

    fs::remove_dir_all(b.join("masks")).unwrap();
    let said = run(compare(&dir.path().join("cmp")).arg("--runs").arg(&a).arg(&b));
    assert!(said.code == 1 && said.err.contains("measure again with --save-masks"), "{}", said.err);
    fs::remove_file(b.join("sidecar.json")).unwrap();
    let said = run(compare(&dir.path().join("cmp")).arg("--runs").arg(&a).arg(&b));
    assert!(said.err.contains("b/sidecar.json"), "{}", said.err);
    fs::write(b.join("sidecar.json"), "{").unwrap();
    let said = run(compare(&dir.path().join("cmp")).arg("--runs").arg(&a).arg(&b));
    assert!(said.err.contains("is not the sidecar of a run"), "{}", said.err);

    // A damaged file of masks costs its side, with its name.
    let c = copy_run(&dir.path().join("c"));
    let masks = c.join("masks/synth_000__obj000__edgetam_mini_points.json");
    fs::write(&masks, r#"{"frames": [{"frame": 0, "mask": {"size": [2, 2], "counts": "~"}}]}"#)
        .unwrap();
    let said = run(compare(&dir.path().join("cmp")).arg("--runs").arg(&a).arg(&c));
    assert!(said.err.contains("masks of 1 frames, 8 frames were run"), "{}", said.err);

    // An object that one side could not measure is no basis for a speed.
    let d = copy_run(&dir.path().join("d"));
    edit_column(&d, "status", "failed");
    let said = run(compare(&dir.path().join("cmp")).arg("--runs").arg(&a).arg(&d));
    assert!(said.err.contains("synth_000 object 000 failed"), "{}", said.err);
}

#[test]
fn rounds_must_be_of_one_thing() {
    let dir = tempfile::tempdir().unwrap();
    let folders = ["a", "b", "c"].map(|name| copy_run(&dir.path().join(name)));
    edit_column(&folders[2], "backend", "another one");
    let named = |name: &str, at: usize| format!("{name}={}", folders[at].display());
    let mut command = compare(&dir.path().join("cmp"));
    command.arg("--runs").args([named("x", 0), named("y", 1), named("y", 2)]);
    let said = run(&mut command);
    assert!(
        said.err.contains("is no round of the same side: backend is \"another one\""),
        "{}",
        said.err
    );
    // Nor are rounds that were timed in another way, which no row tells.
    for (at, (setting, value)) in [
        ("decode", json!("inside")),
        ("gpu", json!({"objects_together": 4})),
        ("warmup_runs", json!(7)),
    ]
    .into_iter()
    .enumerate()
    {
        let folders = ["d", "e", "f"].map(|name| copy_run(&dir.path().join(format!("{name}{at}"))));
        edit_sidecar(&folders[1], |sidecar| {
            sidecar["configuration"]["gpu"] = json!({"objects_together": 1});
        });
        edit_sidecar(&folders[2], |sidecar| sidecar["configuration"][setting] = value);
        let named = |name: &str, at: usize| format!("{name}={}", folders[at].display());
        let mut command = compare(&dir.path().join("cmp"));
        command.arg("--runs").args([named("x", 0), named("y", 1), named("y", 2)]);
        let said = run(&mut command);
        let told = format!("is no round of the same side: {setting}");
        assert!(said.err.contains(&told), "{setting}: {}", said.err);
    }
}

#[test]
fn usage_errors_say_what_to_type() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let (a, b) = (copy_run(&dir.path().join("a")), copy_run(&dir.path().join("b")));
    let said = run(compare(&out).arg("--runs").arg(&a));
    assert!(said.code == 2 && said.err.contains("needs two sides"), "{}", said.err);
    for folder in [&a, &b] {
        edit_column(folder, "precision", "fp16");
    }
    let said = run(compare(&out).arg("--runs").arg(&a).arg(&b));
    assert!(said.code == 2 && said.err.contains("--reference-run FOLDER"), "{}", said.err);
    let said = run(compare(&out).args(["--reference", "c"]).arg("--runs").arg(&a).arg(&b));
    assert!(said.code == 2 && said.err.contains("the sides are a, b"), "{}", said.err);
    let said = run(compare(&out).args(["--subject", "c"]).arg("--runs").arg(&a).arg(&b));
    assert!(said.code == 2 && said.err.contains("the sides are a, b"), "{}", said.err);
    let said = run(&mut compare(&out));
    assert!(said.code == 2 && said.err.contains("--models is needed"), "{}", said.err);
    let said = run(compare(&out).args(["--models", "edgetam_points", "--baselines", "jit"]));
    assert!(
        said.code == 2 && said.err.contains("eager, compile, reduce_overhead, vos_optimized"),
        "{}",
        said.err
    );
    let said = run(compare(&out).args(["--models", "yolo"]));
    assert!(said.code == 2 && said.err.contains("known tags are"), "{}", said.err);

    // With a reference of its own, fp16 is judged by fp16's limits.
    let reference = base().run.display().to_string();
    edit_masks(&b, |frames| frames.iter_mut().for_each(drop_a_pixel));
    let said =
        run(compare(&out).args(["--reference-run", &reference]).arg("--runs").arg(&a).arg(&b));
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.err);
    let found = read(&out.join("comparison.json"));
    assert_eq!(found["reference"], "run");
    assert_eq!(side(&found, "a")["equality"]["min_iou"], 1.0);
    let least = side(&found, "b")["equality"]["min_iou"].as_f64().unwrap();
    assert!(least < 1.0 && least > 0.99, "{least}");
}

/// Takes one pixel from the mask of a frame.
fn drop_a_pixel(frame: &mut serde_json::Value) {
    let rle: vos::rle::Rle = serde_json::from_value(frame["mask"].clone()).unwrap();
    let mut mask = rle.to_mask().unwrap();
    let (x, y) = mask.pixels().next().unwrap();
    mask.set(x, y, false);
    frame["mask"] = serde_json::to_value(vos::rle::Rle::compressed(&mask)).unwrap();
}

#[test]
fn empty_masks_prove_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (copy_run(&dir.path().join("a")), copy_run(&dir.path().join("b")));
    for folder in [&a, &b] {
        edit_masks(folder, |frames| frames.iter_mut().for_each(empty));
    }
    let said = run(compare(&dir.path().join("cmp")).arg("--runs").arg(&a).arg(&b));
    assert_eq!(said.code, 1);
    assert!(said.out.contains("NO PROOF"), "{}", said.out);
    assert!(said.out.contains("masks prove nothing: 0 of 16"), "{}", said.out);
    let found = read(&dir.path().join("cmp/comparison.json"));
    for name in ["a", "b"] {
        let found = side(&found, name);
        assert_eq!((&found["outcome"], &found["speed"]), (&"proves_nothing".into(), &json!(null)));
        assert_eq!(found["equality"]["both_empty"], 16);
        assert_eq!(found["equality"]["mean_iou"], 1.0);
    }
}

#[test]
fn flips_are_counted_with_their_margins() {
    let dir = tempfile::tempdir().unwrap();
    let said = changed(dir.path(), |run| {
        edit_passes(run, |pass| {
            let score = pass["frame_times"]["objectness"][3].as_f64().unwrap();
            pass["frame_times"]["objectness"][3] = (-score).into();
        });
    });
    assert_eq!(said.code, 0, "{}", said.err);
    let found = read(&dir.path().join("cmp/comparison.json"));
    let b = side(&found, "b");
    let flips = &b["objectness_flips"];
    assert_eq!((&flips["flipped"], &flips["frames"]), (&2.into(), &16.into()), "{flips}");
    let sidecar = read(&dir.path().join("a/sidecar.json"));
    let margin = sidecar["passes"][0]["frame_times"]["objectness"][3].as_f64().unwrap().abs();
    assert_eq!(flips["listed"][0]["margin"].as_f64().unwrap(), margin);
    assert_eq!(flips["listed"][0]["frame"], 3);
    assert!(said.out.contains("objectness differs on 2 of 16 frames"), "{}", said.out);
    let selected = &b["chosen_mask_flips"];
    assert_eq!((&selected["flipped"], &selected["frames"]), (&0.into(), &16.into()), "{selected}");
}

/// Sensors of a calm GPU on which another process was seen.
fn with_gpu(run: &Path, clock: f64) {
    edit_column(run, "device", "NVIDIA Test GPU");
    edit_passes(run, |pass| {
        pass["observed"] = json!({"seconds": 1.0, "readings": 10, "energy_j": 16.0, "other_processes": 1,
            "sm_clock_min_mhz": clock, "sm_clock_mean_mhz": clock, "sm_clock_max_mhz": clock, "limits": []});
    });
}

#[test]
fn own_runners_that_wait_are_no_other_process_and_clocks_must_agree() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("whole");
    let runs = [("a", "a/1", 1900.0), ("b", "b/1", 1700.0)];
    for (_, folder, clock) in runs {
        with_gpu(&copy_run(&out.join(folder)), clock);
    }
    let measured = |waiting: usize| {
        let entry = |(side, folder, _): (&str, &str, f64)| {
            json!({"model": "edgetam_mini_points", "side": side, "round": 1, "folder": folder,
                "started_unix_s": 0, "ended_unix_s": 9, "waiting": waiting})
        };
        let file = json!({"format": "segtrt comparison 1", "configuration": {}, "side_settings": {},
            "sides": ["a", "b"], "reference": "a", "runs": runs.map(entry), "missing": []});
        fs::write(out.join("measured.json"), file.to_string()).unwrap();
        let said = run(compare(&dir.path().join("cmp")).arg("--runs").arg(&out));
        assert_eq!(said.code, 0, "{}", said.err);
        read(&dir.path().join("cmp/comparison.json"))
    };
    let alone = measured(1)["models"][0]["ratios"][0]["verdict"].to_string();
    assert!(!alone.contains("other_process") && alone.contains("clocks_apart"), "{alone}");
    assert!(alone.contains("1900 MHz for a and 1700 MHz for b, 11 % apart"), "{alone}");
    let crowded = measured(0);
    assert!(crowded["models"][0]["ratios"][0]["verdict"].to_string().contains("other_process"));
    assert_eq!(crowded["measured_on"], json!(["1970-01-01"]));
    assert_eq!(side(&crowded, "a")["speed"]["energy_j_per_frame"], 2.0, "16 J over 8 frames");
}

#[test]
fn an_older_run_without_scores_still_compares() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("limited");
    bench(&base().split, &out)
        .args(["--save-masks", "--limit-videos", "1", "--max-clip-frames", "4"])
        .assert()
        .success();
    edit_passes(&out, |pass| {
        let times = pass["frame_times"].as_object_mut().unwrap();
        assert!(
            times.remove("objectness").is_some_and(|column| column.as_array().unwrap().len() == 4)
        );
        for name in ["predicted_iou", "chosen_mask", "iou_predictions"] {
            assert!(times.remove(name).is_some(), "{name}");
        }
    });
    let said = run(compare(&dir.path().join("cmp"))
        .arg("--runs")
        .arg(format!("one={}", out.display()))
        .arg(format!("two={}", out.display())));
    assert_eq!(said.code, 0, "{}", said.err);
    let found = side(&read(&dir.path().join("cmp/comparison.json")), "two");
    assert_eq!(found["objectness_flips"]["unknown"], "one and two did not store objectness");
    assert_eq!(found["chosen_mask_flips"]["unknown"], "one and two did not store chosen_mask");
    let text = fs::read_to_string(dir.path().join("cmp/comparison.md")).unwrap();
    assert!(!text.contains("candidate masks"), "{text}");
    assert!(said.out.contains("one_clip"), "{}", said.out);
}
