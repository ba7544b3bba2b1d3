//! One small measured run that every test copies, and ways to change a copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use assert_cmd::Command;
use serde_json::Value;

use crate::support::{bench, copy, segtrt, small_bundle, synth};

/// Frames of each clip.
pub const FRAMES: usize = 8;

/// A split of two clips with one object each, and a run over it.
pub struct Base {
    pub split: PathBuf,
    pub run: PathBuf,
    _dir: tempfile::TempDir,
}

/// Measured once for all tests; to be copied, not changed.
pub fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 2, 1, FRAMES);
        let run = dir.path().join("run");
        bench(&split, &run).args(["--save-masks", "--metrics", "official"]).assert().success();
        Base { split, run, _dir: dir }
    })
}

/// `segtrt compare` over the split of [`base`].
pub fn compare(out: &Path) -> Command {
    let mut command = segtrt();
    command.arg("compare").arg("--split-dir").arg(&base().split).arg("--out-dir").arg(out);
    command
}

/// A comparison of the CPU backend with the stand-in for PyTorch, as it measures one model.
pub fn measure(out: &Path, baselines: &str, rounds: &str) -> Command {
    let mut command = compare(out);
    command.args(["--models", "edgetam_mini_points", "--backend", "cpu", "--warmup-runs", "0"]);
    command.args(["--baselines", baselines, "--rounds", rounds, "--bench-arg=--threads"]);
    command.arg("--bench-arg=1").arg("--onnx-dir").arg(small_bundle());
    command.arg("--runner").arg(fake_runner());
    command.arg("--runner-arg=--fake-copy");
    command.arg(format!("--runner-arg={}", base().run.display()));
    command
}

/// The stand-in.
pub fn fake_runner() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/compare/fake_runner.py")
}

/// A copy of the run at `to`.
pub fn copy_run(to: &Path) -> PathBuf {
    copy(&base().run, to);
    to.to_owned()
}

/// Reads a JSON file.
pub fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        .unwrap()
}

/// Changes a JSON file.
pub fn edit_json(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = json(path);
    change(&mut value);
    fs::write(path, serde_json::to_vec(&value).unwrap()).unwrap();
}

/// Changes the sidecar of a run.
pub fn edit_sidecar(run: &Path, change: impl FnOnce(&mut Value)) {
    edit_json(&run.join("sidecar.json"), change);
}

/// Changes every pass of a run.
pub fn edit_passes(run: &Path, mut change: impl FnMut(&mut Value)) {
    edit_sidecar(run, |sidecar| {
        sidecar["passes"].as_array_mut().unwrap().iter_mut().for_each(&mut change);
    });
}

/// Changes one column of a run's summary.
pub fn edit_column(run: &Path, name: &str, value: &str) {
    let path = run.join("sav_benchmark_summary.csv");
    let (header, rows) = crate::support::read_csv(&path);
    let at = header.iter().position(|column| column == name).unwrap();
    let mut out = csv::Writer::from_path(&path).unwrap();
    out.write_record(&header).unwrap();
    for mut row in rows {
        value.clone_into(&mut row[at]);
        out.write_record(&row).unwrap();
    }
    out.flush().unwrap();
}

/// Makes a run PyTorch's: the settings that its runner writes, and its label.
pub fn as_pytorch(run: &Path, implementation: &str, mode: &str) {
    edit_column(run, "backend", &format!("pytorch 2.11.0 {implementation} {mode}"));
    edit_sidecar(run, |sidecar| {
        let settings = &mut sidecar["configuration"];
        settings["provider"] = "pytorch".into();
        settings["implementation"] = implementation.into();
        settings["run_mode"] = mode.into();
    });
}

/// Changes every file of masks of a run; `change` gets its `frames`.
pub fn edit_masks(run: &Path, mut change: impl FnMut(&mut Vec<Value>)) {
    for entry in fs::read_dir(run.join("masks")).unwrap() {
        edit_json(&entry.unwrap().path(), |file| change(file["frames"].as_array_mut().unwrap()));
    }
}

/// Takes the mask of a frame away.
pub fn empty(frame: &mut Value) {
    let size = frame["mask"]["size"].clone();
    let pixels = size[0].as_u64().unwrap() * size[1].as_u64().unwrap();
    frame["mask"]["counts"] = serde_json::json!([pixels]);
}

/// What a command said.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said {
        code: output.status.code().unwrap(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

/// The report of a side in `comparison.json`.
pub fn side(comparison: &Value, name: &str) -> Value {
    let sides = comparison["models"][0]["sides"].as_array().unwrap();
    sides.iter().find(|side| side["side"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
}
