//! EdgeTAM's encoder with RepViT's blocks computed by this program, on stand-ins: the committed
//! network runs whole on the CPU, and in the pipeline as stem, blocks and neck
//! (`tests/data/repvit`): stem and neck as engines, or as kernels like the blocks.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use runtime::engine::open_part;
use vos::bundle::{Bundle, PartGraph, Role, Trunk};
use vos::files::sha256_of_file;
use vos::precision::Precision;

use crate::selftest::fakes::{Engines, Fakes, shared};
use crate::support::{
    Frame, bench, column, frames_of, lowest_iou, require_onnxruntime, small_bundle, synth,
};
use crate::trunk_bundle::{ENCODER, Yard};

const WEIGHTS: &str = "encoder_trunk.safetensors";
const PARTS: [Role; 2] = [Role::EncoderCut0, Role::EncoderCut1];
const STEPS: [Role; 3] = [Role::Prompt, Role::Track, Role::Memory];
/// A prompted frame and a tracked one: the emulated kernels need a second for each.
const FRAMES: usize = 2;
const BUNDLE: &str = "onnx/edgetam_mini_256_fp16";

/// Writes the bundle; none, said aloud, where Python's onnx is not installed.
fn repvit_bundle(bundle: &Path) -> Option<()> {
    made(bundle, &[])
}

/// The same with the weights of stem and neck.
fn whole_bundle(bundle: &Path) -> Option<()> {
    made(bundle, &["whole"])
}

fn made(bundle: &Path, more: &[&str]) -> Option<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = root.join("tests/data/repvit/make_bundle.py");
    let mut python = Process::new(root.join(".venv/bin/python"));
    python.arg(script).arg(small_bundle()).arg(bundle).args(more);
    let Ok(output) = python.output() else {
        eprintln!("SKIPPED: no Python in .venv; `make test` installs it");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(())
}

struct Setting {
    dir: tempfile::TempDir,
    split: PathBuf,
    fakes: &'static Fakes,
}

impl Setting {
    /// With engines of stem and neck; none, said aloud, where there is no compiler or no Python.
    fn new() -> Option<Self> {
        let setting = Self::of(repvit_bundle)?;
        setting.engines(&PARTS);
        Some(setting)
    }

