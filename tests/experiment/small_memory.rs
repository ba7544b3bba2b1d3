//! The presets of the two phases on stand-ins for boards whose host and GPU share 4 and 8 GB.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use runtime::engine::EngineManifest;

use crate::build_line;
use crate::selftest::fakes::shared;
use crate::support::{column, copy, require_onnxruntime, segtrt, small_bundle, synth};

struct Board {
    dir: tempfile::TempDir,
    split: PathBuf,
    bundles: PathBuf,
}

const GIB: u64 = 1 << 30;

impl Board {
    fn new() -> Option<Self> {
        build_line::fakes()?;
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 1, 1, 3);
        let bundles = dir.path().join("bundles");
        copy(&small_bundle(), &bundles.join("mini"));
        Some(Self { dir, split, bundles })
    }

    /// A model whose encoder takes so many bytes on the disk, most of them a hole.
    fn add_large(&self, bytes: u64) {
        let folder = self.bundles.join("large");
        copy(&small_bundle(), &folder);
        let path = folder.join("manifest.toml");
        let manifest = fs::read_to_string(&path).unwrap();
        fs::write(path, manifest.replace("\"edgetam_mini\"", "\"sam2.1_large\"")).unwrap();
        let encoder = fs::OpenOptions::new().write(true).open(folder.join("encoder.onnx"));
        encoder.unwrap().set_len(bytes).unwrap();
    }

    fn run(&self, memory: u64, flags: &[&str], library: &Path) -> assert_cmd::Command {
        let mut command = segtrt();
        command.env("LD_LIBRARY_PATH", shared().unwrap().dir());
        command.env("FAKE_CUDA_UNIFIED", "1").env("FAKE_CUDA_MEMORY", memory.to_string());
        command.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime());
        let path = |name: &str| self.dir.path().join(name);
        command.arg("jetson-benchmark").arg("--split-dir").arg(&self.split);
        command.arg("--preprocessed-dir").arg(path("prepared")).arg("--out-dir").arg(path("out"));
        command.arg("--engines").arg(path("engines")).arg("--onnx-dir").arg(&self.bundles);
        command.args(["--backend", "tensorrt", "--imgsz", "256", "--precision", "fp32"]);
        command.args(flags).args(["--", "--warmup-runs", "0", "--no-cuda-graphs"]);
        command.arg("--tensorrt-lib").arg(library);
        command
    }

    /// The first phase.
    fn prepare(&self, memory: u64, flags: &[&str]) -> assert_cmd::Command {
        self.run(memory, &[flags, &["--skip-inference"]].concat(), build_line::fakes().unwrap())
    }

    fn cap(&self) -> u64 {
        let folder = self.dir.path().join("engines/h200/edgetam_mini_256_fp32");
        let manifest = EngineManifest::read(&folder).unwrap().unwrap();
        manifest.plans[0].settings.workspace_bytes >> 20
    }
}

fn summary(dir: &Path) -> PathBuf {
    dir.join("out/jetson_benchmark_summary.csv")
}

#[test]
fn every_preset_is_prepared_on_boards_of_4_and_8_gb_and_a_model_that_does_not_fit_is_left_out() {
    let Some(board) = Board::new() else { return };
    board.add_large(5 * GIB);
    let both = ["--models", "edgetam_mini_points,sam2_large_points"];
    let mini = ["--models", "edgetam_mini_points"];
    for preset in ["quick", "standard", "memory-safe", "full"] {
        let asked = ["--preset", preset];
        // One of two models is missing, which is told by the exit code.
        board
            .prepare(4 * GIB, &[&asked[..], &both].concat())
            .assert()
            .code(1)
            .stderr(contains("sam2.1_large needs about 6").and(contains("left out")));
        assert_eq!(board.cap(), if preset == "memory-safe" { 128 } else { 256 }, "{preset}");
        board.prepare(8 * GIB, &[&asked[..], &mini].concat()).assert().success();
    }
    // Of memory for neither nothing is built.
    board
        .prepare(GIB, &mini)
        .assert()
        .code(1)
        .stderr(contains("no model fits").and(contains("engines:").not()));
}

#[test]
fn a_smaller_workspace_is_taken_before_a_model_is_refused_and_it_is_measured() {
    let Some(board) = Board::new() else { return };
    // 90 % of it are between the needs with 256 and with 128 MiB.
    let flags = ["--preset", "quick", "--models", "edgetam_mini_points", "--predecode", "u8"];
    board
        .prepare(1700 << 20, &flags)
        .assert()
        .success()
        .stderr(contains("the cap is lowered to 128 MiB"));
    assert_eq!(board.cap(), 128);
    let runs = shared().unwrap().dir();
    board.run(1700 << 20, &[&flags[..], &["--skip-setup"]].concat(), runs).assert().success();
    let summary = summary(board.dir.path());
    assert_eq!(column(&summary, "frames"), ["3"]);
    // Frames of the first phase's files, and not of the JPEG files.
    assert!(column(&summary, "fidelity")[0].contains("predecoded-u8"));
    assert_eq!(column(&summary, "frame_transfer"), ["converted"]);
}
