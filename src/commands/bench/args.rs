/*!
Arguments of `segtrt bench`: the predecessor's flags with its defaults, and this tool's own.
*/

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use crate::commands::shared::{ShuffleArgs, parse_stall_limit};
use crate::shard::Shard;
use cuda::Wait;
use runtime::backend::Provider;
use runtime::pipeline::{Decoder, Mode};
use vos::bundle::Role;
use vos::files::ColumnSet;
use vos::geometry::GeometryKind;
use vos::metrics::MetricsKind;
use vos::prompt::{PromptKind, PromptPolicy};
use vos::track_variant::TrackVariant;

/// What to measure and where to write it.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example: segtrt bench --split-dir demo/split --models edgetam_mini_points --out-dir demo/out\n\n\
    What is timed, and what is not, is written in docs/measuring.md and in the sidecar of each run."
)]
pub struct BenchArgs {
    /// The split: SA-V layout (JPEGImages_24fps, Annotations_6fps) or DAVIS layout.
    #[arg(long)]
    pub split_dir: Option<PathBuf>,
    /// Stem of the manifest in the split folder; all clips where there is none.
    #[arg(long, default_value = "sav_val")]
    pub split_name: String,
    /// Tags such as edgetam_points, sam2_tiny_bbox, separated by commas, or "all".
    #[arg(long, default_value = "sam2_base_points,sam2_base_bbox,edgetam_points,edgetam_bbox")]
    pub models: String,
    /// Prompt of tags that name none.
    #[arg(long, value_enum, default_value = "points")]
    pub prompt: PromptKind,
    /// Side of the network input in pixels [default: 1024, or the only size that is there].
    #[arg(long)]
    pub imgsz: Option<usize>,
    /// Precision of the graphs or engines: fp32 or fp16, of engines also mixed [default: fp32; for engines the platform's, or the only one that is there].
    #[arg(long, visible_alias = "autocast", alias = "autocast-dtype", value_parser = parse_precision)]
    pub precision: Option<String>,
    /// Clips to measure, 0 for all.
    #[arg(long, default_value_t = 0)]
    pub limit_videos: usize,
    /// Objects of each clip to measure, 0 for all.
    #[arg(long, default_value_t = 0)]
    pub limit_objects: usize,
    /// Frames of each clip to run, from the prompted one on; 0 for all.
    #[arg(long, default_value_t = 0)]
    pub max_clip_frames: usize,
    /// Feed every so many frames, from the prompted one on: 2 turns clips of 24 frames a second into clips of 12.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub input_frame_stride: u32,
    /// Score annotations that lie a multiple of so many frames after the prompted one, as far as their frames are fed; 0 for all.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub annotation_stride_frames: u32,
    /// Columns of sav_benchmark_summary.csv: the predecessor's, or its extended ones that tell the strides
    /// [default: extended where a stride is given].
    #[arg(long, value_enum)]
    pub columns: Option<ColumnSet>,
    /// In which order clips are taken.
    #[command(flatten)]
    pub shuffle: ShuffleArgs,
    /// Passes over the clip's first frames before each object's measured runs, not recorded.
    #[arg(long, default_value_t = 1)]
    pub warmup_runs: usize,
    /// Measured passes over each object.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub profile_runs: u32,
    /// Where results go [default: SPLIT_DIR/benchmark_outputs].
    #[arg(long)]
    pub out_dir: Option<PathBuf>,
    /// Write the masks over the frames: mp4 where ffmpeg is installed, PNG files otherwise.
    #[arg(long, num_args = 0..=1, default_missing_value = "1", default_value = "0", value_enum)]
    pub save_overlays: Toggle,
    /// Write every predicted mask as COCO RLE, one JSON file for each object and model.
    #[arg(long)]
    pub save_masks: bool,
    /// Write the low-resolution logits of every frame, one .npy file for each object and model, for --teacher. Such a run
    /// is no measurement of speed.
    #[arg(long)]
    pub save_logits: bool,
    /// Write every memory from the logits that this run folder holds (made with --save-logits) instead of the run's own:
    /// docs/comparing.md. Such a run is no measurement of speed.
    #[arg(long, value_name = "RUN_FOLDER", conflicts_with = "save_logits")]
    pub teacher: Option<PathBuf>,
    /// Go on where an interrupted run into the same folder stopped. Without it rows, tables, masks, logits and overlays that are there are set aside.
    #[arg(long)]
    pub resume: bool,
    /// How prompts are made from the ground truth.
    #[arg(long, value_enum, default_value = "predecessor")]
    pub prompt_policy: PromptPolicy,
    /// How frames are brought to the network's square.
    #[arg(long, value_enum, default_value = "stretch")]
    pub geometry: GeometryKind,
    /// Rules of J and F.
    #[arg(long, value_enum, default_value = "predecessor")]
    pub metrics: MetricsKind,
    /// What runs the network.
    #[arg(long, value_enum, default_value = "onnxruntime")]
    pub backend: BackendChoice,
    /// The GPU backend's own flags.
    #[command(flatten)]
    pub gpu: GpuArgs,
    /// ONNX Runtime's execution provider; an error where the library lacks it, never another one instead.
    #[arg(long, value_enum, default_value = "cpu")]
    pub ort_provider: Provider,
    /// ONNX Runtime's shared library, or its folder.
    #[arg(long)]
    pub ort_lib: Option<PathBuf>,
    /// Threads of ONNX Runtime [default: all processors].
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(..=1024))]
    pub threads: Option<usize>,
    /// Folder of bundles (or one bundle) written by onnx/export.py; may be given several times
    /// [default: onnx/bundles].
    #[arg(long, env = "SEGTRT_ONNX_DIR", value_delimiter = ':')]
    pub onnx_dir: Vec<PathBuf>,
    /// Milliseconds between two readings of the GPU's power, clocks and temperature.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub telemetry_ms: u64,
    /// A worker that has loaded its model and finishes no frame for so many seconds hangs: it is ended, the object at hand gets a
    /// failed row, another worker goes on. 0: wait for ever [default: 600; 0 with --ort-provider tensorrt, which builds engines inside a pass].
    #[arg(long, env = "SEGTRT_STALL_LIMIT", value_name = "SECONDS", value_parser = parse_stall_limit)]
    pub stall_limit: Option<u64>,
    /// Print the table as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Measure a synthetic clip: writes ./test_synthetic_data, results in ./test_outputs.
    #[arg(long)]
    pub test_mode: bool,
    /// Take frames from files that segtrt predecode wrote: decoding and resizing are then in no time, and rows say so.
    #[arg(long, value_name = "DIR")]
    pub predecoded: Option<PathBuf>,
    /// Only the clips that this file names, one on a line.
    #[arg(long, value_name = "FILE")]
    pub video_list: Option<PathBuf>,
    /// Only this part of the clips, such as 2/5: after all limits, by whole clips, about as many frames in each part.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Go on with rows that so many shards left; experiment sets it.
    #[arg(long, hide = true)]
    pub merged_from: Option<usize>,
    /// How many other GPUs of this host are measured at the same time; experiment sets it.
    #[arg(long, hide = true, default_value_t = 0)]
    pub other_devices: usize,
    /// How many processes have the GPU open and wait for their turn; compare sets it.
    #[arg(long, hide = true, default_value_t = 0)]
    pub idle_processes: usize,
    /// Flags of the predecessor that mean nothing here.
    #[command(flatten)]
    pub dead: DeadFlags,
}

