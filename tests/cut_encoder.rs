//! An encoder in parts, on stand-ins: the hand-made network of `tests/data/fused` with its encoder
//! cut in four (`tests/data/cut`) runs whole on the CPU, and in parts in the pipeline.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use runtime::engine::EngineManifest;
use vos::bundle::Role;
use vos::precision::Precision;

use crate::build_engines::stand_in;
use crate::build_line;
use crate::selftest::fakes::{Engines, Fakes, shared};
use crate::support::{
    Frame, bench, column, copy, frames_of, lowest_iou, require_onnxruntime, segtrt, synth,
};

const PARTS: [Role; 4] =
    [Role::EncoderCut0, Role::EncoderCut1, Role::EncoderCut2, Role::EncoderCut3];
const STEPS: [Role; 3] = [Role::Prompt, Role::Track, Role::Memory];
/// More than fill a bank of 16 pointers.
const FRAMES: usize = 20;

struct Setting {
    dir: tempfile::TempDir,
    split: PathBuf,
    fakes: &'static Fakes,
}

/// The hand-made bundle with the parts in its manifest.
fn bundle(dir: &Path) -> PathBuf {
    let bundle = dir.join("onnx/edgetam_mini_64_fp32");
    copy(Path::new("tests/data/fused"), &bundle);
    let path = bundle.join("manifest.toml");
    let parts = fs::read_to_string("tests/data/cut/parts.toml").unwrap();
    fs::write(&path, fs::read_to_string(&path).unwrap() + "\n" + &parts).unwrap();
    bundle
}

/// The parts' files beside it.
fn add_parts(bundle: &Path) {
    for role in PARTS {
        let file = format!("{}.onnx", role.name());
        fs::copy(Path::new("tests/data/cut").join(&file), bundle.join(&file)).unwrap();
    }
}

fn with_steps(encoder: &[Role]) -> Vec<Role> {
    encoder.iter().chain(&STEPS).copied().collect()
}

impl Setting {
    /// With engines of the parts; none, said aloud, where there is no compiler.
    fn new() -> Option<Self> {
        let fakes = shared()?;
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 1, 2, FRAMES);
        let setting = Self { dir, split, fakes };
        let bundle = bundle(setting.dir.path());
        let mut command = bench(&setting.split, &setting.path("cpu"));
        command.arg("--save-masks").arg("--onnx-dir").arg(&bundle).args(["--imgsz", "64"]);
        // The parts are none of its business: their files are not even there.
        command.assert().success();
        add_parts(&bundle);
        setting.engines(Precision::Fp32, &with_steps(&PARTS));
        Some(setting)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn engines(&self, precision: Precision, roles: &[Role]) -> PathBuf {
        let _ = fs::remove_dir_all(self.path("engines"));
        let plans: Vec<_> = roles.iter().map(|role| (*role, "ok")).collect();
        Engines::of(&self.path("engines"), &self.path("onnx/edgetam_mini_64_fp32"))
            .write_live(precision, &plans)
    }

    fn gpu(&self, out: &str) -> Command {
        self.fakes.bench(&self.path("engines"), &self.split, &self.path(out))
    }

    fn column(&self, out: &str, name: &str) -> Vec<String> {
        column(&self.path(out).join("sav_benchmark_summary.csv"), name)
    }

    /// The frames of all objects, object by object.
    fn frames(&self, out: &str) -> Vec<Frame> {
        frames_of(&self.path(out))
    }

    /// The encoder's plans that the sidecar names.
    fn encoders(&self, out: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(out).join("sidecar.json")).unwrap();
        let sidecar: serde_json::Value = serde_json::from_str(&text).unwrap();
        let graphs = sidecar["graphs"].as_object().unwrap().keys();
        let names = graphs.filter_map(|path| path.rsplit('/').next());
        names.filter(|name| name.starts_with("encoder")).map(str::to_owned).collect()
    }

    /// The lowest IoU of any frame with the CPU's mask.
    fn against_cpu(&self, out: &str) -> f64 {
        let (expected, found) = (self.frames("cpu"), self.frames(out));
        assert_eq!(expected.len(), 2 * FRAMES);
        lowest_iou(&expected, &found)
    }
}

#[test]
fn parts_give_the_masks_of_the_whole_however_many_frames_are_encoded_ahead() {
    let Some(setting) = Setting::new() else { return };
    setting.gpu("alone").assert().success();
    let alone = setting.frames("alone");
    let iou = setting.against_cpu("alone");
    assert!(iou > 0.999, "{iou}");
    assert_eq!(setting.encoders("alone"), [0, 1, 2, 3].map(|k| format!("encoder_cut{k}.plan")));
    for (out, flags) in [
        ("calls", &["--no-cuda-graphs"][..]),
        ("throughput", &["--mode", "throughput", "--encode-ahead", "4"]),
        ("ahead", &["--mode", "throughput", "--encode-ahead", "4", "--no-cuda-graphs"]),
        ("objects", &["--mode", "throughput", "--objects-together", "2", "--object-streams"]),
    ] {
        // Lazy streams; one of them rushing ahead; any order.
        for seed in ["0", "2", "3", "4", "77"] {
            let mut command = setting.gpu(out);
            command.args(flags).env("FAKE_CUDA_SEED", seed).assert().success();
            assert!(setting.frames(out) == alone, "{out}, seed {seed}");
        }
    }
    let shares: f64 = setting.column("throughput", "encoder_ms")[0].parse().unwrap();
    assert!(shares > 0.0);
}

