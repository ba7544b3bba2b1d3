use std::path::Path;
use std::time::Instant;

use serde_json::json;

use super::*;
use crate::bench::clip_run::ClipPass;
use crate::bench::plan::PredecodedPlan;
use crate::bench::runner::{ObjectFrame, Take};
use vos::bundle::{Bundle, Manifest};
use vos::dataset;
use vos::predecode::{self, Options, Values};
use vos::prompt::PromptKind;
use vos::record::{Conditions, FrameTime, FrameTimes, Status};
use vos::strides::Strides;
use vos::synth::{MASK_STRIDE, SPLIT_NAME, SynthOptions, write_split};

/// Fails in every pass; counts those that had frames of a file.
struct Failing {
    manifest: Manifest,
    prepared: usize,
}

impl ClipRunner for Failing {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn stream_pass(
        &mut self,
        request: PassRequest<'_>,
        _repeats: usize,
        _keep: &dyn Fn(usize, usize) -> bool,
        _take: &mut Take<'_>,
    ) -> Result<Vec<ClipPass>, ObjectError> {
        self.prepared += usize::from(request.prepared.is_some());
        Err(ObjectError::inference(1, anyhow::anyhow!("no")))
    }
}

/// Finds the object where it was prompted, on every frame.
struct Resting<'a> {
    manifest: Manifest,
    truth: &'a ObjectTruth,
}

impl ClipRunner for Resting<'_> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn stream_pass(
        &mut self,
        request: PassRequest<'_>,
        _repeats: usize,
        keep: &dyn Fn(usize, usize) -> bool,
        take: &mut Take<'_>,
    ) -> Result<Vec<ClipPass>, ObjectError> {
        let mut pass = ClipPass::default();
        let mask =
            self.truth.mask(request.objects[0].span.start, request.geometry.video_size()).unwrap();
        for frame in request.objects[0].span.indices() {
            let time = FrameTime::Latency(1.0);
            let times = FrameTimes { frame, time, ..FrameTimes::default() };
            pass.times.push(times);
            pass.objectness.push(1.0);
            pass.predicted_iou.push(1.0);
            pass.selections.push(None);
            let mask = keep(0, frame).then(|| mask.clone());
            let (objectness, predicted_iou, mask_at) = (1.0, 1.0, Instant::now());
            let frame = ObjectFrame {
                object: 0,
                index: frame,
                mask,
                objectness,
                predicted_iou,
                times,
                mask_at,
            };
            take(frame, None)?;
        }
        Ok(vec![pass])
    }
}

/// Scoring and writing may take longer than a worker may be silent for, on large frames.
#[test]
fn each_mask_that_is_scored_or_written_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let split_dir = dir.path().join("split");
    let (videos, objects, frames, seed, alike) = (1, 1, 5, 3, false);
    let (width, height) = (160, 120);
    let synth = SynthOptions {
        out: split_dir.clone(),
        videos,
        objects,
        frames,
        width,
        height,
        seed,
        alike,
        mask_stride: MASK_STRIDE,
    };
    write_split(&synth).unwrap();
    let split = dataset::open(&split_dir, SPLIT_NAME).unwrap();
    let clip = split.clip(&split.videos()[0]).unwrap();
    let manifest = mini().manifest;
    let truth = &clip.objects[0];
    let mut plan = plan(&split_dir, &clip.video, dir.path());
    (plan.save_masks, plan.profile_runs) = (true, 2);
    let mut resting = Resting { manifest, truth };
    let conditions = Conditions::default();
    let mut runner = object_runner(&plan, &conditions, &mut resting);
    let mut heard = Vec::new();
    let rows = runner.run(&clip, &[truth], &mut |progress| heard.push(progress));
    assert_eq!(rows[0].1.len(), 2);
    assert!(rows[0].1.iter().all(|(row, _)| row.status == Status::Ok), "{rows:?}");
    let run = clip.frames.len() - heard_start(&rows);
    let scored = truth.masks.len();
    let expected: Vec<Doing> = [
        vec![Doing::Tracking; run],
        vec![Doing::Scoring; scored],
        // Files of the first pass alone.
        vec![Doing::Writing; run],
        vec![Doing::Tracking; run],
        vec![Doing::Scoring; scored],
    ]
    .concat();
    assert_eq!(heard.iter().map(|progress| progress.doing).collect::<Vec<_>>(), expected);
    // Frames alone move the bar.
    assert_eq!(
        heard.last(),
        Some(&Progress { doing: Doing::Scoring, done: 2 * run, total: 2 * run })
    );
}

