/*!
`segtrt roofline`: bounds of bundles, shares of runs, and peaks that were measured.
*/

use std::fs;
use std::path::Path;

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

use crate::selftest::fakes::{cublaslt, shared};
use crate::support::{copy, segtrt, small_bundle};

fn roofline(more: &[&str]) -> assert_cmd::Command {
    let mut command = segtrt();
    command.arg("roofline").arg("--onnx-dir").arg(small_bundle()).args(more);
    command
}

fn json(more: &[&str]) -> Value {
    let assert = roofline(&[more, &["--json"]].concat()).assert().success();
    serde_json::from_slice(&assert.get_output().stdout).unwrap()
}

#[test]
fn a_bundle_has_a_bound_for_each_stage_on_a_platform() {
    let shown = json(&["--platform", "orin", "--precision", "fp16"]);
    let stages = shown["models"][0]["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["encoder_ms", "prompt_ms", "track_ms", "memory_ms"]);
    // 79685888 FLOP take 1.9 us at 42.5 TFLOP/s, half of 11973032 fp32 bytes 29.2 us at 204.8 GB/s.
    let encoder = &stages[0];
    assert_eq!((&encoder["flops"], &encoder["launches"]), (&79_685_888.into(), &50.into()));
    assert_eq!(encoder["limited_by"], "bandwidth");
    let least = encoder["least_ms"].as_f64().unwrap();
    assert!((least - 5_986_516.0 / 204_800.0 / 1e3).abs() < 1e-9, "{least}");
    roofline(&["--platform", "orin"]).assert().success().stdout(
        contains("data sheet of the Jetson AGX Orin")
            .and(contains("tracked frame"))
            .and(contains("estimate, edgetam_mini_256_fp32")),
    );
}

#[test]
fn peaks_that_nobody_knows_are_asked_for_and_typed_ones_win() {
    roofline(&["--platform", "orin-nx"]).assert().code(2).stderr(contains("selftest --peak"));
    roofline(&["--platform", "orinn"]).assert().code(2).stderr(contains("known: a100"));
    roofline(&["--peak-gflops", "0"]).assert().code(2).stderr(contains("is no rate"));
    let typed = json(&["--peak-gflops", "1000", "--peak-mb-per-s", "1000000"]);
    assert_eq!(typed["peaks"]["source"], "the command line");
    assert_eq!(typed["models"][0]["stages"][0]["limited_by"], "compute");

    let dir = tempfile::tempdir().unwrap();
    copy(&small_bundle(), dir.path());
    let manifest = fs::read_to_string(dir.path().join("manifest.toml")).unwrap();
    let older: Vec<&str> = manifest.lines().filter(|line| !line.starts_with("bytes =")).collect();
    fs::write(dir.path().join("manifest.toml"), older.join("\n")).unwrap();
    let mut command = segtrt();
    command.args(["roofline", "--platform", "orin", "--onnx-dir"]).arg(dir.path());
    command.assert().code(1).stderr(contains("onnx/segexport/work.py"));
}

fn run_folder(dir: &Path, mode: &str) -> String {
    let header = "video,object,model,imgsz,precision,frames,fps,status,device,mode,encoder_ms,\
                  track_ms,memory_ms";
    let row = |encoder: f64| {
        format!("a,0,edgetam_mini_points,256,fp16,9,100,ok,NVIDIA H200,{mode},{encoder},0.5,0.25\n")
    };
    let text = format!("{header}\n{}{}", row(0.0625), row(0.1875));
    fs::write(dir.join("sav_benchmark_summary.csv"), text).unwrap();
    dir.display().to_string()
}

#[test]
fn a_run_has_the_share_that_each_stage_reached_on_its_gpu() {
    let dir = tempfile::tempdir().unwrap();
    let shown = json(&[&run_folder(dir.path(), "latency")]);
    assert!(shown["peaks"]["source"].as_str().unwrap().contains("H200"));
    let stages = &shown["models"][0]["stages"];
    assert_eq!(stages[0]["measured_ms"], 0.125);
    let share = stages[0]["least_ms"].as_f64().unwrap() / 0.125;
    assert_eq!(stages[0]["reached"].as_f64(), Some(share));
    assert_eq!(stages[1]["measured_ms"], Value::Null, "the prompt step was not timed");
    roofline(&[&run_folder(dir.path(), "throughput")])
        .assert()
        .code(1)
        .stderr(contains("no rows with one frame in flight"));
}

#[test]
fn peaks_are_measured_where_there_is_a_gpu() {
    let (Some(fakes), Some(cublaslt)) = (shared(), cublaslt()) else { return };
    let assert = segtrt()
        .env("LD_LIBRARY_PATH", fakes.dir())
        .env("SEGTRT_CUBLASLT_LIB", cublaslt)
        // So little memory that the matmul is small.
        .env("FAKE_CUDA_MEMORY", (1 << 20).to_string())
        .args(["selftest", "--peak", "--json"])
        .assert()
        .success()
        .stderr(contains("segtrt roofline --peak-gflops"));
    let found: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!((&found["gemm_size"], &found["copied_bytes"]), (&128.into(), &131_072.into()));
    for rate in ["peak_gflops", "memory_mb_per_s"] {
        assert!(found[rate].as_f64().unwrap() > 0.0, "{found}");
    }
}