#[test]
fn halves_go_from_part_to_part_and_on_into_the_cut_track_step() {
    let Some(setting) = Setting::new() else { return };
    let segments = Role::SEGMENTS.into_iter().take(5);
    let track = [Role::Prompt, Role::TrackKeys, Role::Memory].into_iter().chain(segments);
    let roles: Vec<Role> = PARTS.into_iter().chain(track).collect();
    setting.engines(Precision::Fp16, &roles);
    setting.gpu("out").assert().success();
    let iou = setting.against_cpu("out");
    // The encoder in one piece has 0.971: halves move masks of this network so far.
    assert!(iou > 0.95, "{iou}");
    assert_eq!(setting.column("out", "backend")[0], "tensorrt 8.6.1 fp16 segmented graph");
}

#[test]
fn a_steady_frame_has_one_graph_for_all_parts_and_takes_no_memory() {
    let Some(setting) = Setting::new() else { return };
    let log = setting.path("log");
    let mut command = setting.gpu("out");
    command.args(["--limit-objects", "1"]).env("FAKE_CUDA_LOG", &log).assert().success();
    let text = fs::read_to_string(&log).unwrap();
    let resets: Vec<usize> = text.match_indices("bank_reset 1\n").map(|(at, _)| at).collect();
    let pass = &text[*resets.last().unwrap()..];
    let count = |word: &str| pass.lines().filter(|line| line.starts_with(word)).count();
    // Encoder, prompt or track, memory.
    assert_eq!((count("graph"), count("alloc"), count("instantiate")), (3 * FRAMES, 0, 0));
}

#[test]
fn the_encoder_in_one_piece_is_taken_where_it_was_built_and_a_part_that_is_not_there_is_named() {
    let Some(setting) = Setting::new() else { return };
    let all: Vec<Role> = [Role::Encoder].into_iter().chain(PARTS).collect();
    let dir = setting.engines(Precision::Fp32, &with_steps(&all));
    // Nobody opens the parts.
    fs::write(dir.join("encoder_cut1.plan"), "no plan").unwrap();
    setting.gpu("whole").assert().success();
    assert!(setting.against_cpu("whole") == 1.0);
    assert_eq!(setting.encoders("whole"), ["encoder.plan"]);

    let said = |out: &str| {
        setting.gpu(out).assert().code(1);
        setting.column(out, "reason").remove(0)
    };
    setting.engines(Precision::Fp32, &with_steps(&[PARTS[0], PARTS[1], PARTS[3]]));
    let reason = said("missing");
    assert!(
        reason.contains("has no encoder_cut2 engine; build it with: segtrt build-engines"),
        "{reason}"
    );
    // Parts that were made up to fit no longer: the bundle in engine.json tells, before anything
    // runs.
    let dir = setting.engines(Precision::Fp32, &with_steps(&PARTS));
    let path = dir.join("engine.json");
    let text = fs::read_to_string(&path).unwrap();
    let at = text.rfind("\"m\"").unwrap();
    fs::write(&path, format!("{}\"n\"{}", &text[..at], &text[at + 3..])).unwrap();
    let reason = said("unknown");
    assert!(
        reason.contains(
            "encoder_cut3 takes 'n', which no earlier part has as an \
                             output"
        ),
        "{reason}"
    );
}

#[test]
fn the_selftest_compares_each_part() {
    let Some(setting) = Setting::new() else { return };
    let csv = setting.path("rows.csv");
    let selftest = || {
        let mut command = setting.fakes.selftest(&setting.path("engines"));
        command.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime());
        command.arg("--onnx-dir").arg(setting.path("onnx")).arg("--csv").arg(&csv);
        command
    };
    setting.engines(Precision::Fp32, &PARTS);
    selftest().assert().success().stdout(contains("7 of 7 rows passed, 0 failed"));
    let rows = || -> Vec<[String; 3]> {
        let [roles, outputs, verdicts] =
            ["role", "output", "verdict"].map(|name| column(&csv, name));
        let rows = roles.into_iter().zip(outputs).zip(verdicts);
        rows.map(|((role, output), verdict)| [role, output, verdict]).collect()
    };
    let mut found = rows();
    found.sort();
    let expected = [
        ("encoder_cut0", "hr0"),
        ("encoder_cut0", "m"),
        ("encoder_cut0", "y"),
        ("encoder_cut1", "hr1"),
        ("encoder_cut1", "y"),
        ("encoder_cut2", "y"),
        ("encoder_cut3", "feat"),
    ];
    assert_eq!(found, expected.map(|(role, output)| [role, output, "passed"].map(String::from)));

    // A part that computes something else is found, and it alone.
    let bundle = setting.path("onnx/edgetam_mini_64_fp32");
    let dir = setting.path("other");
    copy(&bundle, &dir);
    let scaled = scaled_constant(&fs::read(dir.join("encoder_cut2.onnx")).unwrap());
    fs::write(dir.join("encoder_cut2.onnx"), scaled).unwrap();
    let _ = fs::remove_dir_all(setting.path("engines"));
    Engines::of(&setting.path("engines"), &dir)
        .write_live(Precision::Fp32, &PARTS.map(|role| (role, "ok")));
    selftest().assert().code(1);
    let failed: Vec<_> = rows().into_iter().filter(|row| row[2] == "failed").collect();
    assert_eq!(failed, [["encoder_cut2", "y", "failed"].map(String::from)]);
}

