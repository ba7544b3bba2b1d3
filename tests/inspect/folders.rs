//! Bundles, engine folders, and folders of them.

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

use super::stand_in::engine_folder;
use crate::support::{segtrt, small_bundle};

#[test]
fn a_bundle_and_a_folder_of_bundles_are_one_table_each() {
    for path in [small_bundle(), small_bundle().parent().unwrap().to_owned()] {
        segtrt().arg("inspect").arg(path).assert().success().stdout(
            contains("bundle edgetam_mini_256_fp32")
                .and(contains("checkpoint edgetam_mini.safetensors"))
                .and(contains("mask_prompt.onnx"))
                .and(contains("mem f32[B,F,128,16]")),
        );
    }
}

#[test]
fn a_bundle_with_an_altered_graph_fails_and_says_which() {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(small_bundle()).unwrap().flatten() {
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    let path = dir.path().join("prompt.onnx");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1000] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    std::fs::remove_file(dir.path().join("memory.onnx")).unwrap();
    segtrt().arg("inspect").arg(dir.path()).assert().code(1).stdout(
        contains("prompt.onnx is not the graph of its manifest")
            .and(contains("memory.onnx"))
            .and(contains("track.onnx is not").not()),
    );
}

#[test]
fn engine_folders_are_found_below_and_shown_as_tables_and_json() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("h200/edgetam_mini_256_fp16");
    std::fs::create_dir_all(&dir).unwrap();
    let plan = engine_folder(&dir);
    segtrt().arg("inspect").arg(root.path()).assert().success().stdout(
        contains("engines of edgetam_mini_256_fp32 for h200, fp16")
            .and(contains("TensorRT 8.6.0"))
            .and(contains("0 of 3"))
            .and(contains("not fused")),
    );
    std::fs::write(&plan, "half").unwrap();
    let output = segtrt().arg("inspect").arg(&dir).arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found[0]["what"], "engines");
    let problem = found[0]["plans"][0]["problem"].as_str().unwrap();
    assert!(
        problem.contains("4 bytes found, 5000 expected") && problem.contains("--platform h200"),
        "{problem}"
    );
}

#[test]
fn a_folder_with_nothing_in_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    segtrt()
        .arg("inspect")
        .arg(dir.path())
        .assert()
        .code(1)
        .stderr(contains("holds neither a bundle"));
}
