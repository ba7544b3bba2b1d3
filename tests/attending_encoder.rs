//! An encoder that is cut at its attentions, on stand-ins: the hand-made network of `tests/data/fused` with an encoder that
//! attends over its whole map (`tests/data/attending`) runs whole on the CPU, and in the pipeline in parts with this program's
//! kernels between them.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::str::contains;
use segtrt::bundle::Role;
use segtrt::engine::Precision;
use serde_json::Value;

use crate::build_engines::stand_in;
use crate::selftest::fakes::{Engines, Fakes, shared};
use crate::support::{
    Frame, bench, column, copy, frames_of, lowest_iou, require_onnxruntime, segtrt, synth,
};

const PARTS: [Role; 4] =
    [Role::EncoderCut0, Role::EncoderCut1, Role::EncoderCut2, Role::EncoderCut3];
const STEPS: [Role; 3] = [Role::Prompt, Role::Track, Role::Memory];
/// More than fill a bank of 16 pointers.
const FRAMES: usize = 20;

/// The bundle that is cut, and one of the same model in fp32 that is not.
const CUT: &str = "onnx/edgetam_mini_64_fp16";
const WHOLE: &str = "onnx/edgetam_mini_64_fp32";

struct Setting {
    dir: tempfile::TempDir,
    split: PathBuf,
    fakes: &'static Fakes,
}

/// `tests/data/fused` with the encoder that attends, whole, and with its parts where `cut`.
fn bundle(bundle: &Path, cut: bool) {
    copy(Path::new("tests/data/fused"), bundle);
    copy(Path::new("tests/data/attending"), bundle);
    let graphs = fs::read_to_string(bundle.join("graphs.toml")).unwrap();
    let graphs: Vec<&str> = graphs.split("[[graph]]").filter(|graph| !graph.is_empty()).collect();
    let path = bundle.join("manifest.toml");
    let manifest = fs::read_to_string(&path).unwrap();
    let manifest = manifest.replace("\"fp32\"", if cut { "\"fp16\"" } else { "\"fp32\"" });
    let others: Vec<&str> = manifest.split("[[graph]]").collect();
    let others = others.into_iter().filter(|graph| !graph.contains("role = \"encoder\""));
    let added = &graphs[..if cut { graphs.len() } else { 1 }];
    let all: Vec<&str> = others.chain(added.iter().copied()).collect();
    fs::write(&path, all.join("[[graph]]")).unwrap();
}

impl Setting {
    /// With engines of the parts; none, said aloud, where there is no compiler.
    fn new() -> Option<Self> {
        let fakes = shared()?;
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 1, 2, FRAMES);
        let setting = Self { dir, split, fakes };
        bundle(&setting.path(CUT), true);
        bundle(&setting.path(WHOLE), false);
        let mut command = bench(&setting.split, &setting.path("cpu"));
        command.arg("--save-masks").arg("--onnx-dir").arg(setting.path(WHOLE));
        command.args(["--imgsz", "64"]).assert().success();
        setting.engines(Precision::Fp32, &PARTS, &STEPS);
        Some(setting)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn engines(&self, precision: Precision, encoder: &[Role], steps: &[Role]) -> PathBuf {
        let _ = fs::remove_dir_all(self.path("engines"));
        let plans: Vec<_> = encoder.iter().chain(steps).map(|role| (*role, "ok")).collect();
        Engines::of(&self.path("engines"), &self.path(CUT)).write_live(precision, &plans)
    }

    fn gpu(&self, out: &str) -> Command {
        self.fakes.bench(&self.path("engines"), &self.split, &self.path(out))
    }

    /// The frames of all objects, object by object.
    fn frames(&self, out: &str) -> Vec<Frame> {
        frames_of(&self.path(out))
    }

    fn column(&self, out: &str, name: &str) -> Vec<String> {
        column(&self.path(out).join("sav_benchmark_summary.csv"), name)
    }

    /// The lowest IoU of any frame with the CPU's mask.
    fn against_cpu(&self, out: &str) -> f64 {
        let (expected, found) = (self.frames("cpu"), self.frames(out));
        assert_eq!(expected.len(), 2 * FRAMES);
        lowest_iou(&expected, &found)
    }
}

