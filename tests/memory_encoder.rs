//! The memory encoder by custom CUDA kernels, on stand-ins: `tests/data/remembered` runs
//! whole on the CPU, and in the pipeline with those kernels in the place of its memory graph's
//! engine.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use predicates::str::contains;
use runtime::engine::EngineManifest;
use safetensors::Dtype;
use vos::bundle::{Bundle, FileTensor, FusedPart, MemoryEncoderPart, MemoryEncoderShape, Role};

use crate::kernels::selftest;
use crate::own_part::{self, Own, Setting, Yard};
use crate::selftest::fakes::shared;
use crate::support::{column, copy, frames_of, require_onnxruntime, segtrt};

const BUILT: [Role; 8] = [
    Role::Encoder,
    Role::Prompt,
    Role::TrackKeys,
    Role::TrackSeg0,
    Role::TrackSeg1,
    Role::TrackSeg2,
    Role::TrackSeg3,
    Role::TrackSeg4,
];
const FILE: &str = MemoryEncoderPart::FILE;
const OWN: Own = Own {
    bundle,
    built: &BUILT,
    file: FILE,
    needs: &[],
    frames: own_part::FRAMES,
    graph: "memory_encoder",
};
const SHAPE: MemoryEncoderShape =
    MemoryEncoderShape { grid: 4, scale: 20.0, offset: -10.0, latents: false };

/// Element `at` of tensor `number`, as in `tests/data/remembered/make_bundle.py`.
fn element(tensor: &FileTensor, number: usize, at: usize) -> f32 {
    let scale = match tensor.shape.as_slice() {
        _ if tensor.name.ends_with("norm.weight")
            || tensor.name.ends_with("norm1.weight")
            || tensor.name.ends_with("norm2.weight") =>
        {
            0.3
        }
        [_] => 0.2,
        // Places first.
        [places, _] if tensor.name.ends_with("spread") => (2.0 / *places as f64).sqrt(),
        [_, columns @ ..] => (2.0 / columns.iter().product::<usize>() as f64).sqrt(),
        [] => 0.0,
    };
    let centre = if scale == 0.3 && tensor.dtype == Dtype::F32 { 1.0 } else { 0.0 };
    let place = (at % 1009) as f64;
    ((place * place * 0.1 + number as f64).sin() * scale + centre) as f32
}

fn weights() -> Vec<u8> {
    own_part::weights(MemoryEncoderPart::tensors(&SHAPE), element)
}

/// `tests/data/remembered`, whose other graphs are those of `tests/data/fused`; in `fp16` with the
/// memory encoder's weights, else as it is.
fn bundle(place: &Path, own: bool) {
    copy(Path::new("tests/data/fused"), place);
    copy(Path::new("tests/data/remembered"), place);
    if own {
        let MemoryEncoderShape { grid, scale, offset, latents } = SHAPE;
        let more =
            format!("grid = {grid}\nscale = {scale:?}\noffset = {offset:?}\nlatents = {latents}\n");
        own_part::install(place, FILE, &weights(), "memory_encoder", &more);
    }
}

#[test]
fn memories_by_kernels_give_the_masks_of_the_whole() {
    let Some(setting) = Setting::new(&OWN) else { return };
    for (out, flags) in [
        ("latency", &["--mode", "latency"][..]),
        ("calls", &["--no-cuda-graphs"]),
        ("throughput", &["--mode", "throughput", "--encode-ahead", "4"]),
    ] {
        let (mut command, log) = (setting.gpu(out), setting.path(&format!("{out}.log")));
        command.args(flags).env("FAKE_CUDA_SEED", "3").env("FAKE_CUDA_LOG", &log);
        command.assert().success();
        let iou = setting.against_cpu(out);
        assert!(iou > 0.98, "{out}: {iou}");
        let log = fs::read_to_string(&log).unwrap();
        assert!(
            log.contains("memory_encoder_convnext_mlp_proj") && !log.contains("perceiver_1d_mlp"),
            "{out}"
        );
        let backend = column(&setting.path(out).join("sav_benchmark_summary.csv"), "backend");
        assert!(backend.iter().all(|told| told.contains(" segmented memory ")), "{backend:?}");
        for (expected, found) in
            frames_of(&setting.path("cpu")).iter().zip(&frames_of(&setting.path(out)))
        {
            assert!((expected.objectness - found.objectness).abs() < 2e-3, "{out}");
        }
    }
    // Lanes have the weights on the device once.
    let (mut command, log) = (setting.gpu("lanes"), setting.path("lanes.log"));
    command.args(["--lanes", "2"]).env("FAKE_CUDA_LOG", &log).assert().success();
    assert!(frames_of(&setting.path("lanes")) == frames_of(&setting.path("latency")));
    let tensors = MemoryEncoderPart::tensors(&SHAPE);
    let bytes: usize = tensors.iter().map(|tensor| tensor.bytes().next_multiple_of(256)).sum();
    let log = fs::read_to_string(&log).unwrap();
    let count = log.lines().filter(|line| *line == format!("alloc {bytes}")).count();
    assert_eq!(count, 1, "{bytes} bytes");
    // The comparison must be able to fail: a block's MLP with the wrong sign.
    setting.gpu("faulty").env("FAKE_FAULT", "memory_mlp_has_the_wrong_sign").assert().success();
    let iou = setting.against_cpu("faulty");
    assert!(iou < 0.98, "{iou}");
}

