/*!
Arguments of `segtrt experiment`: the predecessor's with its defaults, and those that it could not pass on.
*/

use std::path::PathBuf;

use clap::Args;

use super::shard_args::ShardArgs;
use crate::commands::shared::ShuffleArgs;
use crate::commands::started_bench::StartedBenchArgs;
use crate::experiment::Kind;

/// What was decided when an experiment was begun cannot be another thing when it goes on.
const DECIDED: [&str; 24] = [
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
    "bench",
];

/// What an experiment is made of.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt experiment --split-dir demo/split --models edgetam_mini_points --videos 1 --objects 1 --runs 2\n\n\
    Goes on after an interruption with: segtrt experiment --resume demo/split/nsight_experiment_desktop_20261121_093001\n\
    Further flags of bench follow two hyphens: segtrt experiment --split-dir S -- --threads 2 --save-masks\n\
    Two GPUs of this host share the clips: segtrt experiment --split-dir S --videos 0 --devices 0,1\n\
    So do the nodes of a cluster: segtrt experiment --split-dir S --videos 0 --slurm --shards 4 --slurm-args \"--gres=gpu:1\"\n\
    By hand, the second of three parts: segtrt experiment --split-dir S --videos 0 --shard 2/3\n\
    What is in the folder is written in docs/experiments.md."
)]
pub struct ExperimentArgs {
    /// The split: SA-V layout (JPEGImages_24fps, Annotations_6fps) or DAVIS layout.
    #[arg(long, required_unless_present = "resume")]
    pub split_dir: Option<PathBuf>,
    /// Stem of the manifest in the split folder; all clips where there is none.
    #[arg(long, default_value = "sav_val")]
    pub split_name: String,
    /// Tags such as edgetam_points, separated by commas, or "all" [default: the platform's].
    #[arg(long)]
    pub models: Option<String>,
    /// Clips to measure, 0 for all.
    #[arg(long, visible_alias = "limit-videos", default_value_t = 3)]
    pub videos: usize,
    /// Objects of each clip, 0 for all.
    #[arg(long, visible_alias = "limit-objects", default_value_t = 2)]
    pub objects: usize,
    /// Recorded passes over each object.
    #[arg(long, visible_alias = "profile-runs", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Passes before them that are not recorded.
    #[arg(long, visible_alias = "warmup-runs", default_value_t = 2)]
    pub warmup: usize,
    /// Side of the network input in pixels [default: 768, or the usual one where no model is there at 768].
    #[arg(long)]
    pub imgsz: Option<usize>,
    /// fp32 or fp16, of engines also mixed [default: engines the platform's, graphs fp32].
    #[arg(long, visible_alias = "autocast")]
    pub precision: Option<String>,
    /// Parent of the experiment's folder [default: SPLIT_DIR].
    #[arg(long)]
    pub out_dir: Option<PathBuf>,
    /// Go on with an experiment that was interrupted: everything is as it was decided then.
    #[arg(long, value_name = "DIR", conflicts_with_all = DECIDED)]
    pub resume: Option<PathBuf>,
    /// What the benches run with.
    #[command(flatten)]
    pub started: StartedBenchArgs,
    /// Frames of each clip to run, 0 for all.
    #[arg(long, default_value_t = 0)]
    pub max_clip_frames: usize,
    /// In which order clips are taken.
    #[command(flatten)]
    pub shuffle: ShuffleArgs,
    /// Take this platform instead of looking for it.
    #[arg(long, value_enum)]
    pub platform: Option<Kind>,
    /// Leave the profiled passes out.
    #[arg(long)]
    pub no_profile: bool,
    /// Print one JSON document at the end instead of the folder and the table's path.
    #[arg(long)]
    pub json: bool,
    /// More than one GPU or machine.
    #[command(flatten)]
    pub spread: ShardArgs,
}