/// On or off, written 1 or 0 as the predecessor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Toggle {
    /// Off.
    #[value(name = "0", alias = "false")]
    Off,
    /// On.
    #[value(name = "1", alias = "true")]
    On,
}

/// What runs the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendChoice {
    /// ONNX Runtime.
    #[value(name = "onnxruntime", alias = "ort")]
    OnnxRuntime,
    /// TensorRT engines on a GPU.
    #[value(name = "tensorrt", alias = "trt")]
    TensorRt,
}

/// How engines are run on a GPU.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "With --backend tensorrt")]
pub struct GpuArgs {
    /// Folder of engines written by build-engines, or one engine folder in it.
    #[arg(long, default_value = "engines")]
    pub engines: PathBuf,
    /// Only engines of this row of the platform table [default: those of the GPU at hand].
    #[arg(long)]
    pub platform: Option<String>,
    /// The engines are to run on another machine than this: --platform says what they are for. For planning alone.
    #[arg(long, hide = true)]
    pub elsewhere: bool,
    /// Which GPU, as the driver counts them.
    #[arg(long, default_value_t = 0)]
    pub device: usize,
    /// TensorRT's library, or its folder [default: SEGTRT_TENSORRT_LIB, the loader's path, pip's packages].
    #[arg(long)]
    pub tensorrt_lib: Option<PathBuf>,
    /// Which of the folder's track engines [default: segmented if it is there, else the platform's].
    #[arg(long, value_enum)]
    pub track_variant: Option<TrackVariant>,
    /// One frame in flight, or as many frames a second as there can be.
    #[arg(long, value_enum, default_value = "latency")]
    pub mode: Mode,
    /// Frames that the encoder may be ahead of the tracker in throughput mode.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=32))]
    pub encode_ahead: u32,
    /// Frames that the encoder takes at once in throughput mode: 1, 2, 4, 8 or 16. The engines are built where the bundle
    /// was exported with --encoder-batches.
    #[arg(long, default_value_t = 1, value_parser = batch_size)]
    pub encode_batch: u32,
    /// Objects of a clip that are tracked together: each frame is encoded once for all of them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub objects_together: u32,
    /// Objects that are tracked together run on a stream each, instead of one after the other.
    #[arg(long)]
    pub object_streams: bool,
    /// Threads that decode frames ahead [default: all processors but one, at most 8].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub decode_threads: Option<u32>,
    /// What decodes frames: libjpeg-turbo on the host, whose pixels are Pillow's; or NVIDIA's nvJPEG, which makes pixels on the
    /// GPU that are not, as the row's fidelity says (docs/measuring.md).
    #[arg(
        long,
        value_enum,
        default_value = "turbo",
        hide_possible_values = true,
        value_name = "turbo|nvjpeg"
    )]
    pub decoder: Decoder,
    /// Enqueue each frame's work anew instead of replaying CUDA graphs.
    #[arg(long)]
    pub no_cuda_graphs: bool,
    /// How the host waits for a frame.
    #[arg(long, value_enum, default_value = "spin")]
    pub host_wait: Wait,
    /// Go over the clip this often in each recorded pass, without forgetting: long runs from short clips. Masks are kept
    /// and scored of the first time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat_clip: u32,
}

