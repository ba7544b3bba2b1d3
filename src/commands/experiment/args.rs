/*!
Flags of `segtrt experiment`: the predecessor's with its defaults, and further ones.
*/

use std::path::PathBuf;

use clap::Args;

use super::shard_args::ShardArgs;
use crate::commands::headings::{DATA, MEASURING, MODEL, OUTPUT};
use crate::commands::shared::ShuffleArgs;
use crate::commands::started_bench::StartedBenchArgs;
use crate::experiment::PlatformKind;
use report::compare::sweep::Axis;

/// Flags that a resumed experiment cannot change.
const DECIDED: [&str; 25] = [
    "split_dir",
    "split_name",
    "models",
    "videos",
    "objects",
    "runs",
    "warmup",
    "imgsz",
    "precision",
    "out_dir",
    "backend",
    "engines",
    "device",
    "devices",
    "slurm",
    "shards",
    "slurm_args",
    "partition",
    "max_clip_frames",
    "shuffle_videos",
    "seed",
    "platform",
    "no_profile",
    "sweep",
    "bench",
];

/// Flags of `segtrt experiment`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt experiment --split-dir demo/split --models edgetam_mini_points \
                  --videos 1 --objects 1 --runs 2\n\nContinue an interrupted experiment: segtrt \
                  experiment --resume nsight_experiment_desktop_20261121_093001\nFurther flags of \
                  bench go after --: segtrt experiment --split-dir S -- --threads 2 \
                  --save-masks\nA sweep, with a report of each point: segtrt \
                  experiment --split-dir S --sweep encode_batch=1,2,4,8,16\nTwo GPUs of this host: segtrt experiment --split-dir S --videos 0 \
                  --devices 0,1\nNodes of a cluster: segtrt experiment --split-dir S --videos 0 \
                  --slurm --shards 4 --slurm-args \"--gres=gpu:1\"\nBy hand, the second of three \
                  parts: segtrt experiment --split-dir S --videos 0 --shard \
                  2/3\ndocs/how-to/many-machines.md explains the folder."
)]
pub struct ExperimentArgs {
    /// Folder of the split, in the layout of SA-V, DAVIS, YouTube-VOS, MOSE or LVOS.
    #[arg(long, help_heading = DATA, required_unless_present = "resume")]
    pub split_dir: Option<PathBuf>,
    /// Name of the clip list in the split folder; without such a file all clips are taken.
    #[arg(long, help_heading = DATA, default_value = "sav_val")]
    pub split_name: String,
    /// Tags such as edgetam_points, separated by commas, or "all" [default: the platform's].
    #[arg(long, help_heading = MODEL)]
    pub models: Option<String>,
    /// Number of clips, 0 for all.
    #[arg(long, help_heading = DATA, visible_alias = "limit-videos", default_value_t = 3)]
    pub videos: usize,
    /// Objects per clip, 0 for all.
    #[arg(long, help_heading = DATA, visible_alias = "limit-objects", default_value_t = 2)]
    pub objects: usize,
    /// Recorded passes over each object.
    #[arg(
        long,
        help_heading = MEASURING,
        visible_alias = "profile-runs",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub runs: u32,
    /// Warm-up passes, not recorded.
    #[arg(long, help_heading = MEASURING, visible_alias = "warmup-runs", default_value_t = 2)]
    pub warmup: usize,
    /// Image side of the network input, in pixels [default: 768, or the usual size if no model has
    /// 768].
    #[arg(long, help_heading = MODEL)]
    pub imgsz: Option<usize>,
    /// Precision: fp32 or fp16; engines also mixed [default: fp32; for engines the platform's].
    #[arg(long, help_heading = MODEL, visible_alias = "autocast")]
    pub precision: Option<String>,
    /// Parent of the experiment's folder [default: this folder].
    #[arg(long, help_heading = OUTPUT)]
    pub out_dir: Option<PathBuf>,
    /// Continue an interrupted experiment with its own settings.
    #[arg(long, help_heading = OUTPUT, value_name = "DIR", conflicts_with_all = DECIDED)]
    pub resume: Option<PathBuf>,
    /// Flags of the benches.
    #[command(flatten)]
    pub started: StartedBenchArgs,
    /// Frames per clip, 0 for all.
    #[arg(long, help_heading = DATA, default_value_t = 0)]
    pub max_clip_frames: usize,
    /// In which order clips are taken.
    #[command(flatten)]
    pub shuffle: ShuffleArgs,
    /// Take this platform instead of detecting it.
    #[arg(long, help_heading = MODEL, value_enum)]
    pub platform: Option<PlatformKind>,
    /// Measure every combination of these lists in turn, each with a report of its own, and name the
    /// fastest; may be repeated. Names as in segtrt compare --sweep. Each of --runs is a round.
    #[arg(
        long,
        help_heading = MEASURING,
        value_name = "NAME=VALUE,…",
        conflicts_with_all = ["devices", "slurm", "shard", "shuffle_videos"]
    )]
    pub sweep: Vec<Axis>,
    /// Leave out the profiled passes.
    #[arg(long, help_heading = MEASURING)]
    pub no_profile: bool,
    /// Print one JSON document at the end instead of the folder and the table's path.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Flags for several GPUs or machines.
    #[command(flatten)]
    pub spread: ShardArgs,
}
