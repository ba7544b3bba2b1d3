//! The sides in turn, every run kept, nothing measured twice, and what a failing side costs.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::shared::{FRAMES, Said, base, json, measure, run, side};
use crate::support::column;

/// Model, side and round of every run in the order of measuring.
pub fn order(measured: &Value) -> Vec<String> {
    let runs = measured["runs"].as_array().unwrap();
    runs.iter().map(|run| format!("{} {}", run["side"].as_str().unwrap(), run["round"])).collect()
}

#[test]
fn the_sides_are_measured_in_turn_and_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let slower = ["--runner-arg=--fake-slower", "--runner-arg=3"];
    let Said { code, out: table, err } = run(measure(&out, "eager,compile", "2").args(slower));
    assert_eq!(code, 0, "{err}\n{table}");
    let measured = json(&out.join("measured.json"));
    let expected = ["cpu 1", "eager 1", "compile 1", "cpu 2", "eager 2", "compile 2"];
    assert_eq!(order(&measured), expected);
    assert_eq!(measured["reference"], "eager", "PyTorch in eager mode and fp32 is a side already");
    let waiting: Vec<u64> = measured["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["waiting"].as_u64().unwrap())
        .collect();
    assert_eq!(waiting, [2, 1, 1, 2, 1, 0], "eager is gone when compile has its last round");

    let comparison = json(&out.join("comparison.json"));
    assert_eq!((&comparison["subject"], &comparison["interleaved"]), (&"cpu".into(), &true.into()));
    for (name, outcome) in [("cpu", "same"), ("eager", "reference"), ("compile", "same")] {
        let found = side(&comparison, name);
        assert_eq!(found["outcome"], outcome, "{found}");
        assert_eq!(found["equality"]["min_iou"], 1.0);
        assert_eq!(found["equality"]["frames"], 2 * FRAMES);
        assert_eq!(found["speed"]["frames"], 4 * FRAMES);
        assert_eq!(found["speed"]["round_fps"].as_array().unwrap().len(), 2);
    }
    let fps = |name| side(&comparison, name)["speed"]["fps"].as_f64().unwrap();
    let ratio = &comparison["models"][0]["ratios"][0];
    let times = ratio["times_as_fast"]["ratio"].as_f64().unwrap();
    assert!((times - fps("cpu") / fps("eager")).abs() < 1e-9, "{ratio}");
    let interval = &ratio["times_as_fast"]["interval"];
    assert!(interval["low"].as_f64().unwrap() <= times, "{interval}");
    assert!(interval["high"].as_f64().unwrap() >= times, "{interval}");
    // The two baselines are one copied run: their speeds are equal to the last bit.
    assert_eq!(fps("eager"), fps("compile"));
    assert!(ratio["sentence"].as_str().unwrap().starts_with("cpu fp32 is "));
    assert!(table.contains("times as fast as eager fp32"), "{table}");

    assert_eq!(column(&out.join("comparison.csv"), "masks"), ["same", "reference", "same"]);
    let drift = out.join("comparison_drift.csv");
    assert_eq!(column(&drift, "frame").len(), 2 * FRAMES, "cpu and compile, not the reference");
    assert!(column(&drift, "iou").iter().all(|iou| iou == "1"));
    let text = fs::read_to_string(out.join("comparison.md")).unwrap();
    for part in ["segtrt compare --split-dir", "| edgetam_mini_points | cpu | fp32 |", "Machine: "]
    {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let picture =
        out.join(side(&comparison, "cpu")["equality"]["worst"]["picture"].as_str().unwrap());
    let reader = png::Decoder::new(std::io::BufReader::new(fs::File::open(picture).unwrap()));
    let size = reader.read_info().unwrap().info().size();
    assert_eq!(size, (4 * 160 + 12, 120), "four frames of 160x120 and three gaps of four pixels");

    // Again: nothing is measured, and the judgement is the same.
    let again = run(measure(&out, "eager,compile", "2").args(slower).arg("--json"));
    assert_eq!(again.code, 0, "{}", again.err);
    assert_eq!(json(&out.join("measured.json"))["runs"], measured["runs"]);
    assert!(!again.err.contains("took") && !again.err.contains("building"), "{}", again.err);
    let mut printed: Value = serde_json::from_str(&again.out).unwrap();
    printed["command"] = comparison["command"].clone();
    assert_eq!(printed, comparison);

    // A round more, and one that was taken away.
    fs::remove_dir_all(out.join("runs/edgetam_mini_points/cpu/round_2")).unwrap();
    let more = run(measure(&out, "eager,compile", "3").args(slower));
    assert_eq!(more.code, 0, "{}", more.err);
    let now = json(&out.join("measured.json"));
    let added = order(&now)[5..].to_vec();
    assert_eq!(added, ["cpu 2", "cpu 3", "eager 3", "compile 3"]);

    // The whole folder is judged where nothing can be measured.
    let mut carried = super::shared::compare(&dir.path().join("elsewhere"));
    let carried = run(carried.arg("--runs").arg(&out));
    assert_eq!(carried.code, 0, "{}", carried.err);
    let there = json(&dir.path().join("elsewhere/comparison.json"));
    assert_eq!((&there["reference"], &there["interleaved"]), (&"eager".into(), &true.into()));
    assert_eq!(side(&there, "compile")["rounds"], 3);

    // A side that is added when the others have their rounds behind them was not measured in turn with them.
    let late = run(measure(&out, "eager,compile,vos_optimized", "3").args(slower));
    assert_eq!(late.code, 0, "{}", late.err);
    assert_eq!(json(&out.join("comparison.json"))["interleaved"], false);
    assert!(late.out.contains("note: not_in_turn"), "{}", late.out);

    // Other settings do not go into the same folder.
    let other = run(measure(&out, "eager,compile", "3").args(["--max-clip-frames", "4"]));
    assert_eq!(other.code, 1);
    assert!(other.err.contains("max_clip_frames was 0 and is 4"), "{}", other.err);
    assert!(other.err.contains("--out-dir"), "{}", other.err);
    let other = run(measure(&out, "eager,compile", "3").args(["--runner-arg=--tf32"]));
    assert!(other.err.contains("compile: args was"), "{}", other.err);
}

#[test]
fn a_side_that_fails_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let bad = ["--runner-arg=--fake-fail", "--runner-arg=compile"];
    let worse = ["--runner-arg=--fake-die", "--runner-arg=vos_optimized"];
    let said = run(measure(&out, "eager,compile,vos_optimized", "2").args(bad).args(worse));
    assert_eq!(said.code, 1, "{}", said.err);
    let comparison = json(&out.join("comparison.json"));
    assert_eq!(side(&comparison, "cpu")["outcome"], "same");
    assert!(side(&comparison, "cpu")["speed"]["fps"].as_f64().unwrap() > 0.0);
    for (name, why) in [
        ("compile", "the compiler found no GPU; use another machine"),
        ("vos_optimized", "exit status: 7: Segmentation fault, as it were; see "),
    ] {
        let found = side(&comparison, name);
        assert_eq!(found["outcome"], "not_available");
        assert!(found["why"].as_str().unwrap().contains(why), "{found}");
        assert!(found["speed"].is_null() && found["withheld"].is_null());
        assert!(said.out.contains(why), "{}", said.out);
    }
    assert!(comparison["models"][0]["ratios"][1]["times_as_fast"].is_null());
    let measured = json(&out.join("measured.json"));
    assert_eq!(order(&measured), ["cpu 1", "eager 1", "cpu 2", "eager 2"]);

    // Put right, only what is missing is measured.
    let said = run(&mut measure(&out, "eager,compile", "2"));
    // The settings of PyTorch's sides are others now, and that is not mixed with what is there.
    assert!(said.err.contains("eager: args was"), "{}", said.err);
}

