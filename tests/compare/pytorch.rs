//! The real PyTorch runner against the CPU backend.

use std::path::Path;
use std::process::Command;

use super::shared::{compare, json, run, side};
use crate::support::small_bundle;

/// A Python with PyTorch: `SEGTRT_TEST_PYTHON`, else `python3`.
fn python() -> Option<String> {
    let python = std::env::var("SEGTRT_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let imports = Command::new(&python).args(["-c", "import torch, timm"]).output().ok()?;
    imports.status.success().then_some(python)
}

#[test]
fn the_original_and_the_graphs_compute_the_same_masks() {
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("pytorch/run.py");
    // EdgeTAM's own code, which the runner finds there.
    let source = std::env::var_os("EDGETAM_SRC").is_some();
    let Some(python) = python().filter(|_| runner.is_file() && source) else {
        eprintln!(
            "SKIPPED: no PyTorch (SEGTRT_TEST_PYTHON names a Python that has it), no EDGETAM_SRC, or no pytorch/run.py"
        );
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let mut command = compare(&out);
    command.args(["--models", "edgetam_mini_points", "--backend", "cpu", "--baselines", "eager"]);
    command.args([
        "--rounds",
        "2",
        "--warmup-runs",
        "0",
        "--limit-videos",
        "1",
        "--teacher-forced",
    ]);
    command.arg("--runner").arg(&runner).args(["--python", &python]);
    command.arg("--onnx-dir").arg(small_bundle());
    let said = run(&mut command);
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.err);
    let comparison = json(&out.join("comparison.json"));
    assert_eq!(side(&comparison, "eager")["outcome"], "reference");
    let cpu = side(&comparison, "cpu");
    assert_eq!(cpu["outcome"], "same", "{cpu}");
    assert_eq!(cpu["objectness_flips"]["flipped"], 0);
    assert!(cpu["objectness_flips"]["frames"].as_u64().unwrap() > 0);
    // PyTorch's logits in the graphs' memories: the same masks, but for what bfloat16 memories cost.
    let taught = &cpu["teacher_forced"];
    assert!(taught["min_iou"].as_f64().is_some_and(|iou| iou >= 0.998), "{taught}");
}
