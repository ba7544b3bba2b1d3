//! The track step that is cut at its attentions, on stand-ins: a hand-made network of the kernels' widths
//! (`tests/data/fused`) runs whole on the CPU, and in pieces of fp16 with attention between them in
//! the pipeline.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;
use vos::bundle::Role;
use vos::precision::Precision;

use crate::selftest::fakes::{Engines, Fakes, shared};
use crate::support::{Frame, bench, column, frames_of, synth};

/// Two layers: five segments.
const FUSED: [Role; 9] = [
    Role::Encoder,
    Role::Prompt,
    Role::TrackKeys,
    Role::TrackSeg0,
    Role::TrackSeg1,
    Role::TrackSeg2,
    Role::TrackSeg3,
    Role::TrackSeg4,
    Role::Memory,
];
/// More than fill a bank of 16 pointers and go once around its memories.
const FRAMES: usize = 26;

struct Setting {
    dir: tempfile::TempDir,
    split: PathBuf,
    fakes: &'static Fakes,
}

impl Setting {
    /// None, said aloud, where there is no compiler.
    fn new(objects: usize) -> Option<Self> {
        let fakes = shared()?;
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 1, objects, FRAMES);
        let setting = Self { dir, split, fakes };
        setting.engines(Precision::Fp16, &FUSED);
        let mut command = bench(&setting.split, &setting.path("cpu"));
        command
            .arg("--save-masks")
            .arg("--onnx-dir")
            .arg("tests/data/fused")
            .args(["--imgsz", "64"]);
        command.assert().success();
        Some(setting)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn engines(&self, precision: Precision, roles: &[Role]) -> PathBuf {
        let plans: Vec<_> = roles.iter().map(|role| (*role, "ok")).collect();
        Engines::of(&self.path("engines"), Path::new("tests/data/fused"))
            .write_live(precision, &plans)
    }

    fn gpu(&self, out: &str) -> Command {
        self.fakes.bench(&self.path("engines"), &self.split, &self.path(out))
    }

    /// The frames of all objects, object by object.
    fn frames(&self, out: &str) -> Vec<Frame> {
        frames_of(&self.path(out))
    }

    /// The lowest IoU of any frame with the CPU's mask, and the greatest difference of any score.
    fn against_cpu(&self, out: &str) -> (f64, f32) {
        let (expected, found) = (self.frames("cpu"), self.frames(out));
        assert!(expected.len() == found.len() && expected.len().is_multiple_of(FRAMES));
        let (mut iou, mut difference) = (1.0_f64, 0.0_f32);
        for (expected, found) in expected.iter().zip(&found) {
            iou = iou.min(expected.mask.to_mask().unwrap().iou(&found.mask.to_mask().unwrap()));
            difference = difference
                .max((expected.objectness - found.objectness).abs())
                .max((expected.predicted_iou - found.predicted_iou).abs());
        }
        (iou, difference)
    }
}

#[test]
fn pieces_with_attention_between_them_give_the_masks_of_the_whole() {
    let Some(setting) = Setting::new(1) else { return };
    for (out, flags) in [
        ("latency", &["--mode", "latency"][..]),
        ("calls", &["--no-cuda-graphs"]),
        ("throughput", &["--mode", "throughput", "--encode-ahead", "4"]),
    ] {
        for seed in ["0", "7"] {
            let mut command = setting.gpu(out);
            command.args(flags).env("FAKE_CUDA_SEED", seed).assert().success();
            let (iou, difference) = setting.against_cpu(out);
            assert!(iou > 0.98 && difference < 0.02, "{out}, seed {seed}: {iou} {difference}");
        }
    }
    let backend = column(&setting.path("latency/sav_benchmark_summary.csv"), "backend");
    assert_eq!(backend, ["tensorrt 8.6.1 fp16 segmented graph"]);
}

#[test]
fn objects_on_one_stream_and_on_several_keep_their_banks_apart() {
    let Some(setting) = Setting::new(2) else { return };
    setting.gpu("alone").assert().success();
    let alone = setting.frames("alone");
    assert_eq!(alone.len(), 2 * FRAMES);
    for (out, flags) in [
        ("one", &["--objects-together", "2"][..]),
        ("streams", &["--objects-together", "2", "--object-streams", "--mode", "throughput"]),
    ] {
        setting.gpu(out).args(flags).env("FAKE_CUDA_SEED", "3").assert().success();
        assert!(setting.frames(out) == alone, "{out}");
    }
}