#[test]
fn a_runner_that_cannot_start_and_a_backend_that_is_not_there_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let said = run(measure(&out, "eager", "1").args(["--python", "/no/such/python"]));
    assert_eq!(said.code, 1);
    assert!(said.err.contains("nothing can be compared"), "{}", said.err);
    assert_eq!(said.err.matches("cannot start /no/such/python").count(), 1, "{}", said.err);
    assert!(said.err.contains("Finished rounds are kept in"), "{}", said.err);
    let out = dir.path().join("gpu");
    let mut command = super::shared::compare(&out);
    command.args([
        "--models",
        "edgetam_mini_points",
        "--sides",
        "cpu,ort-cuda",
        "--precision",
        "fp32",
    ]);
    command.args(["--baselines", "", "--rounds", "1", "--warmup-runs", "0"]);
    let said = run(&mut command);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.err.contains("ort-cuda: not available: "), "{}", said.err);
    assert!(said.err.to_lowercase().contains("cuda"), "{}", said.err);
}

/// Rounds of segtrt's side alone answer no question, and what stops one baseline stops the next.
#[test]
fn a_comparison_ends_when_its_last_baseline_has_failed() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let eager_fails = ["--runner-arg=--fake-fail=eager", "--reference", "cpu"];
    let said = run(measure(&out, "eager", "2").args(eager_fails));
    assert_eq!(said.code, 1, "{}", said.err);
    let told = "points: no baseline of it is left: eager: the compiler found no GPU";
    assert!(said.err.contains("nothing can be compared") && said.err.contains(told));
    assert_eq!(said.err.matches("found no GPU").count(), 1, "{}", said.err);
    assert!(!out.join("runs/edgetam_mini_points/cpu").exists(), "nothing was measured");

    // Rounds of an earlier call are there still, and are judged.
    let out = dir.path().join("kept");
    let good = run(measure(&out, "eager", "1").args(["--reference", "cpu"]));
    assert_eq!(good.code, 0, "{}", good.err);
    let broken = ["--python", "/no/such/python", "--reference", "cpu"];
    let said = run(measure(&out, "eager", "2").args(broken));
    assert_eq!(said.code, 1, "{}", said.err);
    assert_eq!(said.err.matches("cannot start /no/such/python").count(), 2, "{}", said.err);
    assert_eq!(order(&json(&out.join("measured.json"))), ["cpu 1", "eager 1"]);
    let told = "cpu: only 1 of its 2 rounds could be measured: no baseline of it is left";
    assert!(said.err.contains(told), "{}", said.err);
}

