//! The self-test: without a GPU, and on stand-ins for driver and TensorRT from end to end.

mod door;
mod fakes;

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use segtrt::bundle::Role;
use segtrt::engine::Precision;
use segtrt::gpu::{Gpu, GpuError};

use crate::support::{column, read_csv, segtrt};
use fakes::{Engines, Fakes, compile};

#[test]
fn help_has_every_flag_and_an_example() {
    let output = segtrt().args(["selftest", "-h"]).env("COLUMNS", "100").output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

#[test]
fn wrong_values_are_usage_errors() {
    for (flag, value) in [("--precision", "int8"), ("--max-error", "-1"), ("--runs", "0")] {
        segtrt().args(["selftest", &format!("{flag}={value}")]).assert().code(2);
    }
}

#[test]
fn without_a_driver_one_sentence_says_what_to_install() {
    if !matches!(Gpu::open(0), Err(GpuError::NoDriver)) {
        eprintln!("SKIPPED: this machine has a CUDA driver");
        return;
    }
    segtrt().arg("selftest").assert().code(1).stdout("").stderr(
        "Error: no GPU can be used: the CUDA driver libcuda.so.1 was not found; install the NVIDIA driver \
         (JetPack on a Jetson), or start the container with --gpus all\n",
    );
}

#[test]
fn a_driver_without_a_device_or_without_its_functions_is_no_panic() {
    let Some(fakes) = Fakes::new() else { return };
    let mut command = fakes.selftest("engines".as_ref());
    command
        .env("FAKE_CUDA_DEVICES", "0")
        .assert()
        .code(1)
        .stderr(contains("shows no device 0 (CUDA_ERROR_NO_DEVICE").and(contains("nvidia-smi")));
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.c");
    std::fs::write(&empty, "int cuInit(unsigned flags) { return (int)flags; }").unwrap();
    compile("CC", "cc", &[empty.to_str().unwrap()], &dir.path().join("libcuda.so")).unwrap();
    let sentence = "Error: the CUDA driver has no cuDriverGetVersion; install a driver for CUDA 11.4 or newer\n";
    let mut command = segtrt();
    command.arg("selftest").env("LD_LIBRARY_PATH", dir.path()).assert().code(1).stderr(sentence);
}

#[test]
fn engines_that_agree_pass_in_every_profile_and_are_timed() {
    let Some(fakes) = Fakes::new() else { return };
    let root = tempfile::tempdir().unwrap();
    let engines = Engines::new(root.path());
    engines.write(Precision::Fp32, &[(Role::Prompt, "ok"), (Role::Track, "ok")]);
    engines.write(Precision::Fp16, &[(Role::Encoder, "ok")]);
    let (csv, json) = (root.path().join("rows.csv"), root.path().join("report.json"));
    let mut command = fakes.selftest(root.path());
    command.arg("--csv").arg(&csv).arg("--json").arg(&json);
    command.assert().success().stdout(contains("75 of 75 rows passed, 0 failed"));

    let (_, rows) = read_csv(&csv);
    // Encoder: 3 outputs. Prompt: a click and a box, 4 outputs each. Track: 16 fill levels.
    assert_eq!(rows.len(), 3 + 2 * 4 + 16 * 4);
    assert!(column(&csv, "verdict").iter().all(|verdict| verdict == "passed"));
    for name in ["enqueue_median_ms", "graph_median_ms", "enqueue_p95_ms", "relative_error"] {
        assert!(column(&csv, name).iter().all(|value| value.parse::<f64>().unwrap() >= 0.0));
    }
    assert!(column(&csv, "context_bytes").iter().all(|bytes| bytes == "4096"));
    assert!(column(&csv, "engine_bytes").iter().all(|bytes| bytes.parse::<u64>().unwrap() > 100));
    let errors: Vec<f64> =
        column(&csv, "relative_error").iter().map(|e| e.parse().unwrap()).collect();
    // Halves are near the fp32 reference, not equal to it; the fp32 stand-in replays the reference itself.
    assert!(errors[..3].iter().all(|error| (1e-6..1e-3).contains(error)), "{errors:?}");
    assert!(errors[3..].iter().all(|error| *error == 0.0), "{errors:?}");
    let cases = column(&csv, "case");
    assert!(cases.contains(&"1 object, 7 memories, 16 pointers".to_owned()), "{cases:?}");

    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["opened"]["tensorrt"], "TensorRT 8.6.1");
    assert_eq!(report["opened"]["sm"], 90);
    assert_eq!(report["rows"].as_array().unwrap().len(), 75);
}

