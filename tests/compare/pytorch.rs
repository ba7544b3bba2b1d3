//! The real PyTorch runner against the CPU backend, and what only its folders have.

use std::path::Path;
use std::process::Command;

use super::shared::{base, compare, copy_run, edit_passes, json, run, side};
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
            "SKIPPED: no PyTorch (SEGTRT_TEST_PYTHON names a Python that has it), no EDGETAM_SRC, \
             or no pytorch/run.py"
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

/// On a GPU the runner's stage times are of another pass over the same frames: they are no part of
/// this one's latencies.
#[test]
fn stages_of_another_pass_need_not_add_up_to_the_latencies() {
    for apart in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let run_folder = copy_run(&dir.path().join("b"));
        edit_passes(&run_folder, |pass| {
            let times = pass["frame_times"].as_object_mut().unwrap();
            for (_, column) in
                times.iter_mut().filter(|(name, _)| name.ends_with("_ms") && *name != "latency_ms")
            {
                for ms in column.as_array_mut().unwrap().iter_mut().filter(|ms| !ms.is_null()) {
                    *ms = 0.001.into();
                }
            }
            if apart {
                times.insert("stages_apart".to_owned(), true.into());
            }
        });
        let out = dir.path().join("cmp");
        let mut command = compare(&out);
        command.arg("--runs").arg(format!("a={}", base().run.display()));
        let said = run(command.arg(format!("b={}", run_folder.display())));
        assert_eq!(said.code, 0, "{}", said.err);
        let found = side(&json(&out.join("comparison.json")), "b");
        let verdict = found["verdict"].to_string();
        assert_eq!(verdict.contains("unexplained"), !apart, "{verdict}");
        assert!(found["speed"]["stages_ms"]["encoder_ms"].as_f64().is_some_and(|ms| ms < 0.01));
    }
}
