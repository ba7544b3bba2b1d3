//! Plans with and without a manifest, damaged ones, and what TensorRT says of them.

use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

use super::stand_in::{engine_folder, library, plan_bytes};
use crate::support::segtrt;

/// An inspection with a folder for TensorRT's libraries.
fn inspect(path: &Path, libraries: &Path) -> Command {
    let mut command = segtrt();
    command.arg("inspect").arg(path).arg("--tensorrt-lib").arg(libraries);
    command
}

#[test]
fn a_plan_is_told_from_its_manifest_where_no_tensorrt_is() {
    let dir = tempfile::tempdir().unwrap();
    let plan = engine_folder(dir.path());
    let empty = tempfile::tempdir().unwrap();
    for words in [
        "plan of edgetam_mini (track)",
        "written by TensorRT 8.6.0 (build 12)",
        "NVIDIA H200, driver for CUDA 13.0",
        "sm_90",
        "fp16, weakly typed, 1 layer pinned to fp32",
        "workspace 256.0 MiB, tactics TensorRT's default, build 4096.0 MiB; optimization level 3",
        "37.2 s with a warm timing cache",
        "3.0 MiB for a context",
        "mem 1x7x128x16, ptrs 1x16x48",
        "segtrt build-engines --platform h200 --models edgetam_mini --imgsz 256 --precision fp16",
        "not opened by TensorRT: no TensorRT library",
        "3 layers: 2 fp16, 1 fp32",
        "0 of 3 layers (0.0 %) without being pinned, 1 pinned",
        "attention: not fused (a softmax of its own in 1 layer, such as /memory/layers.0/Softmax)",
    ] {
        inspect(&plan, empty.path()).assert().success().stdout(contains(words));
    }
    inspect(&plan, empty.path()).arg("--layers").assert().success().stdout(
        contains("CaskGemmConvolution").and(contains("sm80_xmma_gemm_f16f16_f16f16_f16_nn")),
    );
    let output = inspect(&plan, empty.path()).arg("--json").output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found[0]["manifest"]["plan"]["layers"][2]["kind"], "SoftMaxV2");
    assert_eq!(found[0]["assessment"]["attention"]["verdict"], "not_fused");
    assert_eq!(found[0]["live"]["state"], "not_opened");
}

#[test]
fn a_plan_that_is_not_the_one_that_was_built_is_refused_with_both_and_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let plan = engine_folder(dir.path());
    let whole = std::fs::read(&plan).unwrap();
    let again = "build it again with: segtrt build-engines --platform h200 --models edgetam_mini";
    std::fs::write(&plan, &whole[..1234]).unwrap();
    let told = "track.plan is damaged: found 1234 bytes, expected 5000 bytes";
    inspect(&plan, dir.path()).assert().code(1).stderr(contains(told).and(contains(again)));
    let mut flipped = whole;
    flipped[4321] ^= 0x10;
    std::fs::write(&plan, flipped).unwrap();
    let told = contains("track.plan is damaged: found sha256 ").and(contains(", expected sha256 "));
    inspect(&plan, dir.path()).assert().code(1).stderr(told.and(contains(again)));
}

#[test]
fn a_plan_without_a_manifest_is_told_from_its_header() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("lone.engine"), plan_bytes(900)).unwrap();
    inspect(&path("lone.engine"), dir.path()).assert().success().stdout(
        contains("written by TensorRT 8.6.0 (build 12)")
            .and(contains("no engine.json in its folder names this file")),
    );
    std::fs::write(path("cut.engine"), &plan_bytes(900)[..899]).unwrap();
    let told = "cut.engine is damaged: found 899 bytes, expected 900 as its header says";
    inspect(&path("cut.engine"), dir.path()).assert().code(1).stderr(contains(told));
}

#[test]
fn what_an_opened_engine_says_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    if !library(dir.path(), "c++", "crates/tensorrt/tests/fake_tensorrt8.cpp".as_ref()) {
        return;
    }
    let plan = dir.path().join("x.plan");
    std::fs::write(&plan, "plan").unwrap();
    inspect(&plan, dir.path()).arg("--layers").assert().success().stdout(
        contains("opened by")
            .and(contains("TensorRT 8.6.1"))
            .and(contains("0.0 MiB"))
            .and(contains("1x61"))
            .and(contains("7x61"))
            .and(contains("{ForeignNode[/a.../b]}")),
    );
    // The library's own refusal becomes the reason.
    std::fs::write(&plan, "junk").unwrap();
    inspect(&plan, dir.path()).assert().success().stdout(contains("no memory for this plan"));
    // Another release than the one that built it is not even tried.
    let engines = tempfile::tempdir().unwrap();
    let built = engine_folder(engines.path());
    inspect(&built, dir.path())
        .assert()
        .success()
        .stdout(contains("it was built by TensorRT 8.6.0, this is TensorRT 8.6.1"));
}

#[test]
fn a_library_that_crashes_or_leaves_costs_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("x.plan");
    std::fs::write(&plan, plan_bytes(64)).unwrap();
    for (body, told) in [
        ("__builtin_trap();", "TensorRT crashed while it opened the plan (signal"),
        ("_Exit(3);", "ended without an answer (exit status: 3)"),
    ] {
        let source = dir.path().join("fake.c");
        let text = format!(
            "#include <stdlib.h>\nint getInferLibVersion(void) {{ return 8600; }}\n\
             void *createInferRuntime_INTERNAL(void *l, int v) {{ {body} return 0; }}\n"
        );
        std::fs::write(&source, text).unwrap();
        if !library(dir.path(), "cc", &source) {
            return;
        }
        inspect(&plan, dir.path())
            .assert()
            .success()
            .stdout(contains("not opened by TensorRT").and(contains(told)));
    }
}

/// TensorRT for RTX builds without a GPU: what it writes must have the header that is read here.
#[test]
fn a_real_plan_has_the_header_that_is_read() {
    use tensorrt::{Builder, Typing};

    if std::env::var_os("SEGTRT_TENSORRT_LIB").is_none() {
        eprintln!("SKIPPED: no TensorRT; name its directory with SEGTRT_TENSORRT_LIB");
        return;
    }
    let library = runtime::tensorrt_library::open(None).unwrap();
    if !library.version().rtx {
        eprintln!("SKIPPED: {} builds only with a GPU", library.version());
        return;
    }
    let builder = Builder::new(&library).unwrap();
    let mut network = builder.network(Typing::Strong).unwrap();
    network.parse_onnx(&crate::support::small_bundle().join("encoder.onnx")).unwrap();
    let mut config = builder.config().unwrap();
    config.set_targets(&[86]).unwrap();
    let plan = builder.build(&mut network, &mut config, "encoder").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("encoder.plan");
    std::fs::write(&path, plan.bytes()).unwrap();
    let told = format!("written by {} (build ", library.version());
    segtrt().arg("inspect").arg(&path).assert().success().stdout(contains(told));
    std::fs::write(&path, &plan.bytes()[..plan.bytes().len() - 1]).unwrap();
    let told = format!("expected {} as its header says", plan.bytes().len());
    segtrt().arg("inspect").arg(&path).assert().code(1).stderr(contains(told));
}
