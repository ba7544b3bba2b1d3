//! The two phases: what the first one writes down, what the second one makes of it, and what stands
//! between them.

use std::fs;
use std::path::{Path, PathBuf};

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

use crate::support::{column, read_csv, require_onnxruntime, segtrt, synth};

struct Case {
    dir: tempfile::TempDir,
    split: PathBuf,
}

impl Case {
    fn new(videos: usize, objects: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), videos, objects, 5);
        Self { dir, split }
    }

    fn prepared(&self) -> PathBuf {
        self.dir.path().join("prepared")
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    /// The command with these flags; what follows two hyphens is added.
    fn run(&self, flags: &[&str]) -> assert_cmd::Command {
        require_onnxruntime();
        let mut command = segtrt();
        command.arg("jetson-benchmark").arg("--split_dir").arg(&self.split);
        command.arg("--preprocessed_dir").arg(self.prepared()).arg("--out_dir").arg(self.out());
        command.args(["--backend", "onnxruntime"]).args(flags);
        command.args(["--", "--threads", "1", "--warmup-runs", "0"]);
        command
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.prepared().join(name)).unwrap()).unwrap()
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

const MINI: [&str; 4] = ["--imgsz", "256", "--models", "edgetam_mini_points,edgetam_mini_bbox"];

#[test]
fn both_phases_leave_the_predecessors_files() {
    let case = Case::new(2, 2);
    let flags = [&MINI[..], &["--limit_videos", "2", "--limit_objects", "1"]].concat();
    case.run(&flags)
        .assert()
        .success()
        .stderr(contains("first phase: setup").and(contains("second phase: measuring")))
        .stderr(contains("[PRE-INFERENCE] edgetam_mini_points: system memory: "))
        .stderr(contains("[POST-INFERENCE] edgetam_mini_bbox: GPU alloc: N/A, reserved: N/A"));

    let metadata = case.json("metadata.json");
    assert_eq!(keys(&metadata), ["video_ids", "video_data", "split_dir", "imgsz"]);
    let clip = &metadata["video_data"]["synth_001"];
    assert_eq!(keys(clip), ["frames", "objects"]);
    assert_eq!(clip["frames"].as_array().unwrap().len(), 5);
    assert_eq!(keys(&clip["objects"]), ["000"]);
    let object = &clip["objects"]["000"];
    assert_eq!(keys(object), ["prompt_idx", "frame_indices", "prompt_mask_shape"]);
    assert_eq!(object["frame_indices"], serde_json::json!([0, 4]));
    assert_eq!(object["prompt_mask_shape"], serde_json::json!([120, 160]));
    let config = case.json("inference_config.json");
    assert_eq!(keys(&config), ["cudnn_benchmark", "preprocessed_dir", "args"]);
    assert_eq!(config["cudnn_benchmark"], false);
    assert_eq!(config["args"]["limit_objects"], 1);

    let summary = case.out().join("jetson_benchmark_summary.csv");
    let (header, rows) = read_csv(&summary);
    assert_eq!(
        header[..15].join(","),
        "video,object,model,imgsz,frames,fps,latency_ms,gpu_peak_alloc_MiB,gpu_peak_reserved_MiB,cpu_peak_rss_MiB,J,JandF_proxy,overlay,cudnn_benchmark,setup_ms"
    );
    let order: Vec<String> = rows.iter().map(|row| format!("{} {}", row[0], row[2])).collect();
    assert_eq!(
        order,
        [
            "synth_000 edgetam_mini_points",
            "synth_000 edgetam_mini_bbox",
            "synth_001 edgetam_mini_points",
            "synth_001 edgetam_mini_bbox"
        ]
    );
    assert_eq!(column(&summary, "J"), column(&summary, "JandF_proxy"));
    assert!(column(&summary, "cudnn_benchmark").iter().all(|value| value == "False"));
    assert!(column(&summary, "fps").iter().all(|fps| fps.parse::<f64>().unwrap() > 0.0));
    assert!(
        column(&summary, "system_peak_used_MiB")
            .iter()
            .all(|mib| mib.parse::<f64>().unwrap() > 0.0)
    );

    // The second phase alone, on what is there; standard output is JSON and nothing else.
    let before = column(&summary, "fps");
    let assert = case.run(&["--skip_setup", "--resume", "--json"]).assert().success();
    let shown: Vec<Value> = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(shown.len(), 4);
    assert_eq!(column(&summary, "fps"), before, "what was there was measured again");
    case.run(&["--skip_setup", "--limit_videos", "1"])
        .assert()
        .code(2)
        .stderr(contains("--limit-videos is 1, and the first phase ran with 2"));
    let frames = case.split.join("JPEGImages_24fps/synth_000");
    fs::copy(frames.join("00004.jpg"), frames.join("00005.jpg")).unwrap();
    case.run(&["--skip_setup"])
        .assert()
        .code(1)
        .stderr(contains("synth_000 is not what the first phase saw"));
}

#[test]
fn presets_yield_to_what_was_typed_and_unusable_objects_are_told() {
    let case = Case::new(2, 2);
    let mask = case.split.join("Annotations_6fps/synth_000/000/00000.png");
    empty_mask(&mask);
    let flags = [&["--preset", "quick", "--skip_inference", "--limit-objects", "0"][..], &MINI[..]];
    case.run(&flags.concat())
        .assert()
        .success()
        .stderr(contains("  [obj 000] empty mask at 0, skipping object"))
        .stderr(contains("1 object in 1 of 1 clip can be prompted"));
    assert!(!case.out().exists(), "the second phase ran");
    let args = &case.json("inference_config.json")["args"];
    for (name, expected) in [
        ("imgsz", Value::from(256)),
        ("models", Value::from(MINI[3])),
        ("limit_videos", Value::from(1)),
        ("limit_objects", Value::from(0)),
        ("max_frames_in_mem", Value::from(300)),
        ("workspace_mb", Value::from(256)),
    ] {
        assert_eq!(args[name], expected, "{name}");
    }
    let objects = case.json("metadata.json")["video_data"]["synth_000"]["objects"].clone();
    assert_eq!(keys(&objects), ["001"]);
}

#[test]
fn the_first_phase_can_decode_for_the_second() {
    let case = Case::new(1, 1);
    let flags = ["--imgsz", "256", "--models", "edgetam_mini_points", "--predecode", "u8"];
    case.run(&[&flags[..], &["--max-frames-in-mem", "1"]].concat()).assert().success();
    let summary = case.out().join("jetson_benchmark_summary.csv");
    assert!(column(&summary, "fidelity")[0].contains("predecoded-u8"));
    assert_eq!(column(&summary, "decode_ms"), [""]);
    assert!(case.prepared().join("frames_u8/synth_000__256_stretch_u8.frames").is_file());
}

#[test]
fn wrong_calls_end_before_anything_is_measured() {
    let case = Case::new(1, 1);
    case.run(&["--skip_setup"])
        .assert()
        .code(1)
        .stderr(contains("Preprocessed metadata not found: "));
    case.run(&["--skip_setup", "--skip_inference"]).assert().code(2);
    case.run(&["--models", "sam2_huge_points"])
        .assert()
        .code(2)
        .stderr(contains("--models sam2_huge_points: no such model tag"));
    case.run(&["--max-frames-in-mem", "0"]).assert().code(2);
    assert!(!case.out().exists());
}

fn empty_mask(path: &Path) {
    let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), 160, 120);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&vec![0; 160 * 120]).unwrap();
}
