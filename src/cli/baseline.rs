/*!
Arguments of `segtrt baseline`.
*/

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What is done with baselines.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt bench --split-dir demo/split --models edgetam_mini_points --profile-runs 5 --out-dir out\n  \
    segtrt baseline save nightly --from out\n  \
    segtrt baseline check nightly --from out_today --max-slowdown 3% --max-memory 3% --max-jf-drop 0.1\n\n\
    check ends with 0 where nothing is worse and with 1 where something is, or where the two must not be compared. What \
    counts as worse is written in docs/measuring.md.")]
pub struct BaselineArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: BaselineCommand,
    /// Folder of the baselines; small JSON files that may be committed.
    #[arg(long, global = true, value_name = "DIR", default_value = ".segtrt/baselines")]
    pub baselines: PathBuf,
    /// Print one JSON document instead of words and tables.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum BaselineCommand {
    /// Keep a run's numbers under a name.
    #[command(after_help = "Example: segtrt baseline save nightly --from out")]
    Save(StoreArgs),
    /// Compare a run with a baseline: exit code 0, or 1 where something is worse.
    #[command(
        after_help = "Example: segtrt baseline check nightly --from out --max-slowdown 5% --allow-different driver"
    )]
    Check(CheckArgs),
    /// List the baselines.
    #[command(after_help = "Example: segtrt baseline list")]
    List,
    /// Show what a baseline holds.
    #[command(after_help = "Example: segtrt baseline show nightly")]
    Show {
        /// Its name.
        name: String,
    },
}

/// What is kept.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// Name of the baseline: letters, digits, dots, - and _, such as h200-fp16
    pub name: String,
    /// Folder of a finished run, bench's --out-dir.
    #[arg(long, value_name = "RUN_FOLDER", default_value = ".")]
    pub from: PathBuf,
    /// Replace the baseline of that name.
    #[arg(long)]
    pub replace: bool,
}

/// What is compared, and what is allowed.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Name of the baseline.
    pub name: String,
    /// Folder of a finished run, bench's --out-dir.
    #[arg(long, value_name = "RUN_FOLDER", default_value = ".")]
    pub from: PathBuf,
    /// Loss of frames per second, or gain of latency, that is allowed.
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = percent)]
    pub max_slowdown: f64,
    /// Gain of memory that is allowed.
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = percent)]
    pub max_memory: f64,
    /// Loss of J&F, and of J and F, that is allowed, in points of a hundred.
    #[arg(long, value_name = "POINTS", default_value = "0.1", value_parser = points)]
    pub max_jf_drop: f64,
    /// Compare although this differs: a name that a refusal gives, or machine or settings for all of those.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub allow_different: Vec<String>,
    /// Fail also on what is worse than allowed but within the spread of the passes.
    #[arg(long)]
    pub strict: bool,
}

/// `3%` as 0.03. A bare number could be either, so it is refused.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').map(|number| number.trim().parse::<f64>());
    match number {
        Some(Ok(percent)) if (0.0..=1000.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected a percentage with its sign, such as 3%".to_owned()),
    }
}

fn points(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(points) if (0.0..=100.0).contains(&points) => Ok(points),
        _ => Err("expected points of a hundred, 0 to 100, such as 0.1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_in_their_unit_and_nothing_else() {
        assert_eq!((percent("3%"), percent("0.5 %")), (Ok(0.03), Ok(0.005)));
        for text in ["3", "0.03", "-1%", "%", "x%", "nan%", ""] {
            assert!(percent(text).unwrap_err().contains("3%"), "{text}");
        }
        assert_eq!(points("0.1"), Ok(0.1));
        assert!(points("-1").is_err() && points("0.1%").is_err() && points("NaN").is_err());
    }
}
