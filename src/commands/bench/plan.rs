/*!
Resolves the flags of a bench into a plan: defaults, split, models and bundles, or an error.
*/

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::args::{BackendChoice, BenchArgs, GpuArgs, Toggle};
use super::encode_stage;
use super::gpu_only;
use super::lanes;
use super::models::{absolute, models};
use super::shard::{self, Limits};
use super::stereo;
use crate::bench::plan::{BenchPlan, GpuPlan, PredecodedPlan, open_split};
use crate::environment::usual_decode_threads;
use cuda::Wait;
use host::UsageError;
use host::child;
use host::processor;
use runtime::backend::Provider;
use runtime::pipeline::{Mode, Options};
use vos::dataset::{self, Dataset, VIEWS};
use vos::predecode;
use vos::preprocess::Filter;
use vos::strides::Strides;
use vos::synth::{MASK_STRIDE, SynthOptions, write_split};

/// The predecessor's folders of its test mode.
const TEST_SPLIT: &str = "test_synthetic_data";
const TEST_OUT: &str = "test_outputs";
/// Where results go, in the working directory: a data set may be read-only, and is no place for them.
const OUT: &str = "benchmark_outputs";

/// A plan with its split, and the number of models that it leaves out.
pub struct Resolved {
    /// The plan.
    pub plan: BenchPlan,
    /// The opened split.
    pub split: Box<dyn Dataset>,
    /// Entries of `--models` that are unknown or have no bundle.
    pub left_out: usize,
}

/// Resolves the arguments.
pub fn resolve(args: &BenchArgs) -> Result<Resolved> {
    for (flag, why) in args.dead.given() {
        log::warn!("{flag} does nothing here: {why}");
    }
    check_jpeg_decoder(args)?;
    gpu_only::check(args)?;
    lanes::check(args)?;
    let predecoded = predecoded(args)?;
    one_frame_at_a_time(args)?;
    encode_stage::check(args)?;
    stereo::check(args)?;
    let split_dir = split_dir(args)?;
    let split = open_split(&split_dir, &args.split_name, args.stereo)?;
    let (models, left_out) = models(args)?;
    let (limit_videos, limit_objects) =
        if args.test_mode { (1, 1) } else { (args.limit_videos, args.limit_objects) };
    let videos = match &args.video_list {
        Some(list) => listed(list, split.as_ref())?,
        None => split.videos().to_vec(),
    };
    let videos =
        dataset::select(&videos, limit_videos, args.shuffle.shuffle_videos, args.shuffle.seed);
    let limits = Limits { objects: limit_objects, frames: args.max_clip_frames };
    let (videos, shard) = shard::cut(args, videos, split.as_ref(), limits)?;
    let out_dir = match &args.out_dir {
        Some(dir) => dir.clone(),
        None if args.test_mode => PathBuf::from(TEST_OUT),
        None => PathBuf::from(OUT),
    };
    let plan = BenchPlan {
        split_dir,
        split_name: args.split_name.clone(),
        videos,
        limit_objects: if args.stereo { VIEWS * limit_objects } else { limit_objects },
        stereo: args.stereo,
        max_clip_frames: args.max_clip_frames,
        strides: strides(args),
        models,
        prompt_policy: args.prompt_policy,
        geometry: args.geometry,
        resize: args.resize,
        metrics: args.metrics,
        warmup_runs: args.warmup_runs,
        profile_runs: args.profile_runs as usize,
        out_dir,
        save_overlays: args.save_overlays == Toggle::On,
        encode: args.encode,
        save_masks: args.save_masks,
        save_logits: args.save_logits,
        teacher: args.teacher.as_deref().map(absolute),
        gpu: (args.backend == BackendChoice::TensorRt)
            .then(|| gpu_plan(&args.gpu, args.resize))
            .transpose()?,
        ort_lib: args.ort_lib.clone(),
        provider: args.ort_provider,
        threads: args.threads.unwrap_or_else(processor::processors),
        telemetry_ms: args.telemetry_ms,
        predecoded,
        shard,
        shards: args.merged_from,
        other_devices: args.other_devices,
        idle_processes: args.idle_processes,
        stall_limit_s: args.stall_limit.unwrap_or_else(|| usual_stall_limit(args)),
    };
    Ok(Resolved { plan, split, left_out })
}

/// ONNX Runtime's TensorRT provider builds an engine for each new shape, inside a pass and without
/// progress.
fn usual_stall_limit(args: &BenchArgs) -> u64 {
    let builds = args.backend != BackendChoice::TensorRt && args.ort_provider == Provider::Tensorrt;
    if builds { 0 } else { child::USUAL_LIMIT_S }
}

/// The strides of frames and annotations.
pub fn strides(args: &BenchArgs) -> Strides {
    Strides {
        input: args.input_frame_stride as usize,
        annotation: args.annotation_stride_frames as usize,
    }
}

