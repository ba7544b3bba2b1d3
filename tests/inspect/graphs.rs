//! ONNX files.

use std::path::Path;

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

use crate::support::{segtrt, small_bundle};

fn json(path: &Path) -> Value {
    let output = segtrt().arg("inspect").arg(path).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_graph_is_told_as_its_manifest_describes_it() {
    let path = small_bundle().join("track.onnx");
    let found = &json(&path)[0];
    assert_eq!((found["what"].as_str(), found["opset"].as_i64()), (Some("onnx"), Some(17)));
    assert_eq!(found["bundle"]["role"], "track");
    assert_eq!(found["bundle"]["sha256_agrees"], true);
    assert_eq!(found["inputs"][3]["shape"], serde_json::json!(["B", "F", 128, 16]));
    assert_eq!(found["inputs"][4]["dtype"], "i32");
    let nodes: u64 =
        found["operators"].as_array().unwrap().iter().map(|o| o["nodes"].as_u64().unwrap()).sum();
    assert_eq!(Some(nodes), found["nodes"].as_u64());
    // f32 weights of 4 bytes make up nearly the whole file.
    let bytes = found["weights"]["f32"]["bytes"].as_u64().unwrap();
    assert_eq!(bytes, 4 * found["weights"]["f32"]["elements"].as_u64().unwrap());
    assert!(
        bytes < found["bytes"].as_u64().unwrap()
            && bytes * 3 > found["bytes"].as_u64().unwrap() * 2
    );
    segtrt().arg("inspect").arg(&path).assert().success().stdout(
        contains("B x F x 128 x 16")
            .and(contains("10 Softmax"))
            .and(contains("open extents (mem, tidx, ptrs)")),
    );
}

#[test]
fn a_graph_that_its_manifest_does_not_mean_is_told_and_fails() {
    let dir = tempfile::tempdir().unwrap();
    for file in ["manifest.toml", "track.onnx"] {
        std::fs::copy(small_bundle().join(file), dir.path().join(file)).unwrap();
    }
    let path = dir.path().join("track.onnx");
    let mut bytes = std::fs::read(&path).unwrap();
    let last_weight = bytes.len() / 2;
    bytes[last_weight] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    segtrt().arg("inspect").arg(&path).assert().code(1).stdout(
        contains("NOT as its manifest says")
            .and(contains("export the model again or restore the file")),
    );
}

#[test]
fn files_that_cannot_be_inspected_get_a_sentence_and_the_others_their_report() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let whole = std::fs::read(small_bundle().join("memory.onnx")).unwrap();
    std::fs::write(path("cut.onnx"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(path("empty.onnx"), "").unwrap();
    std::fs::write(path("notes.txt"), "not a model").unwrap();
    for (name, words) in [
        (
            "cut.onnx",
            &["cut.onnx is truncated or no ONNX file", "bytes begins where", "export it again"][..],
        ),
        ("empty.onnx", &["empty.onnx is empty", "expected an ONNX file or a TensorRT plan"]),
        ("notes.txt", &["neither an ONNX file nor a TensorRT plan", "\"not a mo\""]),
        ("gone.onnx", &["cannot inspect", "gone.onnx", "No such file"]),
    ] {
        let error = segtrt().arg("inspect").arg(path(name)).output().unwrap();
        let text = String::from_utf8_lossy(&error.stderr).into_owned();
        assert_eq!(error.status.code(), Some(1), "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    segtrt()
        .arg("inspect")
        .args([path("cut.onnx"), small_bundle().join("memory.onnx")])
        .assert()
        .code(1)
        .stderr(contains("cut.onnx"))
        .stdout(contains("memory of edgetam_mini_256_fp32, as its manifest says"));
}

#[test]
fn an_onnx_file_is_known_whatever_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.bin");
    std::fs::copy(small_bundle().join("encoder.onnx"), &path).unwrap();
    assert_eq!(json(&path)[0]["what"], "onnx");
}
