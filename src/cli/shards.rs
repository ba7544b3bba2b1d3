/*!
Arguments of `segtrt experiment` for more than one GPU or machine.
*/

use clap::Args;

use crate::shard::Shard;

/// How an experiment is spread.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Several GPUs, several machines (docs/experiments.md)")]
pub struct ShardArgs {
    /// GPUs of this host that share the clips, such as 0,1: each runs its part at the same time as the others.
    #[arg(long, value_name = "0,1,…", value_delimiter = ',', conflicts_with_all = ["device", "shard"])]
    pub devices: Vec<usize>,
    /// Only this part of the clips, such as 2/5, for parts that are begun by hand on several machines. With --resume: this
    /// part of an experiment in shards.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
}