/// The graph with its one factor, a half, made a quarter.
fn scaled_constant(onnx: &[u8]) -> Vec<u8> {
    let (half, quarter) = (0.5_f32.to_le_bytes(), 0.25_f32.to_le_bytes());
    let at = onnx.windows(4).position(|bytes| bytes == half).unwrap();
    [&onnx[..at], &quarter, &onnx[at + 4..]].concat()
}

#[test]
fn parts_are_built_in_place_of_the_whole_unless_it_is_named() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let bundle = bundle(dir.path());
    let Some(tensorrt) = stand_in(dir.path()) else { return };
    let planned = |flags: &[&str]| -> Vec<String> {
        let mut command = segtrt();
        command.env("LD_LIBRARY_PATH", fakes.dir());
        command.args(["build-engines", "--platform", "h200", "--models", "edgetam_mini"]);
        command
            .args(["--imgsz", "64", "--track-variant", "per-fill-level", "--precision", "fp16"])
            .args(flags);
        command.args(["--dry-run", "--json", "--onnx-dir"]).arg(&bundle);
        command.arg("--out").arg(dir.path().join("engines")).arg("--tensorrt-lib").arg(&tensorrt);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let plans = plan["plans"].as_array().unwrap().iter();
        plans.map(|plan| plan["role"].as_str().unwrap().to_owned()).collect()
    };
    let parts = PARTS.map(Role::name);
    let expected: Vec<&str> = parts.into_iter().chain(["prompt", "track", "memory"]).collect();
    assert_eq!(planned(&[]), expected);
    assert_eq!(planned(&["--graphs", "encoder"]), ["encoder"]);
    assert_eq!(planned(&["--graphs", "encoder_cut2"]), ["encoder_cut2"]);
}

/// Else bench refuses it for ever, with a command that builds the parts.
#[test]
fn a_whole_that_cannot_run_any_more_goes_when_the_parts_are_there_and_a_sound_one_stays() {
    let Some(fakes) = build_line::fakes() else { return };
    let dir = tempfile::tempdir().unwrap();
    let bundle = bundle(dir.path());
    add_parts(&bundle);
    let build = |flags: &[&str]| {
        let mut command = segtrt();
        command.env("LD_LIBRARY_PATH", fakes);
        command.args(["build-engines", "--platform", "h200", "--models", "edgetam_mini"]);
        command
            .args(["--imgsz", "64", "--track-variant", "per-fill-level", "--precision", "fp32"])
            .args(flags);
        command.arg("--onnx-dir").arg(&bundle).arg("--out").arg(dir.path().join("engines"));
        command.arg("--tensorrt-lib").arg(fakes).assert().success()
    };
    let folder = dir.path().join("engines/h200/edgetam_mini_64_fp32");
    let whole = folder.join("encoder.plan");
    let is_recorded = || {
        let manifest = EngineManifest::read(&folder).unwrap().unwrap();
        assert!(PARTS.iter().all(|part| manifest.plan(*part).is_some()));
        manifest.plan(Role::Encoder).is_some()
    };
    build(&["--graphs", "encoder"]);
    build(&[]).stderr(contains("bench runs").and(contains("encoder.plan")));
    assert!(is_recorded() && whole.exists());

    // As of an earlier TensorRT; nothing else is to be built.
    let mut manifest = EngineManifest::read(&folder).unwrap().unwrap();
    let record = manifest.plans.iter_mut().find(|plan| plan.role == Role::Encoder).unwrap();
    record.made_by.tensorrt = "TensorRT 8.5.0".into();
    manifest.write(&folder).unwrap();
    build(&["--graphs", "prompt"]);
    assert!(is_recorded());
    build(&[]).stderr(contains("replaced by its parts: it was built by TensorRT 8.5.0"));
    assert!(!is_recorded() && !whole.exists());

    // The way back to the parts.
    build(&["--graphs", "encoder"]);
    assert!(is_recorded());
    fs::remove_file(&whole).unwrap();
    build(&[]).stderr(contains("its file cannot be read"));
    assert!(!is_recorded());
}