#[test]
fn parts_with_attention_between_them_give_the_masks_of_the_whole() {
    let Some(setting) = Setting::new() else { return };
    setting.gpu("alone").assert().success();
    let alone = setting.frames("alone");
    let iou = setting.against_cpu("alone");
    assert!(iou > 0.99, "{iou}");
    for (out, flags) in [
        ("calls", &["--no-cuda-graphs"][..]),
        ("throughput", &["--mode", "throughput", "--encode-ahead", "4"]),
        ("ahead", &["--mode", "throughput", "--encode-ahead", "4", "--no-cuda-graphs"]),
        ("objects", &["--mode", "throughput", "--objects-together", "2", "--object-streams"]),
    ] {
        // Lazy streams; one of them rushing ahead; any order.
        for seed in ["0", "3", "77"] {
            let mut command = setting.gpu(out);
            command.args(flags).env("FAKE_CUDA_SEED", seed).assert().success();
            assert!(setting.frames(out) == alone, "{out}, seed {seed}");
        }
    }
    let shares: f64 = setting.column("throughput", "encoder_ms")[0].parse().unwrap();
    assert!(shares > 0.0);
}

#[test]
fn both_cuts_together_the_encoders_and_the_track_steps() {
    let Some(setting) = Setting::new() else { return };
    let segments = Role::SEGMENTS.into_iter().take(5);
    let track = [Role::Prompt, Role::TrackKeys, Role::Memory].into_iter().chain(segments);
    setting.engines(Precision::Fp16, &PARTS, &track.collect::<Vec<_>>());
    for flags in [&[][..], &["--mode", "throughput", "--encode-ahead", "4"]] {
        setting.gpu("out").args(flags).env("FAKE_CUDA_SEED", "7").assert().success();
        let iou = setting.against_cpu("out");
        assert!(iou > 0.95, "{flags:?}: {iou}");
    }
    assert_eq!(setting.column("out", "backend")[0], "tensorrt 8.6.1 fp16 fused graph");
}

#[test]
fn a_steady_frame_has_one_graph_for_parts_and_attentions_and_takes_no_memory() {
    let Some(setting) = Setting::new() else { return };
    let log = setting.path("log");
    let mut command = setting.gpu("out");
    command.args(["--limit-objects", "1"]).env("FAKE_CUDA_LOG", &log).assert().success();
    let text = fs::read_to_string(&log).unwrap();
    let resets: Vec<usize> = text.match_indices("bank_reset 1\n").map(|(at, _)| at).collect();
    let (before, pass) = text.split_at(*resets.last().unwrap());
    let count = |log: &str, word: &str| log.lines().filter(|line| line.starts_with(word)).count();
    // Enqueued and recorded.
    assert_eq!(count(before, "attention_heads_64"), 2);
    assert_eq!(count(before, "attention_heads_128"), 2);
    assert_eq!(
        (count(pass, "graph"), count(pass, "alloc"), count(pass, "attention")),
        // Encoder, prompt or track, memory.
        (3 * FRAMES, 0, 0)
    );
}

/// The comparison with the CPU must be able to fail.
#[test]
fn an_attention_that_weighs_all_keys_alike_is_found() {
    let Some(setting) = Setting::new() else { return };
    setting.gpu("out").env("FAKE_FAULT", "attention_weighs_all_keys_alike").assert().success();
    let iou = setting.against_cpu("out");
    assert!(iou < 0.9, "{iou}");
}

#[test]
fn the_whole_is_taken_where_it_was_built_and_parts_of_other_sizes_are_refused() {
    let Some(setting) = Setting::new() else { return };
    let log = setting.path("log");
    let all: Vec<Role> = [Role::Encoder].into_iter().chain(PARTS).collect();
    for encoder in [&all[..], &all[..1]] {
        setting.engines(Precision::Fp32, encoder, &STEPS);
        setting.gpu("whole").env("FAKE_CUDA_LOG", &log).assert().success();
        assert!(setting.against_cpu("whole") == 1.0);
        assert!(!fs::read_to_string(&log).unwrap().contains("attention"));
    }

    // The bundle in engine.json tells other things than the plans, or things that no kernel takes.
    let said = |change: &dyn Fn(&mut Value)| {
        let dir = setting.engines(Precision::Fp32, &PARTS, &STEPS);
        let path = dir.join("engine.json");
        let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        for graph in document["bundle"]["graph"].as_array_mut().unwrap() {
            for way in ["input", "output"] {
                let tensors = graph[way].as_array_mut().unwrap().iter_mut();
                let halves = tensors.filter(|tensor| tensor["dtype"] == "f16");
                halves.filter(|t| t["shape"][2] == 64).for_each(change);
            }
        }
        fs::write(&path, document.to_string()).unwrap();
        setting.gpu("refused").assert().code(1);
        setting.column("refused", "reason").remove(0)
    };
    let reason = said(&|tensor| tensor["shape"][0] = 4.into());
    assert!(
        reason.contains("'q' of the attention behind encoder_cut0 is")
            && reason.contains("the attention kernels take fp16 [4, 256, 64]; build the engines"),
        "{reason}"
    );
    let reason = said(&|tensor| tensor["shape"][2] = 96.into());
    assert!(reason.contains("has q f16[2,256,96], expected q, k, v"), "{reason}");
}

