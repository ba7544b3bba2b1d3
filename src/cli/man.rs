/*!
Arguments of `segtrt man`.
*/

use std::path::PathBuf;

use clap::Args;

/// Which manual pages, and where they go.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt man bench | man -l -\n  \
    segtrt man --out ~/.local/share/man/man1")]
pub struct ManArgs {
    /// The subcommand whose page is printed [default: the program's own].
    #[arg(value_name = "SUBCOMMAND")]
    pub subcommand: Vec<String>,
    /// Write all pages into this folder instead.
    #[arg(long, value_name = "DIR", conflicts_with = "subcommand")]
    pub out: Option<PathBuf>,
}
