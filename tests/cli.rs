//! What the command line says and how it ends.

use predicates::str::contains;

use crate::support::segtrt;

#[test]
fn help_names_every_subcommand_and_no_internal_one() {
    let output = segtrt().arg("--help").output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

#[test]
fn bench_help_is_complete() {
    let output = segtrt().args(["bench", "-h"]).env("COLUMNS", "100").output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

#[test]
fn build_engines_help_is_complete() {
    let output = segtrt().args(["build-engines", "-h"]).env("COLUMNS", "100").output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

#[test]
fn a_slip_is_answered_by_what_was_meant_and_never_by_an_internal_command() {
    let advice = |words: &[&str]| {
        let output = segtrt().args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let bench = advice(&["benhc"]);
    assert!(bench.contains("'bench'") && !bench.contains("worker"), "{bench}");
    let flag = advice(&["bench", "--spit-dir", "x"]);
    assert!(flag.contains("'--split-dir'"), "{flag}");
    assert!(advice(&["docter"]).contains("'doctor'"));
}

/// As shells leave it behind `VARIABLE= segtrt …`.
#[test]
fn an_empty_environment_variable_counts_as_unset() {
    let mut bench = segtrt();
    bench.args(["bench", "--split-dir", "nowhere", "--models", "edgetam"]);
    let error = bench.env("SEGTRT_ONNX_DIR", "").output().unwrap().stderr;
    let error = String::from_utf8(error).unwrap();
    assert!(error.contains("nowhere") && !error.contains("--onnx-dir <"), "{error}");
}

#[test]
fn wrong_usage_exits_with_two() {
    segtrt().assert().code(2);
    segtrt().arg("bnech").assert().code(2);
    segtrt().args(["bench", "--profile-runs", "0"]).assert().code(2);
    segtrt().args(["bench", "--threads", "100000"]).assert().code(2);
    segtrt()
        .args(["bench", "--precision", "bf16"])
        .assert()
        .code(2)
        .stderr(contains("there are no bf16 graphs"));
    segtrt()
        .args(["synth", "--out", "x", "--size", "640"])
        .assert()
        .code(2)
        .stderr(contains("write for example 640x360"));
    segtrt()
        .args(["synth", "--out", "x", "--videos", "0"])
        .assert()
        .code(2)
        .stderr(contains("--videos is 0; expected at least 1"));
}

#[test]
fn dead_flags_of_the_predecessor_are_taken_with_a_warning() {
    segtrt()
        .args([
            "bench",
            "--split_dir",
            "/nowhere",
            "--weights_dir",
            ".",
            "--compile_models",
            "--max_frames_in_mem",
            "600",
        ])
        .assert()
        .code(1)
        .stderr(contains("[WARN] --weights-dir does nothing here"))
        .stderr(contains("[WARN] --compile-models does nothing here"))
        .stderr(contains("[WARN] --max-frames-in-mem does nothing here"))
        .stderr(contains("/nowhere does not exist"));
}

/// Dropped without a word, they left rows that looked like what was asked for.
#[test]
fn flags_that_only_tensorrt_obeys_are_refused_with_onnx_runtime() {
    for (flags, named) in [
        (&["--mode", "throughput"][..], "--mode throughput"),
        (&["--objects-together", "2"], "--objects-together"),
        (&["--object-streams"], "--object-streams"),
        (&["--encode-batch", "2"], "--encode-batch"),
        (&["--repeat-clip", "4"], "--repeat-clip"),
        (&["--track-variant", "per-fill-level"], "--track-variant"),
    ] {
        segtrt()
            .args(["bench", "--split-dir", "/nowhere"])
            .args(flags)
            .assert()
            .code(2)
            .stderr(contains(format!("{named} needs --backend tensorrt")));
    }
    segtrt()
        .args(["bench", "--split-dir", "/nowhere", "--mode", "latency", "--encode-ahead", "4"])
        .assert()
        .code(1)
        .stderr(contains("/nowhere does not exist"));
}

/// The Python packages are installed without Cargo.toml.
#[test]
fn the_python_side_has_the_programs_version() {
    let text = std::fs::read_to_string("onnx/segexport/__init__.py").unwrap();
    let version = concat!("__version__ = \"", env!("CARGO_PKG_VERSION"), "\"");
    assert!(text.lines().any(|line| line == version), "no line {version}");
}