/// A number of frames for which there are encoders.
fn batch_size(text: &str) -> Result<u32, String> {
    let frames: u32 = text.parse().map_err(|error| format!("{error}"))?;
    let known = Role::encoder_of(frames as usize).is_some();
    known.then_some(frames).ok_or_else(|| "expected 1, 2, 4, 8 or 16".to_owned())
}

/// Accepted so that old command lines run; each one that is given costs a warning.
#[derive(Clone, Debug, Args)]
pub struct DeadFlags {
    #[arg(long, hide = true)]
    weights_dir: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "1")]
    compile_models: Option<String>,
    #[arg(long, hide = true)]
    compile_mode: Option<String>,
    #[arg(long, hide = true)]
    compile_backend: Option<String>,
    #[arg(long, hide = true)]
    disable_cudnn: bool,
    #[arg(long, hide = true)]
    max_frames_in_mem: Option<String>,
    #[arg(long, hide = true)]
    workspace_mb: Option<String>,
    #[arg(long, hide = true)]
    memory_log_interval: Option<String>,
    #[arg(long, hide = true)]
    enable_cudnn_tuning: bool,
    #[arg(long, hide = true)]
    nsight_path: Option<String>,
    #[arg(long, hide = true)]
    nsight_trace_options: Option<String>,
    #[arg(long, hide = true)]
    profile_mode: Option<String>,
}

impl DeadFlags {
    /// The given ones: flag and why it does nothing.
    pub fn given(&self) -> Vec<(&'static str, &'static str)> {
        let weights = "weights are in the bundles that onnx/export.py writes (--onnx-dir)";
        let compile = "graphs are compiled ahead; PyTorch does not run here";
        let cudnn = "this tool does not use cuDNN";
        let memory = "frames are decoded one by one, memory does not grow with the clip";
        let nsight = "bench does not start nsys";
        [
            (self.weights_dir.is_some(), "--weights-dir", weights),
            (self.compile_models.is_some(), "--compile-models", compile),
            (self.compile_mode.is_some(), "--compile-mode", compile),
            (self.compile_backend.is_some(), "--compile-backend", compile),
            (self.disable_cudnn, "--disable-cudnn", cudnn),
            (self.enable_cudnn_tuning, "--enable-cudnn-tuning", cudnn),
            (self.max_frames_in_mem.is_some(), "--max-frames-in-mem", memory),
            (self.memory_log_interval.is_some(), "--memory-log-interval", memory),
            (
                self.workspace_mb.is_some(),
                "--workspace-mb",
                "it caps engine builds, bench builds none",
            ),
            (self.nsight_path.is_some(), "--nsight-path", nsight),
            (self.nsight_trace_options.is_some(), "--nsight-trace-options", nsight),
            (self.profile_mode.is_some(), "--profile-mode", nsight),
        ]
        .into_iter()
        .filter(|(given, ..)| *given)
        .map(|(_, flag, why)| (flag, why))
        .collect()
    }
}

/// A precision that graphs or engines are made in, by any of its names.
///
/// # Errors
/// What is none of them, in words.
pub fn parse_precision(text: &str) -> Result<String, String> {
    match text {
        "fp32" | "float32" | "none" => Ok("fp32".to_owned()),
        "fp16" | "float16" => Ok("fp16".to_owned()),
        // Engines only: there are no mixed graphs for the CPU.
        "mixed" => Ok("mixed".to_owned()),
        "bf16" | "bfloat16" => Err("bf16 graphs are not exported: bf16 costs masks eight times \
             fp16's error; use fp16 or fp32"
            .to_owned()),
        _ => Err(format!("{text:?} is not a precision; use fp32, fp16 or mixed")),
    }
}
