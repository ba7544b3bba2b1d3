/*!
Flags of `segtrt bench`: those of the predecessor with its defaults, and new ones.
*/

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use super::dead_flags::DeadFlags;
use crate::commands::headings::{DATA, GPU, MEASURING, MODEL, OUTPUT};
use crate::commands::shared::{ShuffleArgs, parse_stall_limit};
use crate::shard::Shard;
use cuda::Wait;
use runtime::backend::Provider;
use runtime::pipeline::{JpegDecoder, Mode};
use vos::bundle::Role;
use vos::files::ColumnSet;
use vos::geometry::GeometryKind;
use vos::metrics::MetricsKind;
use vos::preprocess::Filter;
use vos::prompt::{PromptKind, PromptPolicy};
use vos::record::EncodeStage;
use vos::track_variant::TrackVariant;

/// What to measure and where to write it.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example: segtrt bench --split-dir demo/split --models edgetam_mini_points \
                  --out-dir demo/out\n\ndocs/explanation/how-we-measure.md and the sidecar of \
                  each run define the timed region."
)]
pub struct BenchArgs {
    /// Folder of the split, in the layout of SA-V, DAVIS, YouTube-VOS, MOSE or LVOS.
    #[arg(long, help_heading = DATA)]
    pub split_dir: Option<PathBuf>,
    /// Name of the clip list in the split folder; without such a file all clips are taken.
    #[arg(long, help_heading = DATA, default_value = "sav_val")]
    pub split_name: String,
    /// Models by their names in fetch, with or without a prompt, such as edgetam,sam2.1_tiny_bbox.
    /// all: every model that is there; without any, the demo's network.
    #[arg(long, help_heading = MODEL, default_value = "all")]
    pub models: String,
    /// Prompt of tags without one.
    #[arg(long, help_heading = MODEL, value_enum, default_value = "points")]
    pub prompt: PromptKind,
    /// Image side of the network input, in pixels [default: 1024, or the only size found].
    #[arg(long, help_heading = MODEL)]
    pub imgsz: Option<usize>,
    /// Precision: fp32 or fp16; engines also mixed [default: fp32; for engines the platform's, or
    /// the only one found].
    #[arg(
        long,
        help_heading = MODEL,
        visible_alias = "autocast",
        alias = "autocast-dtype",
        value_parser = parse_precision
    )]
    pub precision: Option<String>,
    /// Number of clips, 0 for all.
    #[arg(long, help_heading = DATA, default_value_t = 0)]
    pub limit_videos: usize,
    /// Objects per clip, 0 for all.
    #[arg(long, help_heading = DATA, default_value_t = 0)]
    pub limit_objects: usize,
    /// Frames per clip, from the prompted frame on, 0 for all.
    #[arg(long, help_heading = DATA, default_value_t = 0)]
    pub max_clip_frames: usize,
    /// Use every K-th frame, from the prompted frame on: 2 turns a clip of 24 frames a second into
    /// 12.
    #[arg(
        long,
        help_heading = DATA,
        value_name = "K",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub input_frame_stride: u32,
    /// Score every K-th frame after the prompted one, where it is used and annotated; 0 scores all.
    #[arg(long, help_heading = DATA, value_name = "K", default_value_t = 0)]
    pub annotation_stride_frames: u32,
    /// Columns of sav_benchmark_summary.csv: the predecessor's, or extended by the strides
    /// [default: extended with a stride, else standard].
    #[arg(long, help_heading = OUTPUT, value_enum)]
    pub columns: Option<ColumnSet>,
    /// In which order clips are taken.
    #[command(flatten)]
    pub shuffle: ShuffleArgs,
    /// Warm-up passes over the first frames of each object, not recorded.
    #[arg(long, help_heading = MEASURING, default_value_t = 1)]
    pub warmup_runs: usize,
    /// Measured passes over each object.
    #[arg(
        long,
        help_heading = MEASURING,
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub profile_runs: u32,
    /// Folder of the results [default: benchmark_outputs].
    #[arg(long, help_heading = OUTPUT)]
    pub out_dir: Option<PathBuf>,
    /// Write the frames with mask (green), true outline (white) and prompt (red), as mp4 with
    /// ffmpeg, else as PNG files.
    #[arg(
        long,
        help_heading = OUTPUT,
        num_args = 0..=1,
        default_missing_value = "1",
        default_value = "0",
        value_enum
    )]
    pub save_overlays: Toggle,
    /// Run two clips in step, as the views of a stereo camera: NAME_left with NAME_right, else each
    /// clip with the next. A row's fps is that of one view.
    #[arg(long, help_heading = MEASURING)]
    pub stereo: bool,
    /// Time an encode stage: overlay (mp4 with ffmpeg, else PNG) or masks (PNG), inside each frame's
    /// time or beside it on another thread, such as overlay,inside [place: beside].
    #[arg(long, help_heading = MEASURING, value_name = "OUTPUT[,PLACE]")]
    pub encode: Option<EncodeStage>,
    /// Write every predicted mask as COCO RLE, one JSON file per object and model.
    #[arg(long, help_heading = OUTPUT)]
    pub save_masks: bool,
    /// Write the low-resolution logits of every frame for --teacher, one .npy file per object and
    /// model. Not a speed measurement.
    #[arg(long, help_heading = OUTPUT)]
    pub save_logits: bool,
    /// Teacher-forced run: write memories from the logits of this run, made with --save-logits
    /// (docs/explanation/how-we-compare.md). Not a speed measurement.
    #[arg(long, help_heading = MEASURING, value_name = "RUN_FOLDER", conflicts_with = "save_logits")]
    pub teacher: Option<PathBuf>,
    /// Continue an interrupted run in the same folder. Without this flag existing results are set
    /// aside.
    #[arg(long, help_heading = OUTPUT)]
    pub resume: bool,
    /// How prompts are derived from the ground truth.
    #[arg(long, help_heading = DATA, value_enum, default_value = "predecessor")]
    pub prompt_policy: PromptPolicy,
    /// How frames are resized to the square network input.
    #[arg(long, help_heading = DATA, value_enum, default_value = "stretch")]
    pub geometry: GeometryKind,
    /// Resize filter of frames, as Meta's video loader (pillow) or its image predictor
    /// (torchvision).
    #[arg(long, help_heading = DATA, value_enum, default_value = "pillow")]
    pub resize: Filter,
    /// Rules of the metrics J and F. Screens show percent; CSV and JSON files hold 0..1.
    #[arg(long, help_heading = MEASURING, value_enum, default_value = "predecessor")]
    pub metrics: MetricsKind,
    /// What runs the networks.
    #[arg(long, help_heading = MODEL, value_enum, default_value = "onnxruntime")]
    pub backend: BackendChoice,
    /// Flags of the GPU backend.
    #[command(flatten)]
    pub gpu: GpuArgs,
    /// Execution provider of ONNX Runtime. If the library lacks it, that is an error.
    #[arg(long, help_heading = MODEL, value_enum, default_value = "cpu")]
    pub ort_provider: Provider,
    /// Shared library of ONNX Runtime, or its folder.
    #[arg(long, help_heading = MODEL)]
    pub ort_lib: Option<PathBuf>,
    /// Threads of ONNX Runtime [default: all processors].
    #[arg(long, help_heading = MODEL, value_parser = RangedU64ValueParser::<usize>::new().range(..=1024))]
    pub threads: Option<usize>,
    /// Folder of bundles, or one bundle, written by onnx/export.py; may be repeated [default:
    /// onnx/bundles, then the installed ones].
    #[arg(long, help_heading = MODEL, env = "SEGTRT_ONNX_DIR", value_delimiter = ':')]
    pub onnx_dir: Vec<PathBuf>,
    /// Interval between readings of GPU power, clocks and temperature, in milliseconds.
    #[arg(
        long,
        help_heading = MEASURING,
        default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(10..=60_000)
    )]
    pub telemetry_ms: u64,
    /// End a worker that finishes no frame for this long; its object gets a failed row. 0 waits
    /// forever [default: 600; 0 with --ort-provider tensorrt].
    #[arg(
        long,
        help_heading = MEASURING,
        env = "SEGTRT_STALL_LIMIT",
        value_name = "SECONDS",
        value_parser = parse_stall_limit
    )]
    pub stall_limit: Option<u64>,
    /// Print the table as one JSON document.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Print the device's memory by use below the results: weights, activations, inputs, bank and
    /// so on, and what TensorRT says of each engine. The sidecar has it too.
    #[arg(long, help_heading = OUTPUT)]
    pub memory: bool,
    /// Measure a synthetic clip: writes ./test_synthetic_data and ./test_outputs.
    #[arg(long, help_heading = DATA)]
    pub test_mode: bool,
    /// Read frames from files written by segtrt predecode. Decoding and resizing are then not
    /// timed; the rows record this.
    #[arg(long, help_heading = DATA, value_name = "DIR")]
    pub predecoded: Option<PathBuf>,
    /// Measure only the clips in this file, one name per line.
    #[arg(long, help_heading = DATA, value_name = "FILE")]
    pub video_list: Option<PathBuf>,
    /// Measure only this part of the clips, such as 2/5. Whole clips are divided, after all limits,
    /// by number of frames.
    #[arg(long, help_heading = DATA, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Continue with the rows of this many shards; experiment sets it.
    #[arg(long, hide = true)]
    pub merged_from: Option<usize>,
    /// Number of other GPUs of this host measured at the same time; experiment sets it.
    #[arg(long, hide = true, default_value_t = 0)]
    pub other_devices: usize,
    /// Number of processes that hold the GPU open and wait; compare sets it.
    #[arg(long, hide = true, default_value_t = 0)]
    pub idle_processes: usize,
    /// Flags of the predecessor without effect here.
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
pub struct GpuArgs {
    /// Folder of engines written by build-engines, or one engine folder.
    #[arg(long, help_heading = MODEL, default_value = "engines")]
    pub engines: PathBuf,
    /// Only engines of this row of the platform table [default: those for this GPU].
    #[arg(long, help_heading = MODEL)]
    pub platform: Option<String>,
    /// The engines will run on another machine, which --platform names. For planning only.
    #[arg(long, hide = true)]
    pub elsewhere: bool,
    /// Number of the GPU, in the order of the driver.
    #[arg(long, help_heading = GPU, default_value_t = 0)]
    pub device: usize,
    /// TensorRT's library, or its folder [default: SEGTRT_TENSORRT_LIB, the loader's path, pip's
    /// packages].
    #[arg(long, help_heading = GPU)]
    pub tensorrt_lib: Option<PathBuf>,
    /// Variant of the track engines to run [default: segmented if built, else the platform's].
    #[arg(long, help_heading = MODEL, value_enum)]
    pub track_variant: Option<TrackVariant>,
    /// latency: one frame in flight. throughput: frames overlap, as many per second as possible.
    #[arg(long, help_heading = MEASURING, value_enum, default_value = "latency")]
    pub mode: Mode,
    /// Throughput mode: frames that the encoder may run ahead of the tracker.
    #[arg(
        long,
        help_heading = GPU,
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=32)
    )]
    pub encode_ahead: u32,
    /// Throughput mode: batch size of the encoder, 1, 2, 4, 8 or 16. The bundle needs
    /// onnx/export.py --encoder-batches.
    #[arg(long, help_heading = GPU, default_value_t = 1, value_parser = batch_size)]
    pub encode_batch: u32,
    /// Objects of a clip to track together. The encoder then runs once per frame for all of them.
    #[arg(
        long,
        help_heading = GPU,
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    pub objects_together: u32,
    /// Track each of these objects on its own CUDA stream, instead of one after the other.
    #[arg(long, help_heading = GPU)]
    pub object_streams: bool,
    /// Threads that decode frames in advance [default: all processors but one, at most 8].
    #[arg(long, help_heading = GPU, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub decode_threads: Option<u32>,
    /// Decoder of JPEG frames: turbo (libjpeg-turbo on the host, pixels as Pillow's) or nvjpeg
    /// (NVIDIA's nvJPEG on the GPU, other pixels; see fidelity in docs/reference/columns.md).
    #[arg(
        long,
        help_heading = GPU,
        value_enum,
        default_value = "turbo",
        hide_possible_values = true,
        value_name = "turbo|nvjpeg"
    )]
    pub jpeg_decoder: JpegDecoder,
    /// Launch the work of each frame separately, without CUDA graphs.
    #[arg(long, help_heading = GPU)]
    pub no_cuda_graphs: bool,
    /// How the host waits for a frame [default: spin; yield with several --lanes].
    #[arg(long, help_heading = GPU, value_enum)]
    pub host_wait: Option<Wait>,
    /// Run N clips at once on one GPU, one frame of each in flight: as many frames a second as
    /// possible. Rows have the mode offline; their fps is that of all lanes.
    #[arg(
        long,
        help_heading = MEASURING,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    pub lanes: Option<u32>,
    /// Run the clip N times in each pass without resetting the memory. Masks of the first time are
    /// scored.
    #[arg(
        long,
        help_heading = MEASURING,
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub repeat_clip: u32,
}

/// A number of frames for which there are encoders.
fn batch_size(text: &str) -> Result<u32, String> {
    let frames: u32 = text.parse().map_err(|error| format!("{error}"))?;
    let known = Role::encoder_of(frames as usize).is_some();
    known.then_some(frames).ok_or_else(|| "expected 1, 2, 4, 8 or 16".to_owned())
}

/// A precision of graphs or engines, by any of its names.
///
/// # Errors
/// A sentence for an unknown name.
pub fn parse_precision(text: &str) -> Result<String, String> {
    match text {
        "fp32" | "float32" | "none" => Ok("fp32".to_owned()),
        "fp16" | "float16" => Ok("fp16".to_owned()),
        // Engines only: there are no mixed graphs for the CPU.
        "mixed" => Ok("mixed".to_owned()),
        "bf16" | "bfloat16" => {
            Err("there are no bf16 graphs: bf16 has eight times the mask error \
                                    of fp16; use fp16 or fp32"
                .to_owned())
        }
        _ => Err(format!("{text:?} is not a precision; use fp32, fp16 or mixed")),
    }
}
