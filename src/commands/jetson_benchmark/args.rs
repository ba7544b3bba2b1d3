/*!
Flags of `segtrt jetson-benchmark`: the predecessor's, its presets, and further ones.

Whatever a preset or an earlier setup may say is an `Option` here, so that what the user typed wins.
*/

use std::path::PathBuf;

use clap::Args;

use crate::commands::bench::Toggle;
use crate::commands::headings::{DATA, GPU, MEASURING, MODEL, OUTPUT};
use crate::commands::shared::ShuffleArgs;
use crate::commands::started_bench::StartedBenchArgs;
use crate::two_phase::Preset;
use vos::predecode::Values;

/// Flags of `segtrt jetson-benchmark`.
#[derive(Debug, Args)]
#[command(after_help = "Example: segtrt jetson-benchmark --split-dir demo/split --models \
                  edgetam_mini_points --imgsz 256 --limit-videos 1\n\nOnly prepare:  segtrt \
                  jetson-benchmark --split-dir demo/split --skip-inference\nOnly measure:  segtrt \
                  jetson-benchmark --split-dir demo/split --skip-setup\nThe first phase builds \
                  missing or outdated engines.\nFurther flags of bench go after --: … -- \
                  --threads 2. docs/how-to/small-memory.md explains the phases.")]
pub struct JetsonBenchmarkArgs {
    /// Folder of the split, in the layout of SA-V, DAVIS, YouTube-VOS, MOSE or LVOS.
    #[arg(long, help_heading = DATA)]
    pub split_dir: PathBuf,
    /// Name of the clip list in the split folder [default: sav_val].
    #[arg(long, help_heading = DATA)]
    pub split_name: Option<String>,
    /// A named set of flags; flags on the command line win.
    #[arg(long, help_heading = MEASURING, value_enum)]
    pub preset: Option<Preset>,
    /// Tags separated by commas, or "all" [default: with a click, each published
    /// model that is there in this size].
    #[arg(long, help_heading = MODEL)]
    pub models: Option<String>,
    /// Image side of the network input, in pixels [default: 1024].
    #[arg(long, help_heading = MODEL)]
    pub imgsz: Option<usize>,
    /// Precision: fp32 or fp16; engines also mixed [default: fp32; for engines the platform's].
    #[arg(long, help_heading = MODEL, visible_alias = "autocast-dtype", alias = "autocast")]
    pub precision: Option<String>,
    /// Number of clips, 0 for all [default: 0].
    #[arg(long, help_heading = DATA)]
    pub limit_videos: Option<usize>,
    /// Objects per clip, 0 for all [default: 0].
    #[arg(long, help_heading = DATA)]
    pub limit_objects: Option<usize>,
    /// In which order clips are taken.
    #[command(flatten)]
    pub shuffle: ShuffleArgs,
    /// Folder of the results [default: jetson_benchmark_outputs].
    #[arg(long, help_heading = OUTPUT)]
    pub out_dir: Option<PathBuf>,
    /// Write the masks over the frames.
    #[arg(
        long,
        help_heading = OUTPUT,
        num_args = 0..=1,
        default_missing_value = "1",
        default_value = "0",
        value_enum
    )]
    pub save_overlays: Toggle,
    /// Limit of TensorRT's workspace while engines are built, in MiB [default: 256].
    #[arg(long, help_heading = GPU, value_parser = clap::value_parser!(u64).range(1..))]
    pub workspace_mb: Option<u64>,
    /// Largest number of decoded frames in memory [default: 600].
    #[arg(long, help_heading = DATA, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_frames_in_mem: Option<u32>,
    /// Folder in which the first phase leaves its results for the second.
    #[arg(long, help_heading = OUTPUT, default_value = "preprocessed_data")]
    pub preprocessed_dir: PathBuf,
    /// Run the second phase only.
    #[arg(long, help_heading = MEASURING)]
    pub skip_setup: bool,
    /// Run the first phase only.
    #[arg(long, help_heading = MEASURING, conflicts_with = "skip_setup")]
    pub skip_inference: bool,
    /// Decode and resize all frames in the first phase, into files for the second.
    #[arg(long, help_heading = DATA, value_enum, value_name = "VALUES")]
    pub predecode: Option<Values>,
    /// Seconds between log lines about system memory while a model runs, 0 for none.
    #[arg(long, help_heading = MEASURING, default_value_t = 10)]
    pub memory_log_interval: u64,
    /// Continue an interrupted second phase.
    #[arg(long, help_heading = OUTPUT)]
    pub resume: bool,
    /// Flags of the benches.
    #[command(flatten)]
    pub started: StartedBenchArgs,
    /// Print the rows as JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// No effect: cuDNN is not used.
    #[arg(long, hide = true)]
    pub enable_cudnn_tuning: bool,
}