/// A graph without the join of its branch gives old latents of windows, which the self-test finds.
#[test]
fn windows_that_nobody_waits_for_are_found() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("rows.csv");
    let mut command = selftest(fakes.dir(), &csv);
    command.args(["--topics", "memory-encoder", "--max-elements", "20000"]);
    command.env("FAKE_CUDA_JOINS", "0").assert().code(1);
    let [kernels, cases, verdicts] = ["kernel", "case", "verdict"].map(|name| column(&csv, name));
    let mut forked = 0;
    for ((kernel, case), verdict) in kernels.iter().zip(&cases).zip(&verdicts) {
        let is_branch = kernel == "memory encoder branch" && case.ends_with("as a branch");
        assert_eq!(verdict == "failed", is_branch, "{kernel}: {case}");
        forked += usize::from(is_branch);
    }
    assert_eq!(forked, 1);
}

#[test]
fn an_engine_that_is_there_is_run_and_weights_that_are_anothers_are_said() {
    let Some(setting) = Setting::new(&OWN) else { return };
    let backend = setting.with_an_engine(&OWN, Role::Memory);
    assert!(backend.ends_with(" segmented graph"), "{backend}");
    let folder = setting.folder();
    let mut bytes = fs::read(folder.join(FILE)).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(folder.join(FILE), bytes).unwrap();
    let said = setting.gpu("damaged").assert().failure();
    let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(
        said.contains("the weights of the memory encoder in") && said.contains("is damaged"),
        "{said}"
    );
    assert!(said.contains("get it again with: segtrt build-engines"), "{said}");
    // A bundle that speaks of another grid.
    let manifest = setting.path("own").join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\ngrid = 4\nscale", "\ngrid = 6\nscale")).unwrap();
    let error = format!("{:#}", Bundle::open(&setting.path("own")).err().unwrap());
    assert!(error.contains("[memory_encoder] is unusable"), "{error}");
    assert!(error.contains('6') && error.contains('4'), "{error}");
}

#[test]
fn the_selftest_runs_a_clip_without_a_memory_engine() {
    let Some(setting) = Setting::new(&OWN) else { return };
    let (bundles, csv) = (setting.path("bundles"), setting.path("rows.csv"));
    bundle(&bundles.join("fp32"), false);
    let mut command = setting.fakes.selftest(&setting.path("engines"));
    command.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime());
    command.arg("--onnx-dir").arg(&bundles).arg("--csv").arg(&csv);
    let said = command.assert().success();
    let said = String::from_utf8_lossy(&said.get_output().stdout).into_owned();
    assert!(said.contains("clip on "), "{said}");
    let graphs = column(&csv, "role");
    assert!(!graphs.is_empty() && graphs.iter().all(|graph| graph != "memory"), "{graphs:?}");
}

#[test]
fn usual_builds_copy_the_weights_and_build_no_memory_engine_unless_it_is_named() {
    let Some(yard) = Yard::new(&OWN) else { return };
    let roles = || {
        let manifest = EngineManifest::read(&yard.folder()).unwrap().unwrap();
        manifest.plans.iter().map(|plan| plan.role).collect::<Vec<_>>()
    };
    assert_eq!(yard.status(), "copied");
    assert_eq!(yard.status(), "up_to_date");
    assert!(roles().contains(&Role::Prompt) && !roles().contains(&Role::Memory));
    fs::write(yard.folder().join(FILE), "no weights").unwrap();
    let wrong = "is damaged, or not that of its engines";
    segtrt().arg("inspect").arg(yard.folder()).assert().code(1).stdout(contains(wrong));
    assert_eq!(yard.status(), "copied");
    assert_eq!(fs::read(yard.folder().join(FILE)).unwrap(), weights());
    for place in [&yard.folder(), &yard.path("onnx/edgetam_mini_64_fp16")] {
        let told = format!("memory encoder: {FILE}");
        segtrt().arg("inspect").arg(place).assert().success().stdout(contains(told));
    }
    // Whoever names the graph means its engine, which is told of from then on.
    yard.build(&["--graphs", "memory"]).assert().success();
    assert!(roles().contains(&Role::Memory));
    let told = "bench runs the engine of the memory encoder";
    yard.build(&[]).assert().success().stderr(contains(told));
    assert!(roles().contains(&Role::Memory));
    fs::write(yard.folder().join("memory.plan"), "no plan").unwrap();
    let told = "removed the engine of the memory encoder";
    yard.build(&[]).assert().success().stderr(contains(told));
    assert!(!roles().contains(&Role::Memory) && yard.folder().join(FILE).exists());
    // Mixed engines compute it in fp32.
    yard.build(&["--precision", "mixed"]).assert().success();
    let mixed = yard.path("engines/small/edgetam_mini_64_mixed");
    let manifest = EngineManifest::read(&mixed).unwrap().unwrap();
    assert!(manifest.plan(Role::Memory).is_some() && !mixed.join(FILE).exists());
}
