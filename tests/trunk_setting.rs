//! What tests of an encoder with Hiera's blocks run in: the hand-made network of `tests/data/fused`
//! with the trunk of `tests/data/trunk`, a synthetic clip, and stand-ins for driver, engines and
//! cuBLASLt.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use vos::bundle::Role;
use vos::precision::Precision;

use crate::selftest::fakes::{Engines, Fakes, cublaslt, shared};
use crate::support::{Frame, bench, frames_of, synth};
use crate::trunk_bundle::bundle;

pub(crate) const WEIGHTS: &str = "encoder_trunk.safetensors";
pub(crate) const PARTS: [Role; 2] = [Role::EncoderCut0, Role::EncoderCut1];
const STEPS: [Role; 3] = [Role::Prompt, Role::Track, Role::Memory];
/// The bundle with the trunk, and one of the same model in fp32 without.
const CUT: &str = "onnx/edgetam_mini_64_fp16";
const WHOLE: &str = "onnx/edgetam_mini_64_fp32";

pub(crate) struct Setting {
    dir: tempfile::TempDir,
    split: PathBuf,
    pub fakes: &'static Fakes,
    /// The folder of the stand-in for cuBLASLt.
    pub products: &'static Path,
}

impl Setting {
    /// A clip of so many objects and frames, and the bundle that `make` writes. None, said aloud,
    /// where there is no compiler, or `make` gives none.
    pub fn new(objects: usize, frames: usize, make: impl Fn(&Path) -> Option<()>) -> Option<Self> {
        let (fakes, products) = (shared()?, cublaslt()?);
        let dir = tempfile::tempdir().unwrap();
        make(&dir.path().join(CUT))?;
        bundle(&dir.path().join(WHOLE), false);
        let split = synth(dir.path(), 1, objects, frames);
        Some(Self { dir, split, fakes, products })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The folder of these engines of the encoder and those of the steps, with the trunk's weights
    /// beside them as a build leaves them.
    pub fn engines(&self, encoder: &[Role], precision: Precision) -> PathBuf {
        let _ = fs::remove_dir_all(self.path("engines"));
        let plans: Vec<_> = encoder.iter().chain(&STEPS).map(|role| (*role, "ok")).collect();
        let engines = Engines::of(&self.path("engines"), &self.path(CUT));
        let dir = engines.write_live(precision, &plans);
        fs::copy(self.path(CUT).join(WEIGHTS), dir.join(WEIGHTS)).unwrap();
        dir
    }

    /// Runs the whole network on the CPU, into the folder `cpu`.
    pub fn run_on_cpu(&self) {
        let mut command = bench(&self.split, &self.path("cpu"));
        command.arg("--save-masks").arg("--onnx-dir").arg(self.path(WHOLE));
        command.args(["--imgsz", "64"]).assert().success();
    }

    pub fn gpu(&self, out: &str) -> Command {
        let mut command = self.fakes.bench(&self.path("engines"), &self.split, &self.path(out));
        command.env("SEGTRT_CUBLASLT_LIB", self.products);
        command
    }

    /// The frames of all objects, object by object.
    pub fn frames(&self, out: &str) -> Vec<Frame> {
        frames_of(&self.path(out))
    }
}