#[test]
fn restarted_runners_wait_for_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let said = run(measure(&out, "eager", "2").args(["--restart-runners", "--measure-only"]));
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(!out.join("comparison.json").exists(), "--measure-only judges nothing");
    let measured = json(&out.join("measured.json"));
    assert_eq!(order(&measured), ["cpu 1", "eager 1", "cpu 2", "eager 2"]);
    assert!(measured["runs"].as_array().unwrap().iter().all(|run| run["waiting"] == 0));
    assert!(out.join("runs/edgetam_mini_points/eager/from_round_2/round_0").is_dir());
    assert!(said.err.matches("building and warming up").count() == 2, "{}", said.err);
}

/// What a compiler chooses by time it must choose on a GPU that does nothing else.
#[test]
fn one_side_builds_and_compiles_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    // Each fails if it begins before the one before it is ready; one fails anyhow, which costs only itself.
    let fakes = ["--fake-alone", "--fake-fail=vos_optimized", "--fake-compile-s=1.5"];
    let mut command = measure(&out, "eager,compile,vos_optimized", "2");
    let said = run(command.args(fakes.map(|word| format!("--runner-arg={word}"))));
    assert_eq!(said.code, 1, "{}", said.err);
    let measured = json(&out.join("measured.json"));
    let expected = ["cpu 1", "eager 1", "compile 1", "cpu 2", "eager 2", "compile 2"];
    assert_eq!(order(&measured), expected);
    let at = |words: &str| said.err.find(words).unwrap_or_else(|| panic!("{words}: {}", said.err));
    assert!(at("points vos_optimized: building") < at("points cpu: round 1 of"));
    let comparison = json(&out.join("comparison.json"));
    let why = side(&comparison, "vos_optimized")["why"].to_string();
    assert!(why.contains("the compiler found no GPU"), "{why}");
    let speed = &side(&comparison, "compile")["speed"];
    assert!(speed["setup_ms"].as_f64().is_some() && speed["compile_s"] == 1.5, "{speed}");
}

