//! The track step whose mask decoder is custom CUDA kernels, on stand-ins: `tests/data/decoded`
//! runs whole on the CPU, and in pieces of fp16 with attention between them and the decoder behind
//! them in the pipeline.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use predicates::str::contains;
use vos::bundle::mask_decoder::WIDTH;
use vos::bundle::{Bundle, FusedPart, MaskDecoderPart, MaskDecoderShape, Role};

use crate::own_part::{self, FRAMES, Own, Setting, Yard};
use crate::support::{column, copy, frames_of, require_onnxruntime, segtrt};

const BUILT: [Role; 9] = [
    Role::Encoder,
    Role::Prompt,
    Role::TrackKeys,
    Role::TrackSeg0,
    Role::TrackSeg1,
    Role::TrackSeg2,
    Role::TrackSeg3,
    Role::TrackImage,
    Role::Memory,
];
const FILE: &str = MaskDecoderPart::FILE;
const OWN: Own =
    Own { bundle, built: &BUILT, file: FILE, needs: &[], frames: FRAMES, graph: "mask_decoder" };
const SHAPE: MaskDecoderShape = MaskDecoderShape { grid: 4, iou_sigmoid: false };
/// As in `tests/data/decoded/make_bundle.py`, the mask behind the third of them wins.
const IOUS: [f32; 4] = [0.95, 0.3, 0.9, 0.5];
const SCORE: f32 = 5.0;

/// An element of a tensor: its row, its column.
fn element(name: &str, [row, column]: [usize; 2]) -> f32 {
    let picks = |column_of: usize, value: f32| if column == column_of { value } else { 0.0 };
    match name.strip_prefix("decoder.").unwrap() {
        // Of vectors only the last extent is there.
        norm if norm.ends_with("norm.weight") || norm.ends_with("norm3.weight") => 1.0,
        "started" => ((5 * column % 13) as f32 - 6.0) / 6.0 * (1.0 + row as f32 / 4.0),
        // Half of the image's columns reach the tokens.
        "layers.0.read.values" | "layers.0.read.out" => picks(row, 1.0),
        // The pointer's network, the last of six, hands its token on.
        "heads.inner0" | "heads.inner1" if row >= 5 * WIDTH => picks(row - 5 * WIDTH, 1.0),
        "heads.pointer" => picks(row, 1.0),
        "heads.score" => picks(WIDTH, SCORE),
        "heads.iou" => picks(WIDTH, IOUS[row]),
        // Three masks' vectors, of which another would be another mask.
        "heads.hyper" => {
            let (mask, at) = (row / 32, row % 32);
            let value = (7 * at % 11) as f32 / 10.0 - 0.5;
            picks(WIDTH, if mask == 1 { value } else { -value })
        }
        // Columns become pixels.
        "masks.weight1" => picks(row, 1.0),
        "masks.weight2" => picks(row % 32 + row / 32 % 2 * 32, if row < 64 { 1.0 } else { 0.5 }),
        _ => 0.0,
    }
}

/// A whole file of weights.
fn weights() -> Vec<u8> {
    own_part::weights(MaskDecoderPart::tensors(&SHAPE), |tensor, _, at| {
        let columns = *tensor.shape.last().unwrap();
        element(&tensor.name, [at / columns, at % columns])
    })
}

/// `tests/data/decoded`, whose other graphs are those of `tests/data/fused`; in `fp16` with the
/// decoder's weights, else whole.
pub fn bundle(place: &Path, own: bool) {
    copy(Path::new("tests/data/fused"), place);
    copy(Path::new("tests/data/decoded"), place);
    let manifest = place.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    if !own {
        // The whole step, without segments that nothing decodes.
        let graphs = text.split("[[graph]]").filter(|graph| !graph.contains("role = \"track_"));
        fs::write(&manifest, graphs.collect::<Vec<_>>().join("[[graph]]")).unwrap();
        return;
    }
    let more = format!("grid = {}\nprobable = {}\n", SHAPE.grid, SHAPE.iou_sigmoid);
    own_part::install(place, FILE, &weights(), "mask_decoder", &more);
}

/// The selected masks of a run's first pass; the prompt graph is of an older export and does not
/// output its own. All IoUs that it selected from are [`IOUS`].
fn selected(run: &Path) -> Vec<Option<u8>> {
    let sidecar = fs::read_to_string(run.join("sidecar.json")).unwrap();
    let sidecar: serde_json::Value = serde_json::from_str(&sidecar).unwrap();
    let times = &sidecar["passes"][0]["frame_times"];
    let ious: Vec<Option<Vec<f32>>> =
        serde_json::from_value(times["iou_predictions"].clone()).unwrap();
    assert!(ious.len() > 2 && ious[0].is_none() && ious[1].is_some(), "{ious:?}");
    for ious in ious.iter().flatten() {
        let near = ious.iter().zip(&IOUS[1..]).all(|(found, iou)| (found - iou).abs() < 1e-5);
        assert!(ious.len() == 3 && near, "{ious:?}");
    }
    let chosen: Vec<Option<u8>> = serde_json::from_value(times["chosen_mask"].clone()).unwrap();
    assert!(chosen[0].is_none() && chosen[1..].iter().all(|mask| *mask == Some(2)), "{chosen:?}");
    chosen
}