/// The frame that the first object is prompted on.
fn heard_start(rows: &[(ObjectKey, Vec<Recorded>)]) -> usize {
    rows[0].1[0].1[0].frame
}

fn mini() -> Bundle {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("onnx/bundles/edgetam_mini_256_fp32");
    Bundle::open(&dir).unwrap()
}

fn plan(split_dir: &Path, video: &str, out_dir: &Path) -> BenchPlan {
    serde_json::from_value(json!({
        "split_dir": split_dir, "split_name": SPLIT_NAME, "videos": [video], "limit_objects": 0,
        "max_clip_frames": 0, "models": [], "strides": Strides::default(), "prompt_policy": "interior",
        "geometry": "stretch", "metrics": "predecessor", "warmup_runs": 0, "profile_runs": 1,
        "out_dir": out_dir, "save_overlays": false, "save_masks": false, "provider": "cpu", "threads": 1,
        "telemetry_ms": 100,
    }))
    .unwrap()
}

fn object_runner<'a>(
    plan: &'a BenchPlan,
    conditions: &'a Conditions,
    runner: &'a mut dyn ClipRunner,
) -> ObjectRunner<'a> {
    let low_size = runner.manifest().contract.low_size;
    let rows = Rows {
        plan,
        tag: "m",
        conditions,
        load_ms: 0.0,
        least: vos::record::StageTimes::default(),
        on_gpu: false,
        low_size,
    };
    let prompt = PromptKind::Points;
    ObjectRunner { plan, prompt, rows, runner, telemetry: None, prepared: None }
}

#[test]
fn an_object_that_fails_leaves_the_checked_frames_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (split_dir, frames) = (dir.path().join("split"), dir.path().join("frames"));
    let (videos, objects, seed, alike) = (1, 2, 3, false);
    let (width, height) = (160, 120);
    let synth = SynthOptions {
        out: split_dir.clone(),
        videos,
        objects,
        frames: 3,
        width,
        height,
        seed,
        alike,
        mask_stride: MASK_STRIDE,
    };
    write_split(&synth).unwrap();
    let split = dataset::open(&split_dir, SPLIT_NAME).unwrap();
    let clip = split.clip(&split.videos()[0]).unwrap();
    let manifest = mini().manifest;
    let options = Options {
        side: manifest.model.imgsz,
        geometry: serde_json::from_value(json!("stretch")).unwrap(),
        values: Values::U8,
        frames_in_memory: 3,
        force: false,
    };
    std::fs::create_dir(&frames).unwrap();
    let file = predecode::predecode(&clip, &frames, &options, &mut |_| {}).unwrap().path;
    let mut plan = plan(&split_dir, &clip.video, dir.path());
    plan.predecoded = Some(PredecodedPlan { dir: frames, values: Values::U8 });
    let mut failing = Failing { manifest, prepared: 0 };
    let conditions = Conditions::default();
    let mut runner = object_runner(&plan, &conditions, &mut failing);
    for object in &clip.objects {
        let rows = runner.run(&clip, &[object], &mut |_| {});
        let reason = rows[0].1[0].0.reason.clone().unwrap();
        assert!(reason.starts_with("inference: "), "{reason}");
        // Who looks for it again does not find it.
        let _ = std::fs::remove_file(&file);
    }
    assert_eq!(failing.prepared, 2);
}