#[test]
fn a_steady_frame_has_one_graph_for_all_pieces_and_no_bias() {
    let Some(setting) = Setting::new(1) else { return };
    let log = setting.path("log");
    setting.gpu("out").env("FAKE_CUDA_LOG", &log).assert().success();
    let text = fs::read_to_string(&log).unwrap();
    let resets: Vec<usize> = text.match_indices("bank_reset 1\n").map(|(at, _)| at).collect();
    let (warmup, pass) = (&text[resets[1]..resets[2]], &text[resets[2]..]);
    let count = |log: &str, word: &str| log.lines().filter(|line| line.starts_with(word)).count();
    // Encoder, prompt, track while the bank fills and track when it is full, seven slots.
    assert_eq!(count(warmup, "instantiate"), 4 + 7);
    // Both kinds of track graph: enqueued and recorded, two layers each.
    assert_eq!(count(warmup, "attention_self_hopper"), 2 * 2 * 2);
    // Only while the bank fills is there a bias.
    assert_eq!(count(warmup, "attention_cross_biased_hopper"), 2 * 2);
    assert_eq!(count(warmup, "attention_cross_hopper"), 2 * 2);
    assert_eq!(
        (count(pass, "graph"), count(pass, "alloc"), count(pass, "attention")),
        (3 * FRAMES, 0, 0)
    );
}

#[test]
fn engines_restricted_to_ampere_run_no_kernel_of_hopper_and_say_so() {
    let Some(setting) = Setting::new(1) else { return };
    let file = setting.engines(Precision::Fp16, &FUSED).join("engine.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for plan in manifest["plans"].as_array_mut().unwrap() {
        plan["settings"]["ampere_plus"] = true.into();
    }
    fs::write(&file, manifest.to_string()).unwrap();
    let log = setting.path("log");
    setting.gpu("out").env("FAKE_CUDA_LOG", &log).assert().success();
    let text = fs::read_to_string(&log).unwrap();
    assert!(!text.contains("_hopper") && text.contains("attention_self"), "{text}");
    let (iou, difference) = setting.against_cpu("out");
    assert!(iou > 0.98 && difference < 0.02, "{iou} {difference}");
    let backend = column(&setting.path("out/sav_benchmark_summary.csv"), "backend");
    assert_eq!(backend, ["tensorrt 8.6.1 fp16 segmented ampere+ graph"]);
}

/// Track step and encoder have modules of attention of their own; this encoder needs none.
#[test]
fn a_refused_module_of_the_encoders_attention_changes_no_kernel_of_the_track_step() {
    let Some(setting) = Setting::new(1) else { return };
    let log = setting.path("log");
    let run = |refused: &str| {
        let _ = fs::remove_file(&log);
        let mut command = setting.gpu("out");
        command.env("FAKE_REFUSES", refused).env("FAKE_CUDA_LOG", &log);
        let told = command.assert().success().get_output().stderr.clone();
        let told = String::from_utf8_lossy(&told);
        assert!(!told.contains("for Hopper of the encoder cannot"), "{told}");
        let warned = told.contains("for Hopper of the track step cannot");
        (fs::read_to_string(&log).unwrap().contains("attention_cross_hopper"), warned)
    };
    assert_eq!(run("attention_global_64_hopper"), (true, false));
    assert_eq!(run("attention_self_hopper"), (false, true));
}

/// The comparison with the CPU must be able to fail.
#[test]
fn a_bias_that_masks_nothing_is_found() {
    let Some(setting) = Setting::new(1) else { return };
    setting.gpu("out").env("FAKE_FAULT", "attention_has_no_bias").assert().success();
    let (iou, difference) = setting.against_cpu("out");
    assert!(iou < 0.95 || difference > 0.05, "{iou} {difference}");
}

#[test]
fn engines_that_the_kernels_do_not_take_are_refused_with_what_to_do() {
    let Some(setting) = Setting::new(1) else { return };
    let fails = |more: &[&str], said: &str| {
        let output = setting.gpu("out").args(more).output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(said), "{said:?} is not in {text}");
    };
    fails(
        &["--track-variant", "padded"],
        "there is no track_padded engine; build it with: segtrt build-engines",
    );
    let without_last: Vec<Role> =
        FUSED.into_iter().filter(|role| *role != Role::TrackSeg4).collect();
    setting.engines(Precision::Fp16, &without_last);
    fails(&[], "the outputs of the track_seg3 engine do not say what comes next");
    fs::remove_dir_all(setting.path("engines")).unwrap();
    setting.engines(Precision::Fp32, &FUSED);
    fails(&[], "the attention kernels take fp16; build the engines with --precision fp16");
}