/// What the exporter itself writes of a small Hiera (`tests/data/encoder_attention`); its graphs are fp32.
#[test]
fn a_hiera_that_the_exporter_cut_gives_the_masks_of_the_whole_in_halves_and_floats_are_refused() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 2, FRAMES);
    let setting = Setting { dir, split, fakes };
    let hiera = Path::new("tests/data/encoder_attention");
    let mut command = bench(&setting.split, &setting.path("cpu"));
    command.arg("--save-masks").arg("--onnx-dir").arg(hiera).args(["--imgsz", "64"]);
    command.assert().success();
    let plans: Vec<_> = PARTS.iter().chain(&STEPS).map(|role| (*role, "ok")).collect();
    let folders = Engines::of(&setting.path("engines"), hiera);
    let halves = folders.write_live(Precision::Fp16, &plans);
    setting.gpu("out").assert().success();
    let iou = setting.against_cpu("out");
    assert!(iou > 0.9, "{iou}");

    fs::remove_dir_all(halves).unwrap();
    folders.write_live(Precision::Fp32, &plans);
    setting.gpu("refused").assert().code(1);
    let reason = setting.column("refused", "reason").remove(0);
    assert!(reason.contains("the attention kernels take fp16 [2, 16, 64]"), "{reason}");
}

#[test]
fn the_selftest_compares_parts_with_the_graphs_that_they_were_built_from() {
    let Some(setting) = Setting::new() else { return };
    let csv = setting.path("rows.csv");
    let selftest = |bundles: &str| {
        let mut command = setting.fakes.selftest(&setting.path("engines"));
        command.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime()).arg("--no-clip");
        command.arg("--onnx-dir").arg(setting.path(bundles)).arg("--csv").arg(&csv);
        command
    };
    let dir = setting.engines(Precision::Fp32, &PARTS, &[]);
    selftest("onnx").assert().success().stdout(contains("15 of 15 rows passed, 0 failed"));
    let mut outputs: Vec<String> = column(&csv, "output");
    outputs.sort();
    assert_eq!(outputs.join(" "), "feat feat hr0 hr0 hr1 hr1 k k q q v v y y y");

    // The fp32 bundle alone has no parts, and nothing tells where the other one is.
    let command = selftest(WHOLE).assert().code(1);
    let said = String::from_utf8_lossy(&command.get_output().stdout).into_owned();
    assert!(said.contains("is cut otherwise"), "{said}");
    // Where the engines' manifest tells, it is found.
    let path = dir.join("engine.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    document["sources"] = serde_json::json!({ "bundle": setting.path(CUT) });
    fs::write(&path, document.to_string()).unwrap();
    selftest(WHOLE).assert().success().stdout(contains("15 of 15 rows passed, 0 failed"));
}

#[test]
fn parts_are_built_where_the_kernels_serve_and_the_whole_where_it_is_named() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join(CUT);
    bundle(&place, true);
    let Some(tensorrt) = stand_in(dir.path()) else { return };
    let planned = |flags: &[&str]| -> Vec<String> {
        let mut command = segtrt();
        command.env("LD_LIBRARY_PATH", fakes.dir());
        command.args(["build-engines", "--platform", "h200", "--models", "edgetam_mini"]);
        command.args(["--imgsz", "64", "--precision", "fp16"]).args(flags);
        command.args(["--dry-run", "--json", "--onnx-dir"]).arg(&place);
        command.arg("--out").arg(dir.path().join("engines")).arg("--tensorrt-lib").arg(&tensorrt);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
        let roles = plan["plans"].as_array().unwrap().iter();
        let roles = roles.map(|plan| plan["role"].as_str().unwrap().to_owned());
        roles.filter(|role| role.starts_with("encoder")).collect()
    };
    // Whatever the bank: the encoder's attention has nothing to do with it.
    for bank in ["fused", "exact"] {
        assert_eq!(planned(&["--bank", bank]), PARTS.map(Role::name), "{bank}");
    }
    assert_eq!(planned(&["--graphs", "encoder"]), ["encoder"]);
}