#[test]
fn a_reference_that_is_no_side_runs_before_others_start() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let mut command = measure(&out, "eager,compile", "1");
    let said = run(command.args(["--baseline-precision", "fp16"]));
    assert_eq!(said.code, 0, "{}", said.err);
    let at = |words: &str| said.err.find(words).unwrap_or_else(|| panic!("{words}: {}", said.err));
    assert!(at("points eager-fp32: round 1 of") < at("points eager: building"));
    assert!(at("points compile: building") < at("points cpu: round 1 of"));
}

/// Each of PyTorch's sides in a precision of its own, and the reference in fp32 beside them.
#[test]
fn baselines_have_precisions_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    // What all sides are told changes none that says what it is.
    let gpu = ["--device", "cuda", "--runner-arg=--tf32"];
    let said = run(measure(&out, "eager:fp16,compile:fp16,compile:tf32", "1").args(gpu));
    assert_eq!(said.code, 0, "{}", said.err);
    let measured = json(&out.join("measured.json"));
    assert_eq!(
        order(&measured),
        ["eager-fp32 1", "cpu 1", "eager 1", "compile-fp16 1", "compile-tf32 1"]
    );
    let comparison = json(&out.join("comparison.json"));
    for (name, precision) in
        [("cpu", "fp32"), ("eager", "fp16"), ("compile-fp16", "fp16"), ("compile-tf32", "tf32")]
    {
        assert_eq!(side(&comparison, name)["precision"], precision);
        assert_eq!(side(&comparison, name)["outcome"], "same");
    }
    assert!(said.out.contains("compile-tf32"), "{}", said.out);
    let tf32_of = |out: &Path, side: &str| {
        let run = out.join("runs/edgetam_mini_points").join(side).join("from_round_1/round_0");
        json(&run.join("sidecar.json"))["configuration"]["tf32"].clone()
    };
    for (side, expected) in
        [("eager-fp32", false), ("eager", false), ("compile-fp16", false), ("compile-tf32", true)]
    {
        assert_eq!(tf32_of(&out, side), expected, "{side}");
    }

    // An eager side in fp32 is the reference, and one in TF32 beside it is not.
    let out = dir.path().join("eager");
    let gpu = ["--device", "cuda", "--runner-arg=--preprocess=cpu"];
    let said = run(measure(&out, "eager:tf32,eager:fp32", "1").args(gpu));
    assert_eq!(said.code, 0, "{}", said.err);
    let measured = json(&out.join("measured.json"));
    assert_eq!(measured["reference"], "eager-fp32");
    assert_eq!(order(&measured), ["cpu 1", "eager-tf32 1", "eager-fp32 1"]);
    assert_eq!([tf32_of(&out, "eager-tf32"), tf32_of(&out, "eager-fp32")], [true, false]);

    // One that resizes on the GPU is no reference, and not to be mixed up with it.
    let out = dir.path().join("resized");
    let resized = ["--runner-arg=--preprocess=gpu", "--baseline-precision", "tf32"];
    let said = run(measure(&out, "eager,eager:fp32", "1").args(resized).args(&gpu[..2]));
    assert_eq!(said.code, 0, "{}", said.err);
    let measured = json(&out.join("measured.json"));
    assert_eq!(measured["reference"], "reference-eager-fp32");
    assert_eq!(order(&measured), ["reference-eager-fp32 1", "cpu 1", "eager 1", "eager-fp32 1"]);
    assert_eq!([tf32_of(&out, "eager"), tf32_of(&out, "reference-eager-fp32")], [true, false]);
}

