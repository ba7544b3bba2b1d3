//! Engines that the stand-ins build from a bundle's own graphs and run beside a driver whose device
//! has memory of its own: what `lab/sanitize/stand_in_engines.py` does on a real GPU, where a
//! sanitizer looks at this program's kernels. Host code that touches such a device's memory
//! crashes.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;

use crate::build_line;
use crate::selftest::fakes::{Fakes, shared};
use crate::support::{
    bench, column, copy, frames_of, lowest_iou, require_onnxruntime, segtrt, synth,
};

/// More than fill a bank of 16 pointers.
const FRAMES: usize = 20;
/// A track step that is cut at its attentions; its graphs are fp32.
const FUSED: &str = "tests/data/fused";
/// Ports that fp16 bundles have in fp32.
const FLOATS: &str = "low,iou,score,coords,multi,binar,ptr_t";

struct Setting {
    dir: tempfile::TempDir,
    split: PathBuf,
    fakes: &'static Fakes,
    builder: &'static Path,
}

impl Setting {
    /// None, said aloud, where there is no compiler.
    fn new() -> Option<Self> {
        let (fakes, builder) = (shared()?, build_line::fakes()?);
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 1, 1, FRAMES);
        Some(Self { dir, split, fakes, builder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn build(&self, bundle: &Path, imgsz: &str, precision: &str, variant: &str) -> Command {
        let mut command = segtrt();
        command.env("LD_LIBRARY_PATH", self.fakes.dir()).env("FAKE_CUDA_APART", "1");
        command.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime());
        command.args(["build-engines", "--models", "edgetam_mini", "--imgsz", imgsz]);
        command
            .args(["--precision", precision, "--track-variant", variant])
            .arg("--onnx-dir")
            .arg(bundle);
        command.arg("--out").arg(self.path("engines")).arg("--tensorrt-lib").arg(self.builder);
        command
    }

    /// A run on a device that is apart.
    fn gpu(&self, out: &str) -> Command {
        let mut command = self.fakes.bench(&self.path("engines"), &self.split, &self.path(out));
        command.env("FAKE_CUDA_APART", "1");
        command
    }

    /// The lowest IoU of any frame with the CPU's mask.
    fn against_cpu(&self, out: &str) -> f64 {
        lowest_iou(&frames_of(&self.path("cpu")), &frames_of(&self.path(out)))
    }

    fn cpu(&self, bundle: &str, imgsz: &str) {
        let mut command = bench(&self.split, &self.path("cpu"));
        command.arg("--save-masks").args(["--onnx-dir", bundle, "--imgsz", imgsz]);
        command.assert().success();
        assert_eq!(frames_of(&self.path("cpu")).len(), FRAMES);
    }
}

#[test]
fn fp32_graphs_with_ports_of_halves_run_with_copies_between_and_cannot_be_recorded() {
    let Some(setting) = Setting::new() else { return };
    setting.cpu(FUSED, "64");
    let bundle = setting.path("bundle");
    copy(Path::new(FUSED), &bundle);
    let manifest = fs::read_to_string(bundle.join("manifest.toml")).unwrap();
    let halves = manifest.replace("precision = \"fp32\"", "precision = \"fp16\"");
    assert_ne!(halves, manifest);
    fs::write(bundle.join("manifest.toml"), halves).unwrap();
    let mut build = setting.build(&bundle, "64", "fp16", "segmented");
    build.env("FAKE_BUILD_FLOATS", FLOATS).assert().success();
    let folder = setting.path("engines/h200/edgetam_mini_64_fp16");
    for plan in ["encoder", "track_seg4"] {
        assert!(folder.join(format!("{plan}.plan")).exists(), "{plan}");
    }

    let log = setting.path("log");
    let mut command = setting.gpu("apart");
    command.arg("--no-cuda-graphs").env("FAKE_CUDA_LOG", &log).assert().success();
    let iou = setting.against_cpu("apart");
    assert!(iou > 0.9, "{iou}");
    let text = fs::read_to_string(&log).unwrap();
    for kernel in ["attention_self", "attention_cross", "mask_words"] {
        assert!(text.contains(kernel), "{kernel}");
    }
    // The same as where device memory is the host's.
    let mut command = setting.gpu("shared");
    command.arg("--no-cuda-graphs").env_remove("FAKE_CUDA_APART").assert().success();
    assert!(frames_of(&setting.path("shared")) == frames_of(&setting.path("apart")));

    setting.gpu("recorded").assert().code(1);
    let reason = column(&setting.path("recorded/sav_benchmark_summary.csv"), "reason").remove(0);
    assert!(reason.contains("could not record a CUDA graph"), "{reason}");
}

/// The profiles for each fill level have shapes of their own, and a padded graph takes a bias.
#[test]
fn plans_of_real_graphs_have_the_shapes_of_their_profiles_in_either_track_variant() {
    let Some(setting) = Setting::new() else { return };
    let small = "onnx/bundles/edgetam_mini_256_fp32";
    setting.cpu(small, "256");
    for variant in ["padded", "per-fill-level"] {
        setting.build(Path::new(small), "256", "fp32", variant).assert().success();
        let mut command = setting.gpu(variant);
        command.args(["--no-cuda-graphs", "--track-variant", variant]).assert().success();
        let iou = setting.against_cpu(variant);
        assert!(iou > 0.999, "{variant}: {iou}");
    }
}

/// What the two tests above stand on.
#[test]
fn a_host_that_touches_the_memory_of_a_device_that_is_apart_crashes() {
    let Some(setting) = Setting::new() else { return };
    let small = "onnx/bundles/edgetam_mini_256_fp32";
    setting.build(Path::new(small), "256", "fp32", "padded").assert().success();
    let mut command = setting.gpu("out");
    command.arg("--no-cuda-graphs").env("FAKE_CUDA_APART", "2").assert().code(1);
    let reason = column(&setting.path("out/sav_benchmark_summary.csv"), "reason").remove(0);
    assert!(reason.contains("killed by signal 11"), "{reason}");
}
