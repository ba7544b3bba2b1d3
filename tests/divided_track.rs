//! The exact track step in several plans: what is built and kept on the stand-in for TensorRT 8.6, which divides by itself, and with
//! TensorRT for RTX, which does so when it is told; and that a clip runs on the parts as on the whole.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use segtrt::bundle::Role;
use segtrt::engine::{EngineManifest, Precision};
use serde_json::Value;

use crate::bench_gpu::Setting;
use crate::build_engines::{build, engine_dir, rtx};
use crate::build_line::Yard;
use crate::selftest::fakes::{Engines, shared};
use crate::support::{column, require_onnxruntime};

const EXACT: [(Role, &str); 4] =
    [(Role::Encoder, "ok"), (Role::Prompt, "ok"), (Role::Track, "ok"), (Role::Memory, "ok")];

/// File and status of each row, as "track_0.plan 1/4 built".
fn rows(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or("whole").to_owned();
    rows.iter().map(|row| ["file", "part", "status"].map(|key| text(row, key)).join(" ")).collect()
}

fn parts(of: usize, status: &str) -> Vec<String> {
    (0..of).map(|n| format!("track_{n}.plan {}/{of} {status}", n + 1)).collect()
}

/// Names and numbers of profiles in the manifest, which must be those of the files.
fn plans(folder: &Path) -> Vec<(String, usize)> {
    let manifest = EngineManifest::read(folder).unwrap().unwrap();
    let plans = manifest.plans.iter();
    let plans: Vec<(String, usize)> =
        plans.map(|plan| (plan.file.clone(), plan.settings.profiles.len())).collect();
    let mut named: Vec<String> = plans.iter().map(|(file, _)| file.clone()).collect();
    let files = fs::read_dir(folder).unwrap();
    let files = files.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut files: Vec<String> = files.filter(|name| name != "engine.json").collect();
    named.sort();
    files.sort();
    assert_eq!(files, named, "no plan without a record, no record without a plan");
    plans
}

/// A new division's records stand behind those that were there.
fn sorted(mut plans: Vec<(String, usize)>) -> Vec<(String, usize)> {
    plans.sort();
    plans
}

fn tracks(of: usize, each: usize) -> Vec<(String, usize)> {
    (0..of).map(|n| (format!("track_{n}.plan"), each)).collect()
}

#[test]
fn tensorrt_8_gets_four_profiles_a_plan_and_each_plan_is_kept_by_itself() {
    let Some(yard) = Yard::new() else { return };
    let track = || yard.build("track", "");
    assert_eq!(rows(&mut track()), parts(4, "built"));
    assert_eq!(plans(&yard.folder()), tracks(4, 4));
    let manifest = EngineManifest::read(&yard.folder()).unwrap().unwrap();
    let first: Vec<&str> = manifest
        .plans_of(Role::Track)
        .map(|plan| plan.settings.profiles[0].label.as_str())
        .collect();
    let memories = |n: usize| format!("1 object, {n} memories, {n} pointers");
    assert_eq!(first[0], "1 object, 1 memory, 1 pointer");
    assert_eq!(first[1], memories(5));
    assert_eq!(first[3], "1 object, 7 memories, 13 pointers");
    for part in 0..4 {
        let log = yard.path(&format!("logs/edgetam_mini_256_fp32_track_{part}.log"));
        assert!(log.is_file(), "each has a log of its own: {}", log.display());
    }
    assert_eq!(rows(&mut track()), parts(4, "up_to_date"));
    assert_eq!(rows(track().arg("--force")), parts(4, "built"));

    // Under each cap as many, in a folder of their own.
    let swept = [parts(4, "built"), parts(4, "built")].concat();
    assert_eq!(rows(track().args(["--sweep-workspace", "64,32"])), swept);

    // A damaged part costs itself alone.
    fs::write(yard.folder().join("track_2.plan"), "damaged").unwrap();
    let mut expected = parts(4, "up_to_date");
    expected[2] = "track_2.plan 3/4 built".into();
    assert_eq!(rows(&mut track()), expected);
    assert_eq!(plans(&yard.folder()), tracks(4, 4));

    // What a stopped build did not come to lies in no other plan.
    let mut torn = EngineManifest::read(&yard.folder()).unwrap().unwrap();
    torn.plans.retain(|plan| plan.file != "track_3.plan");
    torn.write(&yard.folder()).unwrap();
    let dry = track().arg("--dry-run").assert().success().get_output().stdout.clone();
    let dry: Value = serde_json::from_slice(&dry).unwrap();
    assert_eq!(
        (&dry["plans"][2]["why"], &dry["plans"][3]["why"]),
        (&Value::Null, &"not built yet".into())
    );
}

