/*!
Flags of `segtrt build-engines`.
*/

use std::path::PathBuf;

use clap::Args;

use crate::commands::headings::{GPU, MODEL, OUTPUT};
use runtime::engine::MOST_POINTS;
use runtime::engine::fp32_pins::Fp32Pins;
use vos::bundle::Role;
use vos::precision::Precision;
use vos::track_variant::TrackVariant;

/// The largest cap that is taken, MiB: 16 TiB, more than any GPU has, and in bytes still a number.
const MOST_MIB: u64 = 1 << 24;

/// What to build, how, and where it goes.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example: segtrt build-engines --platform orin --models edgetam --onnx-dir bundles\n\n\
    Plans and engine.json go to OUT/PLATFORM/MODEL_IMGSZ_PRECISION/. Plans that are up to date are kept. \
    The names of the graphs are explained in onnx/README.md."
)]
pub struct BuildEnginesArgs {
    /// Row of the platform table: orin, orin-nano, rtx3090, h200, …; "auto" takes this GPU.
    #[arg(long, help_heading = MODEL, default_value = "auto")]
    pub platform: String,
    /// Models such as edgetam, sam2.1_tiny, separated by commas, or "all" [default: the
    /// platform's].
    #[arg(long, help_heading = MODEL)]
    pub models: Option<String>,
    /// Build only these graphs: encoder, encoder_cut0 …, encoder_b2 …, prompt, mask_prompt, track,
    /// track_padded, track_keys, track_seg0 …, track_image, memory [default: those that
    /// --track-variant needs].
    #[arg(long, help_heading = MODEL, value_delimiter = ',', value_parser = Role::from_name)]
    pub graphs: Vec<Role>,
    /// Image side of the network input, in pixels [default: the platform's].
    #[arg(long, help_heading = MODEL)]
    pub imgsz: Option<usize>,
    /// Precision of the engines [default: the platform's].
    #[arg(long, help_heading = MODEL, value_enum)]
    pub precision: Option<Precision>,
    /// Limit of TensorRT's workspace, in MiB [default: the platform's].
    #[arg(long, help_heading = GPU, value_parser = clap::value_parser!(u64).range(1..=MOST_MIB))]
    pub workspace_mb: Option<u64>,
    /// Limit of device memory while tactics are timed, in MiB [default: TensorRT's].
    #[arg(long, help_heading = GPU, value_parser = clap::value_parser!(u64).range(1..=MOST_MIB))]
    pub tactic_mb: Option<u64>,
    /// Limit of all device memory of the build, in MiB [default: none].
    #[arg(long, help_heading = GPU, value_parser = clap::value_parser!(u64).range(1..=MOST_MIB))]
    pub memory_mb: Option<u64>,
    /// TensorRT's builder optimization level [default: the platform's].
    #[arg(long, help_heading = GPU, value_parser = clap::value_parser!(u8).range(0..=5))]
    pub opt_level: Option<u8>,
    /// Runs to average for the time of each tactic; more runs choose better on a shared GPU
    /// [default: TensorRT's].
    #[arg(long, help_heading = GPU, value_parser = clap::value_parser!(u8).range(1..))]
    pub timing_runs: Option<u8>,
    /// Do not autotune the encoder's matmuls: keep earlier results, else use cuBLASLt's heuristic.
    /// For a shared GPU.
    #[arg(long, help_heading = GPU)]
    pub no_autotune: bool,
    /// Largest batch of objects; each size gets an optimisation profile, except in the graph track.
    /// bench needs 1.
    #[arg(
        long,
        help_heading = MODEL,
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=64)
    )]
    pub max_objects: u16,
    /// Most points of a prompt; each number gets an optimisation profile of the graph prompt. A
    /// click is one point, a box two. track takes more than 2 where engines are built for them.
    #[arg(
        long,
        help_heading = MODEL,
        default_value_t = 2,
        value_parser = clap::value_parser!(u16).range(2..=MOST_POINTS as i64)
    )]
    pub prompt_points: u16,
    /// How the track step handles a memory bank that is not full [default: the platform's].
    #[arg(long, help_heading = MODEL, value_enum)]
    pub track_variant: Option<TrackVariant>,
    /// Keep the types of the graphs where TensorRT leaves the choice (10.x).
    #[arg(long, help_heading = MODEL)]
    pub strongly_typed: bool,
    /// Layers that fp16 engines keep in fp32, where TensorRT chooses the types [default: pinned].
    #[arg(long, help_heading = MODEL, value_enum)]
    pub fp32_pins: Option<Fp32Pins>,
    /// Graphs of fp16 engines to compute in fp32 with TF32 matmuls: slower, and closer to fp32.
    /// "encoder" includes its parts.
    #[arg(
        long,
        help_heading = MODEL,
        value_delimiter = ',',
        value_name = "GRAPH,…",
        value_parser = Role::from_name
    )]
    pub fp32_graphs: Vec<Role>,
    /// Further layers of fp16 engines to compute in fp32, by parts of their names (segtrt inspect
    /// lists them).
    #[arg(long, help_heading = MODEL, value_delimiter = ',', value_name = "PART,…")]
    pub fp32_layers: Vec<String>,
    /// Also try tactics of cuBLAS and cuDNN; the plan then needs these libraries.
    #[arg(long, help_heading = GPU)]
    pub library_tactics: bool,
    /// Use only tactics and kernels that every GPU from Ampere (sm_80) on can run. Measures an
    /// Ampere GPU's code on a newer GPU; cuBLASLt is not restricted (TensorRT 8.6 or newer).
    #[arg(long, help_heading = GPU)]
    pub ampere_plus: bool,
    /// Timing cache to read and update [default: OUT/TENSORRT.timing]. TensorRT 8.6.0 with --jobs
    /// also writes FILE.d/MODEL_GRAPH.timing.
    #[arg(long, help_heading = OUTPUT, value_name = "FILE")]
    pub timing_cache: Option<PathBuf>,
    /// Plans to build at once, each in a process with 3 to 5 GiB of host memory. Parallel builds
    /// disturb the timing of tactics; measure with 1.
    #[arg(long, help_heading = GPU, default_value_t = 1, value_parser = jobs)]
    pub jobs: usize,
    /// Folders of exported bundles, or bundles [default: onnx/bundles, then the installed ones].
    #[arg(
        long, help_heading = MODEL,
        env = "SEGTRT_ONNX_DIR",
        value_delimiter = ':',
        num_args = 1..
    )]
    pub onnx_dir: Vec<PathBuf>,
    /// Folder of the engines.
    #[arg(long, help_heading = OUTPUT, default_value = "engines")]
    pub out: PathBuf,
    /// Another platform table.
    #[arg(long, help_heading = MODEL)]
    pub platforms: Option<PathBuf>,
    /// TensorRT's library, or its folder [default: SEGTRT_TENSORRT_LIB, the loader's path, pip's
    /// packages].
    #[arg(long, help_heading = GPU)]
    pub tensorrt_lib: Option<PathBuf>,
    /// Number of the GPU that builds, in the order of the driver.
    #[arg(long, help_heading = GPU, default_value_t = 0)]
    pub device: usize,
    /// Print which plans would be built and why; build nothing.
    #[arg(long, help_heading = OUTPUT)]
    pub dry_run: bool,
    /// Rebuild plans that are up to date.
    #[arg(long, help_heading = OUTPUT)]
    pub force: bool,
    /// Build under each of these workspace limits (MiB, separated by commas) and print the cost of
    /// each.
    #[arg(
        long,
        help_heading = GPU,
        value_delimiter = ',',
        value_name = "MIB,…",
        conflicts_with_all = ["workspace_mb", "dry_run"],
        value_parser = clap::value_parser!(u64).range(1..=MOST_MIB)
    )]
    pub sweep_workspace: Vec<u64>,
    /// Refuse plans of encoder and track step without fused attention.
    #[arg(long, help_heading = GPU)]
    pub require_fused_attention: bool,
    /// Folder for TensorRT's full log and layer list of each plan.
    #[arg(long, help_heading = OUTPUT)]
    pub build_log: Option<PathBuf>,
    /// Print the rows as JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(jobs @ 1..=64) => Ok(jobs),
        _ => Err("a number of processes from 1 to 64".to_owned()),
    }
}
