/*!
Arguments of `segtrt jetson-benchmark`: the predecessor's, its presets, and what it only wished for.

Whatever a preset or an earlier setup may say is an `Option` here, so that what the user typed wins.
*/

use std::path::PathBuf;

use clap::Args;

use crate::commands::bench::Toggle;
use crate::commands::shared::ShuffleArgs;
use crate::commands::started_bench::StartedBenchArgs;
use crate::two_phase::Preset;
use vos::predecode::Values;

/// What the two phases do.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt jetson-benchmark --split-dir demo/split --models edgetam_mini_points --imgsz 256 --limit-videos 1\n\n\
    Only prepare:  segtrt jetson-benchmark --split-dir demo/split --skip-inference\n\
    Only measure:  segtrt jetson-benchmark --split-dir demo/split --skip-setup\n\
    Engines that are missing or outdated are built in the first phase.\n\
    Further flags of bench follow two hyphens: … -- --threads 2. What each phase does is written in docs/experiments.md."
)]
pub struct JetsonBenchmarkArgs {
    /// The split: SA-V layout (JPEGImages_24fps, Annotations_6fps) or DAVIS layout.
    #[arg(long)]
    pub split_dir: PathBuf,
    /// Stem of the manifest in the split folder [default: sav_val].
    #[arg(long)]
    pub split_name: Option<String>,
    /// Flags that belong together; what is given beside them wins.
    #[arg(long, value_enum)]
    pub preset: Option<Preset>,
    /// Tags separated by commas, or "all" [default: sam2_base_points,edgetam_points].
    #[arg(long)]
    pub models: Option<String>,
    /// Side of the network input in pixels [default: 1024].
    #[arg(long)]
    pub imgsz: Option<usize>,
    /// fp32 or fp16, of engines also mixed [default: engines the platform's, graphs fp32].
    #[arg(long, visible_alias = "autocast-dtype", alias = "autocast")]
    pub precision: Option<String>,
    /// Clips, 0 for all [default: 0].
    #[arg(long)]
    pub limit_videos: Option<usize>,
    /// Objects of each clip, 0 for all [default: 0].
    #[arg(long)]
    pub limit_objects: Option<usize>,
    /// In which order clips are taken.
    #[command(flatten)]
    pub shuffle: ShuffleArgs,
    /// Where results go [default: SPLIT_DIR/jetson_benchmark_outputs].
    #[arg(long)]
    pub out_dir: Option<PathBuf>,
    /// Write the masks over the frames.
    #[arg(long, num_args = 0..=1, default_missing_value = "1", default_value = "0", value_enum)]
    pub save_overlays: Toggle,
    /// Cap of TensorRT's workspace while engines are built, in MiB [default: 256].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub workspace_mb: Option<u64>,
    /// Most decoded frames in memory at once [default: 600].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_frames_in_mem: Option<u32>,
    /// Where the first phase leaves what the second one reads.
    #[arg(long, default_value = "preprocessed_data")]
    pub preprocessed_dir: PathBuf,
    /// Only the second phase.
    #[arg(long)]
    pub skip_setup: bool,
    /// Only the first phase.
    #[arg(long, conflicts_with = "skip_setup")]
    pub skip_inference: bool,
    /// In the first phase decode and resize all frames into files that the second one maps; on the CPU backend only.
    #[arg(long, value_enum, value_name = "VALUES")]
    pub predecode: Option<Values>,
    /// Seconds between two lines on the system's memory while a model runs, 0 for none.
    #[arg(long, default_value_t = 10)]
    pub memory_log_interval: u64,
    /// Go on where an interrupted second phase stopped.
    #[arg(long)]
    pub resume: bool,
    /// What the benches run with.
    #[command(flatten)]
    pub started: StartedBenchArgs,
    /// Print the rows as JSON.
    #[arg(long)]
    pub json: bool,
    /// Accepted from old command lines: cuDNN takes no part.
    #[arg(long, hide = true)]
    pub enable_cudnn_tuning: bool,
}
