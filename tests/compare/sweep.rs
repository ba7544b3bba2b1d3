//! Sweeps on the CPU.

use super::shared::{compare, json, run};
use crate::support::{column, small_bundle};

#[test]
fn combinations_are_measured_and_what_is_not_there_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("sweep");
    let sweep = |rounds: &str| {
        let mut command = compare(&out);
        command.args(["--models", "edgetam_mini_points", "--backend", "cpu", "--warmup-runs", "0"]);
        command.args([
            "--sweep",
            "precision=fp32,fp16",
            "--sweep",
            "imgsz=256",
            "--rounds",
            rounds,
        ]);
        command.arg("--onnx-dir").arg(small_bundle());
        run(&mut command)
    };
    let said = sweep("1");
    assert_eq!(said.code, 1, "the bundle is in fp32 only: {}", said.out);
    // One row is left, which is faster than nothing; a debug build's is INVALID.
    assert!(!said.out.contains("fastest is"), "{}", said.out);
    assert!(
        said.out.contains(
            "edgetam_mini_points: cannot name a fastest \
                               combination: "
        ),
        "{}",
        said.out
    );
    let text = std::fs::read_to_string(out.join("sweep.md")).unwrap();
    assert!(text.contains("edgetam_mini_points: cannot name a fastest combination: "), "{text}");
    assert!(said.out.contains("fp16_256: not available"), "{}", said.out);
    let rows = json(&out.join("sweep.json"))["rows"].clone();
    let (fps, objects) = (&rows[0]["speed"]["fps"], &rows[0]["object_fps"]);
    assert!(
        (fps.as_f64().unwrap() - objects.as_f64().unwrap()).abs() < 1e-9,
        "one object at a time"
    );
    assert!(rows[1]["speed"].is_null());
    assert_eq!(rows[1]["outcome"], "not_available");
    assert_eq!(column(&out.join("sweep.csv"), "masks"), ["reference", "not available"]);
    assert!(std::fs::read_to_string(out.join("sweep.md")).unwrap().contains("| fp32_256 |"));

    let wrong = |axis: &str| {
        run(compare(&out).args([
            "--models",
            "edgetam_mini_points",
            "--backend",
            "cpu",
            "--sweep",
            axis,
        ]))
    };
    for (axis, says) in [
        ("objects=1,2", "by TensorRT's backend alone"),
        ("batch=2", "cannot be swept"),
        ("precision=fp8", "is no value of precision"),
    ] {
        let said = wrong(axis);
        assert!(said.code == 2 && said.err.contains(says), "{axis}: {} {}", said.code, said.err);
    }
}
