/*!
Arguments of `segtrt collect`.
*/

use std::path::PathBuf;

use clap::Args;

/// What is fetched, and where to.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt collect nvidia@jetson:/data/sav_val/nsight_experiment_jetson_20251130_143022\n  \
    segtrt collect 'jetson:/data/sav_val/nsight_experiment_*' 'rack1:runs/nsight_experiment_*' --ssh 'ssh -C'\n\n\
    Then: segtrt merge collected_results/nsight_experiment_* -o final_comparison.csv\n\n\
    Patterns (* ? [a-z]) are matched on the other machine, so quote them here. The other machine needs sh, find and tar; \
    with sha256sum or shasum every file is compared, and what is here already is not fetched again. Nothing is written there. \
    collected.json in the output folder says where each folder came from.")]
pub struct CollectArgs {
    /// Folders on other machines; two words HOST PATH are understood as the predecessor's script took them.
    #[arg(required = true, value_name = "HOST:PATH")]
    pub sources: Vec<String>,
    /// Folder that the fetched ones come into.
    #[arg(long, value_name = "DIR", default_value = "collected_results")]
    pub out: PathBuf,
    /// A folder for each machine in it, for folders that have the same name on several.
    #[arg(long)]
    pub by_host: bool,
    /// What connects, with its arguments.
    #[arg(long, value_name = "COMMAND", env = "SEGTRT_SSH", default_value = "ssh")]
    pub ssh: String,
    /// Print one JSON document instead of the table.
    #[arg(long)]
    pub json: bool,
}
