//! The bench on a GPU, on stand-ins: TensorRT's engines run the committed network in ONNX Runtime, on the addresses that
//! the pipeline bound, when the driver's streams come to it; kernels are emulated. So masks must equal the CPU's.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use segtrt::bundle::Role;

use crate::selftest::fakes::{Engines, Fakes, shared};
use crate::support::{bench, column, require_onnxruntime, segtrt, synth};

const SUMMARY: &str = "sav_benchmark_summary.csv";
const PADDED: [Role; 5] =
    [Role::Encoder, Role::Prompt, Role::MaskPrompt, Role::TrackPadded, Role::Memory];
const EXACT: [Role; 4] = [Role::Encoder, Role::Prompt, Role::Track, Role::Memory];

/// A folder for a test, with a split and engines in it.
struct Setting {
    dir: tempfile::TempDir,
    split: PathBuf,
    fakes: &'static Fakes,
}

impl Setting {
    /// None, said aloud, where there is no compiler.
    fn new(objects: usize, frames: usize, roles: &[Role]) -> Option<Self> {
        let fakes = shared()?;
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 1, objects, frames);
        let setting = Self { dir, split, fakes };
        setting.engines(&roles.iter().map(|role| (*role, "ok")).collect::<Vec<_>>());
        Some(setting)
    }

    fn engines(&self, plans: &[(Role, &str)]) -> PathBuf {
        Engines::new(&self.path("engines")).write_live(plans)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A bench on the stand-ins into the folder `out`.
    fn gpu(&self, out: &str) -> Command {
        let mut command = segtrt();
        command
            .env("LD_LIBRARY_PATH", self.fakes.dir())
            .env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime())
            .args(["bench", "--backend", "tensorrt", "--models", "edgetam_mini_points"])
            .args(["--save-masks", "--warmup-runs", "1", "--decode-threads", "2"]);
        command.arg("--engines").arg(self.path("engines"));
        command.arg("--tensorrt-lib").arg(self.fakes.dir());
        command.arg("--split-dir").arg(&self.split).arg("--out-dir").arg(self.path(out));
        command
    }

    /// The same on the CPU.
    fn cpu(&self, out: &str) -> Command {
        let mut command = bench(&self.split, &self.path(out));
        command.arg("--save-masks");
        command
    }

    fn masks(&self, out: &str) -> Vec<(String, String)> {
        let mut files: Vec<PathBuf> = fs::read_dir(self.path(out).join("masks"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        files.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
    }

    fn column(&self, out: &str, name: &str) -> Vec<String> {
        column(&self.path(out).join(SUMMARY), name)
    }
}

#[test]
fn masks_and_scores_equal_the_cpus_in_both_modes_and_with_both_banks() {
    for roles in [&PADDED[..], &EXACT[..]] {
        let Some(setting) = Setting::new(1, 24, roles) else { return };
        setting.cpu("cpu").assert().success();
        let expected = setting.masks("cpu");
        for (out, flags) in [
            ("latency", &["--mode", "latency"][..]),
            ("calls", &["--no-cuda-graphs", "--host-wait", "block"]),
            ("throughput", &["--mode", "throughput", "--encode-ahead", "3"]),
        ] {
            // Lazy streams, and two orders of eager ones.
            for seed in ["0", "1", "7"] {
                let mut command = setting.gpu(out);
                command.args(flags).env("FAKE_CUDA_SEED", seed).assert().success();
                assert!(setting.masks(out) == expected, "{roles:?} {out}, seed {seed}");
            }
        }
    }
}