#[test]
fn a_mismatch_withholds_the_speed_everywhere_but_under_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let damage = ["--runner-arg=--fake-damage", "--runner-arg=compile"];
    let slower = ["--runner-arg=--fake-slower", "--runner-arg=0.125"];
    let said = run(measure(&out, "eager,compile", "2").args(damage).args(slower));
    assert_eq!(said.code, 1, "{}", said.err);
    let comparison = json(&out.join("comparison.json"));
    let bad = side(&comparison, "compile");
    assert_eq!(bad["outcome"], "mismatch");
    assert!(bad["speed"].is_null());
    let withheld = bad["withheld"]["not_to_be_published"]["fps"].as_f64().unwrap();
    assert_eq!(withheld, side(&comparison, "eager")["speed"]["fps"].as_f64().unwrap());
    assert_eq!(bad["equality"]["worst"]["frame"], FRAMES - 1);
    assert_eq!(bad["equality"]["min_iou"], 0.0);
    assert!(bad["why"].as_str().unwrap().contains("lowest IoU 0.0000"), "{bad}");
    let ratio = &comparison["models"][0]["ratios"][1];
    assert!(ratio["times_as_fast"].is_null() && !ratio["withheld"].is_null(), "{ratio}");
    let line = said.out.lines().find(|line| line.contains(" compile ")).unwrap();
    assert!(line.contains("MISMATCH") && !line.contains(&format!("{withheld:.2}")), "{line}");
    assert!(said.out.contains("compile MISMATCH: lowest IoU 0.0000"), "{}", said.out);
    let rows = column(&out.join("comparison.csv"), "fps");
    assert!(rows[2].is_empty() && !rows[1].is_empty(), "{rows:?}");
    let drift = &comparison["drift_curves"].as_array().unwrap()[1];
    assert_eq!((&drift["side"], &drift["iou"][FRAMES - 1]), (&"compile".into(), &0.0.into()));
    // What was copied is untouched.
    assert!(base().run.join("sidecar.json").is_file());
}

#[test]
fn a_folder_can_be_the_reference_then_and_later() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let said = run(measure(&out, "eager", "1").arg("--reference-run").arg(&base().run));
    assert_eq!(said.code, 0, "{}", said.err);
    let comparison = json(&out.join("comparison.json"));
    assert_eq!(comparison["reference"], "run");
    assert_eq!(side(&comparison, "eager")["outcome"], "same");
    let mut later = super::shared::compare(&dir.path().join("later"));
    let later = run(later.arg("--runs").arg(&out));
    assert_eq!(later.code, 0, "{}", later.err);
    assert_eq!(json(&dir.path().join("later/comparison.json"))["reference"], "run");
}

/// Further arguments do not make a side something else than its name says.
#[test]
fn what_compare_says_itself_is_no_further_argument() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    for (further, flag) in [
        ("--runner-arg=--mode=eager", "--mode"),
        ("--runner-arg=--precision", "--precision"),
        ("--bench-arg=--precision=fp32", "--precision"),
        ("--runner-arg=--warmup-runs=0", "--warmup-runs"),
    ] {
        let said = run(measure(&out, "compile", "1").arg(further));
        let told = format!("compare itself gives {flag} to each side");
        assert!(said.code == 2 && said.err.contains(&told), "{}", said.err);
    }
    // Nor is a side of another precision the reference.
    for (sides, name, precision) in
        [("eager:fp16", "eager", "fp16"), ("compile:tf32", "compile", "tf32")]
    {
        let gpu = ["--reference", name, "--device", "cuda"];
        let said = run(measure(&out, sides, "1").args(gpu));
        let told = format!("--reference {name}: it runs in {precision}");
        assert!(said.code == 2 && said.err.contains(&told), "{}", said.err);
    }
    assert!(!out.exists());
}

/// A reference that could not be measured is not there, whatever folder is called so where the
/// command is typed.
#[test]
fn a_folder_of_the_same_name_is_no_reference() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    super::shared::copy_run(&dir.path().join("eager-fp32"));
    let mut command = measure(&out, "compile", "1");
    command.current_dir(dir.path()).arg("--runner-arg=--fake-fail").arg("--runner-arg=eager");
    let said = run(&mut command);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.err.contains("nothing can be compared"), "{}{}", said.out, said.err);
}