#[test]
fn what_is_wrong_fails_alone_and_says_why() {
    let Some(fakes) = Fakes::new() else { return };
    let root = tempfile::tempdir().unwrap();
    let engines = Engines::new(root.path());
    engines.write(
        Precision::Fp32,
        &[
            (Role::Encoder, "ok"),
            (Role::MaskPrompt, "crash"),
            (Role::Memory, "ok"),
            (Role::Prompt, "unstable"),
        ],
    );
    engines.write(Precision::Fp16, &[(Role::Encoder, "nan"), (Role::MaskPrompt, "unwritten")]);
    engines.write(Precision::Best, &[(Role::Encoder, "ok")]);
    let broken = root.path().join("h200/edgetam_mini_256_best/encoder.plan");
    std::fs::write(&broken, std::fs::read_to_string(&broken).unwrap().replace("4096", "4097"))
        .unwrap();
    let csv = root.path().join("rows.csv");
    let mut command = fakes.selftest(root.path());
    let output = command.arg("--csv").arg(&csv).output().unwrap();
    assert_eq!(output.status.code(), Some(1));

    let columns =
        ["precision", "role", "output", "verdict", "case", "reason"].map(|c| column(&csv, c));
    let rows: Vec<[&str; 6]> =
        (0..columns[0].len()).map(|at| std::array::from_fn(|c| columns[c][at].as_str())).collect();
    let of = |precision: &str, role: &str| -> Vec<[&str; 4]> {
        let of: Vec<_> = rows.iter().filter(|row| row[..2] == [precision, role]).collect();
        assert!(!of.is_empty(), "no row of {precision} {role}");
        of.into_iter().map(|row| [row[2], row[3], row[4], row[5]]).collect()
    };
    // A crash costs its own case; the plans before and after it have their rows.
    assert!(of("fp32", "encoder").iter().all(|row| row[1] == "passed"));
    let crash = of("fp32", "mask_prompt");
    assert_eq!(crash.len(), 1);
    assert!(crash[0][3].contains("killed by signal 11"), "{crash:?}");
    // The stand-in knows the tracked frame only: for the prompted one it takes the inputs as wrong and gives zeros.
    let memory = of("fp32", "memory");
    assert_eq!(memory.iter().map(|row| row[1]).collect::<Vec<_>>(), ["passed", "failed"]);
    assert!(memory[1][3].contains("error 1.00e0 is above 1e-3"), "{memory:?}");
    let prompt = of("fp32", "prompt");
    assert!(prompt.iter().any(|row| row[3].contains("replayed as a CUDA graph")), "{prompt:?}");
    assert!(of("fp16", "encoder").iter().all(|row| row[3].contains("1 of") && row[1] == "failed"));
    assert!(of("fp16", "mask_prompt").iter().any(|row| row[3].contains("never written")));
    assert!(of("best", "encoder")[0][3].contains("its sha256 is not that of its manifest"));

    let screen = String::from_utf8(output.stdout).unwrap();
    eprintln!("{screen}{}", String::from_utf8_lossy(&output.stderr));
    assert!(screen.contains("FAILED edgetam_mini_256_fp32 mask_prompt"), "{screen}");
}

#[test]
fn an_engine_that_cannot_be_recorded_is_still_tested() {
    let Some(fakes) = Fakes::new() else { return };
    let root = tempfile::tempdir().unwrap();
    Engines::new(root.path()).write(Precision::Fp32, &[(Role::Encoder, "ok")]);
    let csv = root.path().join("rows.csv");
    let mut command = fakes.selftest(root.path());
    command.env("FAKE_CUDA_GRAPHS", "0").arg("--csv").arg(&csv).assert().success();
    assert!(column(&csv, "graph_median_ms").iter().all(String::is_empty));
    assert!(column(&csv, "graph_problem")[0].contains("STREAM_CAPTURE_UNSUPPORTED"));
}

#[test]
fn without_a_reference_outputs_run_and_nothing_is_claimed() {
    let Some(fakes) = Fakes::new() else { return };
    let root = tempfile::tempdir().unwrap();
    let dir = Engines::new(root.path()).write(Precision::Fp32, &[(Role::Encoder, "ok")]);
    let mut command = fakes.selftest(&dir);
    let said =
        "3 outputs were compared with nothing (--no-reference)\n0 of 3 rows passed, 0 failed";
    command.arg("--no-reference").assert().success().stdout(contains(said));
    // A bundle that is not there is no reason to pass.
    let mut command = fakes.selftest(&dir);
    command.arg("--onnx-dir").arg(root.path()).assert().code(1).stdout(contains("--no-reference"));
    // Engines of another GPU are left out, and asked for by name refused.
    let mut command = fakes.selftest(&dir);
    command.args(["--models", "edgetam"]).assert().code(1).stderr(contains("is asked for"));
}