#[test]
fn another_division_replaces_the_old_one_once_it_is_there() {
    let Some(yard) = Yard::new() else { return };
    let track = |most: &str, how: &str| {
        let mut command = yard.build("track,prompt", how);
        command.args(["--profiles-per-plan", most]);
        command
    };
    // The prompts' two stay together however few are asked for.
    let prompt = |status: &str| vec![format!("prompt.plan whole {status}")];
    let whole = |status: &str| vec![format!("track.plan whole {status}")];
    let folder = || plans(&yard.folder());
    let with_prompt =
        |tracks: Vec<(String, usize)>| [tracks, vec![("prompt.plan".into(), 2)]].concat();
    assert_eq!(rows(&mut track("16", "")), [whole("built"), prompt("built")].concat());
    assert_eq!(folder(), with_prompt(vec![("track.plan".into(), 16)]));

    // A folder of the time before parts is one of these; it says why it is not enough, and is taken as it is where it is.
    let mut dry = yard.build("track", "");
    let dry: Value =
        serde_json::from_slice(&dry.arg("--dry-run").assert().success().get_output().stdout)
            .unwrap();
    assert_eq!(dry["plans"][3]["why"], "its profiles are divided otherwise in track.plan");
    assert_eq!(
        (&dry["plans"][3]["part"], &dry["plans"][3]["profiles"]),
        (&"4/4".into(), &4.into())
    );
    assert_eq!(rows(&mut track("100", "")), [whole("up_to_date"), prompt("up_to_date")].concat());

    // Builds that fail leave what was there, and it is still named.
    assert_eq!(
        rows(&mut track("4", "track:parse")),
        [parts(4, "failed"), prompt("up_to_date")].concat()
    );
    assert_eq!(folder(), with_prompt(vec![("track.plan".into(), 16)]));

    let said = track("4", "").assert().success();
    said.stderr(contains("track.plan removed from").and(contains("lie in other plans now")));
    assert_eq!(sorted(folder()), sorted(with_prompt(tracks(4, 4))));
    assert_eq!(rows(&mut track("8", "")), [parts(2, "built"), prompt("up_to_date")].concat());
    assert_eq!(sorted(folder()), sorted(with_prompt(tracks(2, 8))));

    // A file that no record names, as a crash between record and file leaves it, goes with the next build.
    fs::write(yard.folder().join("track_7.plan"), "left").unwrap();
    fs::write(yard.folder().join("track.plan"), "left").unwrap();
    assert_eq!(rows(&mut track("8", "")), [parts(2, "up_to_date"), prompt("up_to_date")].concat());
    assert_eq!(folder().len(), 3);
    track("0", "").assert().code(2).stderr(contains("--profiles-per-plan"));
}

#[test]
fn tensorrt_for_rtx_builds_the_parts_that_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = rtx() else { return };
    let track = |flags: &[&str]| {
        let mut command = build(dir.path(), 86);
        command.args(["--graphs", "track", "--json"]).args(flags);
        command
    };
    let told = |most: &'static str| track(&["--profiles-per-plan", most]);
    let dry = track(&["--dry-run"]).assert().success().get_output().stdout.clone();
    let dry: Value = serde_json::from_slice(&dry).unwrap();
    assert_eq!(dry["plans"].as_array().unwrap().len(), 1, "it builds fast: all in one");
    assert_eq!(
        (&dry["plans"][0]["profiles"], &dry["plans"][0]["part"]),
        (&16.into(), &Value::Null)
    );

    // Its builds take long; how another division replaces this one is tested on stand-ins.
    assert_eq!(rows(&mut told("8")), parts(2, "built"));
    let folder = engine_dir(dir.path());
    assert_eq!(plans(&folder), tracks(2, 8));
    assert_eq!(rows(&mut told("8")), parts(2, "up_to_date"));
}

