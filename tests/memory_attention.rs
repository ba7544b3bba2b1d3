//! The track step whose memory attention is custom CUDA kernels, on stand-ins:
//! `tests/data/attended` runs whole on the CPU, and by kernels alone in the pipeline, but for the
//! bank's keys.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use predicates::str::contains;
use vos::bundle::memory_attention::{HIDDEN, MEMORY, WIDTH};
use vos::bundle::{Bundle, FusedPart, MaskDecoderPart, MemoryAttentionPart, Role};
use vos::bundle::{FileTensor, MemoryAttentionShape};

use crate::own_part::{self, Own, Setting, Yard};
use crate::support::{column, copy, frames_of, segtrt};

const BUILT: [Role; 4] = [Role::Encoder, Role::Prompt, Role::TrackKeys, Role::Memory];
const FILE: &str = MemoryAttentionPart::FILE;
const OWN: Own = Own {
    bundle,
    built: &BUILT,
    file: FILE,
    needs: &[MaskDecoderPart::FILE],
    frames: 5,
    graph: "memory_attention",
};
const SHAPE: MemoryAttentionShape = MemoryAttentionShape { grid: 4, layers: 2 };

/// As in `tests/data/attended/make_bundle.py`.
fn wave(n: usize) -> f32 {
    (37 * n % 101) as f32 / 50.0 - 1.0
}

fn factor(step: usize, layer: usize, column: usize) -> f32 {
    half::f16::from_f32(wave(step * column + layer)).to_f32()
}

/// An element of a tensor.
fn element(tensor: &FileTensor, at: usize) -> f32 {
    let columns = *tensor.shape.last().unwrap();
    let (row, column) = (at / columns, at % columns);
    let name = tensor.name.strip_prefix("attention.").unwrap();
    let layer = name.strip_prefix("layers.").map_or(0, |rest| rest[..1].parse().unwrap());
    let last = name.rsplit_once("layers.").map_or(name, |(_, rest)| &rest[2..]);
    let diagonal = |value: f32| if row % WIDTH == column { value } else { 0.0 };
    match last {
        "positions" => 0.25 * factor(1, 0, row) * wave(3 * column),
        "turns" => {
            let (place, pair) = (at / 2 / (WIDTH / 4), at / 2 % (WIDTH / 4));
            let angle = place as f32 * (pair + 1) as f32 * 0.05;
            if at.is_multiple_of(2) { angle.cos() } else { angle.sin() }
        }
        "qkv" => {
            let (step, size) = [(3, 1.0 / 16.0), (5, 1.0), (7, 0.5)][row / WIDTH];
            diagonal(size * factor(step, layer, column))
        }
        "qkv_bias" if at < WIDTH => 0.25 * factor(3, layer, at),
        "query" => diagonal(factor(11, layer, column) / 16.0),
        "value" if row % MEMORY == column => 0.5 * factor(13, layer, row),
        "up" => diagonal(factor(17, layer, column) * wave(23 * (row / WIDTH))),
        "up_bias" => 0.125,
        "down" if column % WIDTH == row => {
            0.25 * factor(19, layer, row) * wave(29 * (column / WIDTH))
        }
        norm if norm.contains("norm") => {
            let (norm, part) = norm.split_once('.').unwrap();
            let step = norm.strip_prefix("norm").unwrap().parse().unwrap_or(4);
            match part {
                "weight" => 1.0 + 0.125 * factor(step, 0, at),
                _ => 0.125 * factor(step, 1, at),
            }
        }
        _ => 0.0,
    }
}

fn weights() -> Vec<u8> {
    let tensors = MemoryAttentionPart::tensors(&SHAPE);
    assert!(tensors.iter().any(|tensor| tensor.shape == [HIDDEN, WIDTH]));
    own_part::weights(tensors, |tensor, _, at| element(tensor, at))
}

/// `tests/data/attended`, whose other graphs are those of `tests/data/decoded`; in `fp16` with the
/// weights of both parts, else whole.
fn bundle(place: &Path, own: bool) {
    crate::mask_decoder::bundle(place, own);
    let decoder = fs::read_to_string(place.join("manifest.toml")).unwrap();
    copy(Path::new("tests/data/attended"), place);
    let manifest = place.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    if !own {
        let graphs = text.split("[[graph]]").filter(|graph| !graph.contains("role = \"track_"));
        return fs::write(&manifest, graphs.collect::<Vec<_>>().join("[[graph]]")).unwrap();
    }
    let (_, table) = decoder.split_once("\n[mask_decoder]").unwrap();
    fs::write(&manifest, format!("{text}\n[mask_decoder]{table}")).unwrap();
    let more = format!("grid = {}\nlayers = {}\n", SHAPE.grid, SHAPE.layers);
    own_part::install(place, FILE, &weights(), "memory_attention", &more);
}

