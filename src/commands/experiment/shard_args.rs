/*!
Flags of `segtrt experiment` for several GPUs or machines.
*/

use clap::Args;

use crate::shard::Shard;

/// How an experiment is spread.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = crate::commands::headings::MACHINES)]
pub struct ShardArgs {
    /// GPUs of this host that share the clips, such as 0,1. They run at the same time.
    #[arg(long, value_name = "0,1,…", value_delimiter = ',', conflicts_with_all = ["device", "shard"])]
    pub devices: Vec<usize>,
    /// Measure only this part of the clips, such as 2/5, to start parts by hand on several
    /// machines.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Submit the shards to Slurm as a job array, wait, retry failed ones, and merge.
    #[arg(long, conflicts_with_all = ["devices", "shard"])]
    pub slurm: bool,
    /// Number of shards [default: one per clip, at most 8].
    #[arg(
        long,
        value_name = "N",
        requires = "slurm",
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub shards: Option<u32>,
    /// Further arguments of sbatch, in one quoted word: "--gres=gpu:1 --time=2:00:00 --exclusive".
    #[arg(
        long,
        value_name = "WORDS",
        requires = "slurm",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true
    )]
    pub slurm_args: String,
    /// Slurm's partition.
    #[arg(long, value_name = "NAME", requires = "slurm")]
    pub partition: Option<String>,
    /// How often failed tasks are submitted again.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub retries: u32,
    /// Submit and exit; print how to continue later.
    #[arg(long)]
    pub no_wait: bool,
    /// Write folder and script, print the submission, and submit nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Milliseconds between two looks at the queue.
    #[arg(long, hide = true, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(10..))]
    pub poll_ms: u64,
}
