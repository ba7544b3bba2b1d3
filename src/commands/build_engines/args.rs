/*!
Arguments of `segtrt build-engines`.
*/

use std::path::PathBuf;

use clap::Args;

use runtime::engine::islands::Islands;
use vos::bundle::Role;
use vos::precision::Precision;
use vos::track_variant::TrackVariant;

/// The largest cap that is taken, MiB: 16 TiB, more than any GPU has, and in bytes still a number.
const MOST_MIB: u64 = 1 << 24;

/// What to build, how, and where it goes.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example: segtrt build-engines --platform orin --models edgetam --onnx-dir bundles\n\n\
    Each plan goes to OUT/PLATFORM/MODEL_IMGSZ_PRECISION/, with engine.json beside it; plans that are up to date are \
    kept. What TensorRT is used says --tensorrt-lib, else SEGTRT_TENSORRT_LIB, else the loader's path and pip's \
    packages."
)]
pub struct BuildEnginesArgs {
    /// Row of the platform table: orin, orin-nano, rtx3090, h200, …; "auto" takes the GPU at hand.
    #[arg(long, default_value = "auto")]
    pub platform: String,
    /// Models such as edgetam, sam2_tiny, sam2.1_large, separated by commas, or "all" [default: the platform's].
    #[arg(long)]
    pub models: Option<String>,
    /// Build these graphs only: encoder (in one piece), encoder_cut0 … (its parts), encoder_b2 …, prompt, mask_prompt, track, track_padded, track_keys, track_seg0 …, track_image (its last one without the mask decoder), memory [default: those that the bank needs].
    #[arg(long, value_delimiter = ',', value_parser = Role::from_name)]
    pub graphs: Vec<Role>,
    /// Side of the network input in pixels [default: the platform's].
    #[arg(long)]
    pub imgsz: Option<usize>,
    /// Arithmetic [default: the platform's].
    #[arg(long, value_enum)]
    pub precision: Option<Precision>,
    /// Cap of TensorRT's workspace in MiB [default: the platform's].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MOST_MIB))]
    pub workspace_mb: Option<u64>,
    /// Cap of the device memory in which tactics are timed, in MiB [default: TensorRT's].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MOST_MIB))]
    pub tactic_mb: Option<u64>,
    /// Cap of all device memory that the build may hold, in MiB [default: none].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MOST_MIB))]
    pub memory_mb: Option<u64>,
    /// TensorRT's builder optimization level [default: the platform's].
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=5))]
    pub opt_level: Option<u8>,
    /// Runs over which each tactic's time is averaged: more of them choose better where other work shares the GPU [default:
    /// TensorRT's].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    pub timing_runs: Option<u8>,
    /// Leave the products of an encoder's trunk to cuBLASLt's own choice of algorithms, or as they were timed before: where other work
    /// shares the GPU. A later call without this flag times them, for which it takes seconds.
    #[arg(long)]
    pub no_product_timing: bool,
    /// Most objects in one run of a plan: each number up to it gets a profile, but in the exact track step, which has those for one.
    /// bench tracks one object after the other; more than 1 is for other programs that run the plans.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub max_objects: u16,
    /// How the track step handles a memory bank that is not full [default: the platform's].
    #[arg(long, value_enum)]
    pub track_variant: Option<TrackVariant>,
    /// Keep the graphs' own types where the release leaves the choice (10.x).
    #[arg(long)]
    pub strongly_typed: bool,
    /// What half-precision engines keep in fp32 where types are not the graphs' own [default: pinned].
    #[arg(long, value_enum)]
    pub islands: Option<Islands>,
    /// Graphs of half-precision engines that compute in fp32 throughout, with TF32 products: slower, and nearer to fp32. "encoder"
    /// means its parts too.
    #[arg(long, value_delimiter = ',', value_name = "GRAPH,…", value_parser = Role::from_name)]
    pub fp32_graphs: Vec<Role>,
    /// Further layers of half-precision engines that compute in fp32, by parts of their names (segtrt inspect shows them).
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    pub fp32_layers: Vec<String>,
    /// Take tactics from cuBLAS and cuDNN too; the plan then needs them.
    #[arg(long)]
    pub library_tactics: bool,
    /// Timing cache to start from and to leave behind [default: OUT/TENSORRT.timing]. What TensorRT cannot merge into it (8.6.0, of
    /// several --jobs) is kept in FILE.d/MODEL_GRAPH.timing, and the next build of that graph starts from there.
    #[arg(long, value_name = "FILE")]
    pub timing_cache: Option<PathBuf>,
    /// Plans to build at a time, in so many processes with 3 to 5 GiB of host memory each, which take one plan after another. More
    /// than one is faster on a machine with many processors, but tactics are then timed beside others: keep to one for what is to be
    /// measured, unless the timing cache knows the graphs.
    #[arg(long, default_value_t = 1, value_parser = jobs)]
    pub jobs: usize,
    /// Folders of exported bundles, or bundles.
    #[arg(
        long,
        env = "SEGTRT_ONNX_DIR",
        value_delimiter = ':',
        default_value = "onnx/bundles",
        num_args = 1..
    )]
    pub onnx_dir: Vec<PathBuf>,
    /// Where engines go.
    #[arg(long, default_value = "engines")]
    pub out: PathBuf,
    /// Another platform table.
    #[arg(long)]
    pub platforms: Option<PathBuf>,
    /// Directory or library of TensorRT.
    #[arg(long)]
    pub tensorrt_lib: Option<PathBuf>,
    /// Which GPU builds.
    #[arg(long, default_value_t = 0)]
    pub device: usize,
    /// Say what would be built and why, and build nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Build what is up to date too.
    #[arg(long)]
    pub force: bool,
    /// Build under each of these workspace caps (MiB, separated by commas) and print what each costs.
    #[arg(long, value_delimiter = ',', value_name = "MIB,…", conflicts_with_all = ["workspace_mb", "dry_run"], value_parser = clap::value_parser!(u64).range(1..=MOST_MIB))]
    pub sweep_workspace: Vec<u64>,
    /// Refuse plans of the encoder and the track step whose attention is not seen to be fused.
    #[arg(long)]
    pub require_fused_attention: bool,
    /// Folder for TensorRT's whole log and layer account of each plan.
    #[arg(long)]
    pub build_log: Option<PathBuf>,
    /// Print the rows as JSON.
    #[arg(long)]
    pub json: bool,
}

fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(jobs @ 1..=64) => Ok(jobs),
        _ => Err("a number of processes from 1 to 64".to_owned()),
    }
}