/// Logits are exchanged between a frame's mask and its memory, before the next frame begins, and
/// once for each frame.
fn one_frame_at_a_time(args: &BenchArgs) -> Result<()> {
    let flag = match (&args.teacher, args.save_logits) {
        (Some(_), _) => "--teacher",
        (None, true) => "--save-logits",
        (None, false) => return Ok(()),
    };
    if args.backend == BackendChoice::TensorRt && args.gpu.mode == Mode::Throughput {
        bail!(UsageError(format!(
            "{flag} needs one frame in flight, found --mode throughput; use --mode latency"
        )));
    }
    if args.save_logits && args.profile_runs > 1 {
        bail!(UsageError(
            "--save-logits stores one pass, found --profile-runs above 1; leave --profile-runs out"
                .to_owned()
        ));
    }
    if args.gpu.repeat_clip > 1 {
        let repeats = args.gpu.repeat_clip;
        bail!(UsageError(format!(
            "{flag} stores the clip once, found --repeat-clip {repeats}; leave --repeat-clip out"
        )));
    }
    Ok(())
}

/// nvJPEG decodes JPEG files into GPU memory.
fn check_jpeg_decoder(args: &BenchArgs) -> Result<()> {
    if args.gpu.jpeg_decoder.is_turbo() {
        return Ok(());
    }
    if args.predecoded.is_some() {
        bail!(UsageError(
            "--jpeg-decoder nvjpeg with --predecoded: predecoded frames need no decoder; leave \
             one of the two out"
                .to_owned()
        ));
    }
    if args.backend != BackendChoice::TensorRt {
        bail!(UsageError(
            "--jpeg-decoder nvjpeg needs --backend tensorrt: it writes pixels to GPU memory; add \
             --backend tensorrt, or leave --jpeg-decoder out"
                .to_owned()
        ));
    }
    Ok(())
}

/// The cache of decoded frames that `--predecoded` names.
fn predecoded(args: &BenchArgs) -> Result<Option<PredecodedPlan>> {
    let Some(dir) = &args.predecoded else { return Ok(None) };
    if !args.resize.is_pillow() {
        bail!(UsageError(
            "--resize torchvision with --predecoded: predecoded frames are resized like Pillow; \
             leave one of the two out"
                .to_owned()
        ));
    }
    let values = predecode::values_in(dir)
        .map_err(|error| UsageError(format!("--predecoded {}: {error:#}", dir.display())))?;
    Ok(Some(PredecodedPlan { dir: absolute(dir), values }))
}

/// The clips that a file names, one on a line.
fn listed(list: &Path, split: &dyn Dataset) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(list)
        .map_err(|error| UsageError(format!("--video-list {}: {error}", list.display())))?;
    let named: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let unknown = named.iter().find(|name| !split.videos().contains(name));
    match (unknown, named.as_slice()) {
        (Some(name), _) => bail!(UsageError(format!(
            "--video-list {}: {name:?} is not a clip of {}; write one clip name per line",
            list.display(),
            split.root().display()
        ))),
        (None, []) => bail!(UsageError(format!(
            "--video-list {} is empty; write one clip name per line",
            list.display()
        ))),
        (None, _) => Ok(named),
    }
}

fn split_dir(args: &BenchArgs) -> Result<PathBuf> {
    match &args.split_dir {
        Some(dir) => Ok(dir.clone()),
        None if args.test_mode => write_test_split(),
        None => bail!(UsageError(
            "--split-dir is required unless --test-mode is used; name a folder with \
             JPEGImages_24fps, or create one: segtrt synth --out demo/split"
                .to_owned()
        )),
    }
}

/// The split of the test mode.
fn write_test_split() -> Result<PathBuf> {
    let options = SynthOptions {
        out: PathBuf::from(TEST_SPLIT),
        videos: 1,
        objects: 1,
        frames: 12,
        width: 480,
        height: 320,
        seed: 0,
        alike: false,
        mask_stride: MASK_STRIDE,
    };
    write_split(&options)?;
    Ok(options.out)
}

/// Several lanes wait at the same time, while threads decode.
fn usual_wait(args: &GpuArgs) -> Wait {
    if args.lanes.is_some_and(|lanes| lanes > 1) { Wait::Yield } else { Wait::Spin }
}

/// How engines are run on a GPU.
///
/// # Errors
/// [`UsageError`]: flags that contradict each other.
pub(in crate::commands) fn gpu_plan(args: &GpuArgs, resize: Filter) -> Result<GpuPlan> {
    if args.encode_batch > 1 && args.mode == Mode::Latency {
        let batch = args.encode_batch;
        bail!(UsageError(format!(
            "--encode-batch {batch} needs --mode throughput: latency mode has one frame in \
             flight; add --mode throughput"
        )));
    }
    Ok(GpuPlan {
        device: args.device,
        tensorrt_lib: args.tensorrt_lib.clone(),
        track_variant: args.track_variant,
        options: Options {
            mode: if args.lanes.is_some() { Mode::Offline } else { args.mode },
            graphs: !args.no_cuda_graphs,
            wait: args.host_wait.unwrap_or_else(|| usual_wait(args)),
            encode_ahead: args.encode_ahead as usize,
            encode_batch: args.encode_batch as usize,
            decode_threads: args
                .decode_threads
                .map_or_else(|| usual_decode_threads(1), |threads| threads as usize),
            jpeg_decoder: args.jpeg_decoder,
            resize,
            object_streams: args.object_streams,
        },
        objects_together: args.objects_together as usize,
        repeat_clip: args.repeat_clip as usize,
        lanes: args.lanes.map(|lanes| lanes as usize),
    })
}