#[test]
fn the_decoder_behind_the_segments_gives_the_masks_of_the_whole() {
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
        assert!(log.contains("mask_decoder_upscale_masks"), "{out}");
        let backend = column(&setting.path(out).join("sav_benchmark_summary.csv"), "backend");
        assert!(backend.iter().all(|told| told.contains(" segmented decoder ")), "{backend:?}");
        for (expected, found) in
            frames_of(&setting.path("cpu")).iter().zip(&frames_of(&setting.path(out)))
        {
            assert!((expected.objectness - found.objectness).abs() < 1e-3, "{out}");
        }
        let selected = [&setting.path("cpu"), &setting.path(out)].map(|run| selected(run));
        assert_eq!(selected[0], selected[1], "{out}");
    }
    // An engine that answers does so for as long as it is there.
    let backend = setting.with_an_engine(&OWN, Role::TrackSeg4);
    assert!(backend.ends_with(" segmented graph"), "{backend}");
    // The comparison must be able to fail.
    setting.gpu("faulty").env("FAKE_FAULT", "decoder_has_the_wrong_gelu").assert().success();
    let iou = setting.against_cpu("faulty");
    assert!(iou < 0.98, "{iou}");
}

#[test]
fn weights_that_are_gone_or_anothers_are_said_with_what_gets_them_back() {
    let Some(setting) = Setting::new(&OWN) else { return };
    let folder = setting.folder();
    let mut bytes = fs::read(folder.join(FILE)).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(folder.join(FILE), bytes).unwrap();
    let said = setting.gpu("damaged").assert().failure();
    let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(
        said.contains("the weights of the mask decoder in") && said.contains("is damaged"),
        "{said}"
    );
    assert!(said.contains("get it again with: segtrt build-engines"), "{said}");
    // A bundle that speaks of another grid.
    let manifest = setting.path("own").join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\ngrid = 4\nprobable", "\ngrid = 6\nprobable")).unwrap();
    let error = format!("{:#}", Bundle::open(&setting.path("own")).err().unwrap());
    assert!(error.contains("6 tokens a side, the contract's 4"), "{error}");
}

#[test]
fn the_selftest_compares_what_stands_in_front_with_the_graph_that_it_was_built_from() {
    let Some(setting) = Setting::new(&OWN) else { return };
    let (bundles, csv) = (setting.path("bundles"), setting.path("rows.csv"));
    // All of its segments end in the answer.
    copy(Path::new("tests/data/fused"), &bundles.join("fp32"));
    let selftest = || {
        let mut command = setting.fakes.selftest(&setting.path("engines"));
        command.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime()).arg("--no-clip");
        command.arg("--onnx-dir").arg(&bundles).arg("--csv").arg(&csv);
        command
    };
    let said = selftest().assert().code(1);
    let said = String::from_utf8_lossy(&said.get_output().stdout).into_owned();
    assert!(said.contains("is cut otherwise"), "{said}");
    copy(&setting.path("own"), &bundles.join("fp16"));
    selftest().assert().success();
    let [graphs, outputs, verdicts] = ["role", "output", "verdict"].map(|name| column(&csv, name));
    let rows = graphs.iter().zip(outputs.iter().zip(&verdicts));
    let last: Vec<_> = rows.filter(|(graph, _)| *graph == "track_image").collect();
    assert!(
        !last.is_empty()
            && last.iter().all(|(_, (output, verdict))| *output == "y" && *verdict == "passed"),
        "{last:?}"
    );
}

#[test]
fn the_weights_are_copied_beside_the_plans_and_shown_and_who_takes_an_engine_needs_none() {
    let Some(yard) = Yard::new(&OWN) else { return };
    assert_eq!(yard.status(), "copied");
    assert_eq!(yard.status(), "up_to_date");
    let folder = yard.folder();
    fs::write(folder.join(FILE), "no weights").unwrap();
    let wrong = "is damaged, or not that of its engines";
    segtrt().arg("inspect").arg(&folder).assert().code(1).stdout(contains(wrong));
    assert_eq!(yard.status(), "copied");
    assert_eq!(fs::read(folder.join(FILE)).unwrap(), weights());
    for place in [&folder, &yard.path("onnx/edgetam_mini_64_fp16")] {
        let told = format!("mask decoder: {FILE}");
        segtrt().arg("inspect").arg(place).assert().success().stdout(contains(told));
    }
    let plan = |folder: &Path, graph: &str| folder.join(format!("{graph}.plan")).exists();
    assert!(plan(&folder, "track_image") && !plan(&folder, "track_seg4"));
    // Mixed engines decode in fp32: of the same bundle they get the whole last segment.
    yard.build(&["--precision", "mixed"]).assert().success();
    let mixed = yard.path("engines/small/edgetam_mini_64_mixed");
    assert!(plan(&mixed, "track_seg4") && !plan(&mixed, "track_image"));
    assert!(!mixed.join(FILE).exists());
    let refused = yard.build(&["--precision", "mixed", "--graphs", "track_image"]).assert().code(2);
    refused.stderr(contains("build the segment that contains it: --graphs track_seg4"));
    // Nor is what was asked for in fp32 computed by kernels in silence.
    let refused = yard.build(&["--fp32-graphs", "track_seg4"]).assert().code(2);
    refused.stderr(contains("--graphs track_seg4 --fp32-graphs track_seg4"));
    // An engine that was asked for decodes for as long as it is there.
    yard.build(&["--graphs", "track_seg4"]).assert().success();
    let what = "the last segment with mask decoder";
    let told = format!("bench runs {what}");
    yard.build(&[]).assert().success().stderr(contains(told));
    fs::write(folder.join("track_seg4.plan"), "no plan").unwrap();
    let told = format!("removed {what}");
    yard.build(&[]).assert().success().stderr(contains(told));
    assert!(!plan(&folder, "track_seg4") && folder.join(FILE).exists());
    // With another track variant nothing needs them, and of engines that are gone nothing stays.
    fs::remove_dir_all(yard.path("engines")).unwrap();
    yard.build(&["--track-variant", "per-fill-level"]).assert().success();
    assert!(!folder.join(FILE).exists());
}