    /// Without engines.
    fn of(make: impl Fn(&Path) -> Option<()>) -> Option<Self> {
        let fakes = shared()?;
        let dir = tempfile::tempdir().unwrap();
        make(&dir.path().join(BUNDLE))?;
        let split = synth(dir.path(), 1, 1, FRAMES);
        Some(Self { dir, split, fakes })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The folder of the engines, with the trunk's weights beside them as a build leaves them.
    fn engines(&self, encoder: &[Role]) -> PathBuf {
        self.engines_in(encoder, Precision::Fp32)
    }

    fn engines_in(&self, encoder: &[Role], precision: Precision) -> PathBuf {
        let _ = fs::remove_dir_all(self.path("engines"));
        let plans: Vec<_> = encoder.iter().chain(&STEPS).map(|role| (*role, "ok")).collect();
        let engines = Engines::of(&self.path("engines"), &self.path(BUNDLE));
        let dir = engines.write_live(precision, &plans);
        fs::copy(self.path(BUNDLE).join(WEIGHTS), dir.join(WEIGHTS)).unwrap();
        dir
    }

    /// No block needs cuBLASLt.
    fn gpu(&self, out: &str) -> Command {
        let mut command = self.fakes.bench(&self.path("engines"), &self.split, &self.path(out));
        command.env("SEGTRT_CUBLASLT_LIB", self.path("none"));
        command
    }

    fn frames(&self, out: &str) -> Vec<Frame> {
        frames_of(&self.path(out))
    }
}

#[test]
fn stem_blocks_and_neck_give_the_masks_of_the_whole() {
    let Some(setting) = Setting::new() else { return };
    bench(&setting.split, &setting.path("cpu")).arg("--save-masks").assert().success();
    let log = setting.path("log");
    setting.gpu("alone").env("FAKE_CUDA_LOG", &log).assert().success();
    let alone = setting.frames("alone");
    let table = setting.path("alone").join("sav_benchmark_summary.csv");
    assert_eq!(column(&table, "backend")[0], "tensorrt 8.6.1 fp32 per-fill-level trunk graph");
    let expected = setting.frames("cpu");
    assert_eq!(expected.len(), FRAMES);
    let iou = lowest_iou(&expected, &alone);
    assert!(iou > 0.95, "{iou}");
    // Recorded once: a steady frame launches graphs, of encoder, prompt or track, and memory.
    let text = fs::read_to_string(&log).unwrap();
    let (before, pass) = text.rsplit_once("bank_reset 1\n").unwrap();
    let count = |log: &str, word: &str| log.lines().filter(|line| line.starts_with(word)).count();
    assert!(count(before, "repvit_") > 0);
    assert_eq!((count(pass, "graph"), count(pass, "alloc")), (3 * FRAMES, 0));
    assert_eq!(count(pass, "repvit_"), 0);
    // Frames encoded ahead, on streams that run in any order.
    let mut ahead = setting.gpu("ahead");
    ahead.args(["--mode", "throughput", "--encode-ahead", "2"]).env("FAKE_CUDA_SEED", "3");
    ahead.assert().success();
    assert!(setting.frames("ahead") == alone);
}

#[test]
fn the_selftest_compares_stem_neck_and_all_of_it() {
    let Some(setting) = Setting::new() else { return };
    let csv = setting.path("rows.csv");
    setting.engines(&[Role::Encoder, Role::EncoderCut0, Role::EncoderCut1]);
    let mut selftest = setting.fakes.selftest(&setting.path("engines"));
    selftest.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime()).arg("--no-clip");
    selftest.arg("--onnx-dir").arg(setting.path("onnx"));
    selftest.arg("--onnx-dir").arg(small_bundle()).arg("--csv").arg(&csv);
    selftest.assert().success().stdout(contains(" 0 failed"));
    let joined = column(&csv, "case").into_iter().filter(|case| case.starts_with("joined"));
    assert_eq!(joined.count(), 3, "feat, hr0, hr1");
}

#[test]
fn tokens_of_another_type_than_the_blocks_are_refused() {
    let Some(setting) = Setting::new() else { return };
    // A stem whose tokens are not the halves of its graph.
    let dir = setting.engines(&PARTS);
    let (plan, manifest) = (dir.join("encoder_cut0.plan"), dir.join("engine.json"));
    let hash = || sha256_of_file(&plan).unwrap().sha256;
    let (text, before) = (fs::read_to_string(&plan).unwrap(), hash());
    assert!(text.contains("out y 1 f16 "));
    fs::write(&plan, text.replace("out y 1 f16 ", "out y 0 f16 ")).unwrap();
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace(&before, &hash())).unwrap();
    setting.gpu("refused").assert().code(1);
    let table = setting.path("refused").join("sav_benchmark_summary.csv");
    let reason = column(&table, "reason").remove(0);
    let said = "'y' beside the encoder's trunk is fp32, its blocks take and give fp16";
    assert!(reason.contains(said) && reason.contains("segtrt build-engines"), "{reason}");
}

#[test]
fn engines_are_built_with_the_weights_and_without_cublaslt() {
    let Some(yard) = Yard::with(256, repvit_bundle) else { return };
    let mut build = yard.build(&ENCODER);
    let build = build.env("SEGTRT_CUBLASLT_LIB", yard.path("none")).assert().success();
    build.stderr(contains("cuBLASLt").not().and(contains("matmuls").not()));
    let current = ["encoder_trunk", "encoder_cut0", "encoder_cut1"];
    assert_eq!(yard.rows(&ENCODER), current.map(|graph| format!("{graph} up_to_date")));
    let weights = open_part::<Trunk>(&yard.folder(), &yard.manifest()).unwrap();
    assert!(weights.repvit_block(10).is_ok() && weights.repvit_block(11).is_err());
    let bundle = Bundle::open(&yard.bundle()).unwrap();
    let trunk = bundle.manifest.trunk.as_ref().unwrap();
    let wired = PartGraph::of(&bundle.manifest.encoder_parts(), Some(trunk)).unwrap();
    assert_eq!(wired.slots(), 4);
    let mut inspect = yard.inspect(&yard.folder());
    inspect.assert().success().stdout(contains(
        "trunk: encoder_trunk.safetensors, 0.2 MB, 11 RepViT blocks, 0.0 GFLOP; tokens after its \
         stages 64 x 64 x 16, 32 x 32 x 24, 16 x 16 x 48, 8 x 8 x 64",
    ));
    // Damaged, then mended.
    let path = yard.folder().join(WEIGHTS);
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 0x80;
    fs::write(&path, bytes).unwrap();
    let error = open_part::<Trunk>(&yard.folder(), &yard.manifest()).err().unwrap();
    assert!(format!("{error:#}").contains("is damaged or another file: found sha256"), "{error:#}");
    assert_eq!(yard.rows(&ENCODER)[0], "encoder_trunk copied");
    assert!(open_part::<Trunk>(&yard.folder(), &yard.manifest()).is_ok());
}

