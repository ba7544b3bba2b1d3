use std::path::Path;

use serde_json::json;

use super::*;
use crate::bundle::{Bundle, Manifest};
use crate::dataset;
use crate::predecode::{self, Options, Values};
use crate::prompt::PromptKind;
use crate::strides::Strides;
use crate::synth::{SPLIT_NAME, SynthOptions, write_split};

/// Fails in every pass; counts those that had frames of a file.
struct Failing {
    manifest: Manifest,
    prepared: usize,
}

impl ClipRunner for Failing {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn run_pass(
        &mut self,
        request: PassRequest<'_>,
        _repeats: usize,
        _keep: &dyn Fn(usize, usize) -> bool,
        _progress: &mut dyn FnMut(),
    ) -> Result<Vec<Pass>, ObjectError> {
        self.prepared += usize::from(request.prepared.is_some());
        Err(ObjectError::inference(1, anyhow::anyhow!("no")))
    }
}

#[test]
fn an_object_that_fails_leaves_the_checked_frames_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (split_dir, frames) = (dir.path().join("split"), dir.path().join("frames"));
    let (videos, objects, seed) = (1, 2, 3);
    let (width, height) = (160, 120);
    let synth =
        SynthOptions { out: split_dir.clone(), videos, objects, frames: 3, width, height, seed };
    write_split(&synth).unwrap();
    let split = dataset::open(&split_dir, SPLIT_NAME).unwrap();
    let clip = split.clip(&split.videos()[0]).unwrap();
    let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join("onnx/bundles/edgetam_mini_256_fp32");
    let manifest = Bundle::open(&bundle).unwrap().manifest;
    let options = Options {
        side: manifest.model.imgsz,
        geometry: serde_json::from_value(json!("stretch")).unwrap(),
        values: Values::U8,
        frames_in_memory: 3,
        force: false,
    };
    std::fs::create_dir(&frames).unwrap();
    let file = predecode::predecode(&clip, &frames, &options, &mut |_| {}).unwrap().path;
    let plan: BenchPlan = serde_json::from_value(json!({
        "split_dir": split_dir, "split_name": SPLIT_NAME, "videos": [clip.video], "limit_objects": 0,
        "max_clip_frames": 0, "models": [], "strides": Strides::default(), "prompt_policy": "interior",
        "geometry": "stretch", "metrics": "predecessor", "warmup_runs": 0, "profile_runs": 1,
        "out_dir": dir.path(), "save_overlays": false, "save_masks": false, "provider": "cpu", "threads": 1,
        "telemetry_ms": 100, "predecoded": {"dir": frames, "values": "u8"},
    }))
    .unwrap();
    let mut failing = Failing { manifest, prepared: 0 };
    let mut runner = ObjectRunner {
        plan: &plan,
        tag: "m",
        prompt: PromptKind::Points,
        conditions: &Conditions::default(),
        load_ms: 0.0,
        runner: &mut failing,
        on_gpu: false,
        telemetry: None,
        prepared: None,
    };
    for object in &clip.objects {
        let rows = runner.run(&clip, &[object], &mut |_| {});
        let reason = rows[0].1[0].0.reason.clone().unwrap();
        assert!(reason.starts_with("inference: "), "{reason}");
        // Who looks for it again does not find it.
        let _ = std::fs::remove_file(&file);
    }
    assert_eq!(failing.prepared, 2);
}