#[test]
fn a_clip_on_the_parts_has_the_cpus_masks_and_a_lost_part_is_told() {
    let roles = EXACT.map(|(role, _)| role);
    let Some(setting) = Setting::new(1, 24, &roles) else { return };
    setting.cpu("cpu").assert().success();
    let expected = setting.masks("cpu");
    let engines = Engines::new(&setting.path("engines"));
    for most in [4, 5, 1] {
        let dir = engines.write_live_divided(Precision::Fp32, &EXACT, Some(most));
        let manifest = EngineManifest::read(&dir).unwrap().unwrap();
        assert_eq!(manifest.plans_of(Role::Track).count(), 16_usize.div_ceil(most));
        for (out, flags) in [
            ("latency", &["--mode", "latency"][..]),
            ("throughput", &["--mode", "throughput", "--encode-ahead", "4"]),
        ] {
            for seed in ["0", "3"] {
                let mut command = setting.gpu(out);
                command.args(flags).env("FAKE_CUDA_SEED", seed).assert().success();
                assert!(setting.masks(out) == expected, "{most} {out}, seed {seed}");
            }
        }
    }
    // Every plan that ran is named with its hash.
    let dir = engines.write_live_divided(Precision::Fp32, &EXACT, Some(4));
    setting.gpu("named").assert().success();
    let sidecar = fs::read_to_string(setting.path("named/sidecar.json")).unwrap();
    let manifest = EngineManifest::read(&dir).unwrap().unwrap();
    for plan in manifest.plans_of(Role::Track) {
        assert!(sidecar.contains(&plan.file) && sidecar.contains(&plan.sha256), "{}", plan.file);
    }

    let mut torn = manifest;
    torn.plans.retain(|plan| plan.file != "track_2.plan");
    torn.write(&dir).unwrap();
    setting.gpu("torn").assert().code(1);
    let reason = &setting.column("torn", "reason")[0];
    let words = "the exact track step is not whole: 4 of its fill levels are in no plan (1 object, 7 memories, 9 pointers, …)";
    assert!(reason.contains(words) && reason.contains("segtrt build-engines"), "{reason}");
}

#[test]
fn the_self_test_names_every_profile_of_every_part() {
    let Some(fakes) = shared() else { return };
    let root = tempfile::tempdir().unwrap();
    let engines = Engines::new(root.path());
    let dir = engines.write_live_divided(Precision::Fp32, &EXACT, Some(4));
    let csv = root.path().join("rows.csv");
    let tested = || {
        let mut command = fakes.selftest(root.path());
        command.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime()).arg("--csv").arg(&csv);
        command
    };
    let said = tested().assert().success().stdout(contains("track_3")).stdout(contains("clip on"));
    said.stdout(contains("0 failed"));
    let columns = ["role", "plan", "profile", "case", "verdict"].map(|name| column(&csv, name));
    let track: Vec<usize> = (0..columns[0].len()).filter(|at| columns[0][*at] == "track").collect();
    let mut cases: Vec<[&str; 3]> =
        track.iter().map(|at| [1, 2, 3].map(|column| columns[column][*at].as_str())).collect();
    cases.dedup();
    assert_eq!(cases.len(), 16, "{cases:?}");
    for (at, [plan, profile, _]) in cases.iter().enumerate() {
        assert_eq!((*plan, *profile), (&*format!("track_{}.plan", at / 4), &*(at % 4).to_string()));
    }
    assert_eq!(cases[15][2], "1 object, 7 memories, 16 pointers");
    assert!(track.iter().all(|at| columns[4][*at] == "passed"));

    // A damaged part costs its own rows; a lost one the clip, which says so.
    fs::write(dir.join("track_1.plan"), "damaged").unwrap();
    let mut manifest = EngineManifest::read(&dir).unwrap().unwrap();
    manifest.plans.retain(|plan| plan.file != "track_3.plan");
    manifest.write(&dir).unwrap();
    let told = tested().assert().code(1).stderr(contains("it has not all plans of a model"));
    told.stdout(contains("FAILED edgetam_mini_256_fp32 track_1: "));
    let columns = ["plan", "verdict"].map(|name| column(&csv, name));
    let of = |plan: &str| -> Vec<&str> {
        let at = (0..columns[0].len()).filter(|at| columns[0][*at] == plan);
        at.map(|at| columns[1][at].as_str()).collect()
    };
    assert_eq!(of("track_1.plan"), ["failed"]);
    assert_eq!(of("track_0.plan"), ["passed"; 16]);
    assert_eq!(of("track_2.plan"), ["passed"; 16]);
}