#[test]
fn kernels_alone_give_the_masks_of_the_whole() {
    let Some(setting) = Setting::of(whole_bundle) else { return };
    bench(&setting.split, &setting.path("cpu")).arg("--save-masks").assert().success();
    setting.engines_in(&[], Precision::Fp16);
    let log = setting.path("log");
    setting.gpu("kernels").env("FAKE_CUDA_LOG", &log).assert().success();
    let backend = |out: &str| {
        column(&setting.path(out).join("sav_benchmark_summary.csv"), "backend").remove(0)
    };
    assert_eq!(backend("kernels"), "tensorrt 8.6.1 fp16 per-fill-level encoder graph");
    let kernels = setting.frames("kernels");
    let iou = lowest_iou(&setting.frames("cpu"), &kernels);
    assert!(iou > 0.95, "{iou}");
    let text = fs::read_to_string(&log).unwrap();
    let (before, pass) = text.rsplit_once("bank_reset 1\n").unwrap();
    assert!(before.contains("repvit_stem"));
    assert!(before.lines().any(|line| line.starts_with("neck ")));
    let count = |word: &str| pass.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((count("graph"), count("alloc"), count("repvit_")), (3 * FRAMES, 0, 0));
    // Engines that somebody built run in their place.
    setting.engines_in(&PARTS, Precision::Fp16);
    setting.gpu("engines").assert().success();
    assert_eq!(backend("engines"), "tensorrt 8.6.1 fp16 per-fill-level trunk graph");
    let iou = lowest_iou(&setting.frames("engines"), &kernels);
    assert!(iou > 0.98, "{iou}");
}

#[test]
fn no_engine_of_the_encoder_is_built_where_kernels_compute_all_of_it() {
    let Some(yard) = Yard::with(256, whole_bundle) else { return };
    yard.build(&[]).assert().success();
    let rows = yard.rows(&[]);
    assert!(rows.iter().all(|row| !row.starts_with("encoder_cut")), "{rows:?}");
    assert!(!rows.iter().any(|row| row.starts_with("encoder up")), "{rows:?}");
    assert_eq!(rows[0], "encoder_trunk up_to_date");
    let weights = open_part::<Trunk>(&yard.folder(), &yard.manifest()).unwrap();
    assert!(weights.stem_and_neck().is_ok());
    assert!(yard.manifest().stem_and_neck().is_some());
    let inspect = || yard.inspect(&yard.folder()).assert().success();
    inspect().stdout(contains("11 RepViT blocks with stem and neck, "));
    // Engines are built for whoever names them, and run then.
    yard.build(&ENCODER).assert().success();
    assert!(yard.manifest().stem_and_neck().is_none());
    inspect().stdout(contains("11 RepViT blocks, "));
    let note = "bench runs the engine of the encoder's stem, ";
    yard.build(&[]).assert().success().stderr(contains(note).and(contains("the CUDA kernels")));
    for plan in ["encoder_cut0.plan", "encoder_cut1.plan"] {
        fs::remove_file(yard.folder().join(plan)).unwrap();
    }
    yard.build(&[]).assert().success();
    assert!(yard.manifest().stem_and_neck().is_some());
}