#[test]
fn kernels_between_the_attentions_give_the_masks_of_the_whole() {
    let Some(setting) = Setting::new(&OWN) else { return };
    let (mut command, log) = (setting.gpu("latency"), setting.path("log"));
    command.args(["--mode", "latency"]).env("FAKE_CUDA_SEED", "3").env("FAKE_CUDA_LOG", &log);
    command.assert().success();
    let iou = setting.against_cpu("latency");
    assert!(iou > 0.98, "{iou}");
    let log = fs::read_to_string(&log).unwrap();
    for kernel in ["project", "cross_tail", "norm", "mlp_up", "residual"] {
        assert!(log.contains(&format!("memory_attention_{kernel}")), "{kernel}");
    }
    let backend = column(&setting.path("latency").join("sav_benchmark_summary.csv"), "backend");
    let told = |told: &String| told.contains(" segmented attention decoder ");
    assert!(backend.iter().all(told), "{backend:?}");
    for (expected, found) in
        frames_of(&setting.path("cpu")).iter().zip(&frames_of(&setting.path("latency")))
    {
        assert!((expected.objectness - found.objectness).abs() < 1e-3);
    }
    // The comparison must be able to fail.
    setting.gpu("faulty").env("FAKE_FAULT", "attention_mlp_has_no_relu").assert().success();
    let iou = setting.against_cpu("faulty");
    assert!(iou < 0.98, "{iou}");
}

#[test]
fn no_segment_is_built_beside_the_weights_unless_engines_are_mixed() {
    let Some(yard) = Yard::new(&OWN) else { return };
    assert_eq!(yard.status(), "copied");
    assert_eq!(yard.status(), "up_to_date");
    let folder = yard.folder();
    let cut = |folder: &Path| {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let is_cut = |name: &str| name.starts_with("track_seg") || name.starts_with("track_image");
        names.filter(|name| is_cut(name.to_str().unwrap())).count()
    };
    assert_eq!(cut(&folder), 0);
    for file in [FILE, MaskDecoderPart::FILE] {
        assert!(folder.join(file).exists(), "{file}");
    }
    let told = format!("memory attention: {FILE}");
    segtrt().arg("inspect").arg(&folder).assert().success().stdout(contains(told));
    let refused = yard.build(&["--fp32-graphs", "track_seg2"]).assert().code(2);
    refused.stderr(contains("--graphs track_seg2 --fp32-graphs track_seg2"));
    yard.build(&["--precision", "mixed"]).assert().success();
    let mixed = yard.path("engines/small/edgetam_mini_64_mixed");
    assert!(cut(&mixed) > 0 && !mixed.join(FILE).exists());
    // Another variant in the same folder takes nothing from it.
    yard.build(&["--track-variant", "per-fill-level"]).assert().success();
    assert!(folder.join(FILE).exists() && folder.join("track.plan").exists());
    // Engines that were asked for run as long as they are there.
    let segments = "track_keys,track_seg0,track_seg1,track_seg2,track_seg3,track_image";
    yard.build(&["--graphs", segments]).assert().success();
    let told = "bench runs the engines of the memory attention";
    yard.build(&[]).assert().success().stderr(contains(told));
    fs::write(folder.join("track_seg0.plan"), "no plan").unwrap();
    let told = "removed the engines of the memory attention";
    yard.build(&[]).assert().success().stderr(contains(told));
    assert_eq!(yard.status(), "up_to_date");
}

#[test]
fn weights_of_another_shape_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), true);
    Bundle::open(dir.path()).unwrap().verify_weights().unwrap();
    let manifest = dir.path().join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("layers = 2", "layers = 3")).unwrap();
    let error = format!("{:#}", Bundle::open(dir.path()).unwrap_err());
    assert!(error.contains("table [memory_attention] is unusable"), "{error}");
    assert!(error.contains("5 segments, a memory attention of 3 layers has 7"), "{error}");
}
