/*!
Arguments of `segtrt suite`: which experiments, and everything that a bench takes.
*/

use std::path::PathBuf;

use clap::Args;

use super::BenchArgs;

/// Which experiments to run, and on what.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt suite stride_sweep --split-dir /data/sav_val --models edgetam_points --limit-videos 10\n  \
    segtrt suite mine.toml --split-dir demo/split --models edgetam_mini_points --out-root demo/suite\n\n\
    Each experiment is a bench into OUT_ROOT/EXPERIMENT; all their rows together lie in one table in OUT_ROOT. An \
    experiment that fails does not stop the others; --resume runs what is missing. What the suites are, and how to \
    write one: docs/suites.md.")]
pub struct SuiteArgs {
    /// additional, lowfps, stride_sweep, or a TOML file with [[experiment]] tables.
    pub suite: String,
    /// Where the experiments' folders and their common table go.
    #[arg(long, default_value = "extended_experiments")]
    pub out_root: PathBuf,
    /// What all experiments have in common.
    #[command(flatten)]
    pub bench: BenchArgs,
}
