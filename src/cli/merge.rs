/*!
Arguments of `segtrt merge`.
*/

use std::path::PathBuf;

use clap::Args;

use report::merge::Table;

/// What is merged, and where to.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt merge collected_results/nsight_experiment_* -o final_comparison.csv\n\n\
    The columns platform, hostname and timestamp come first; columns that only some tables have come last and are empty \
    elsewhere. Values pass through as they are; rows that repeat others are kept and told of. A table that is damaged, or none of \
    results, is left out and named, and so is an argument that gives none; the exit code is then 1."
)]
pub struct MergeArgs {
    /// Result folders and CSV files of results, of segtrt or of its Python predecessor; LABEL=PATH names a run's platform.
    #[arg(required = true, value_name = "[LABEL=]PATH")]
    pub dirs: Vec<PathBuf>,
    /// The merged file.
    #[arg(short, long, value_name = "FILE", default_value = "merged_results.csv")]
    pub output: PathBuf,
    /// Which table of each folder.
    #[arg(long, value_enum, default_value = "profile_summary")]
    pub table: Table,
    /// Print one JSON document instead of messages.
    #[arg(long)]
    pub json: bool,
}
