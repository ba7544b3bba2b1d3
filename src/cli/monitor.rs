/*!
Arguments of `segtrt monitor`.
*/

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// What is watched, how often, and where to.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt monitor --log memory.csv --duration 60\n  \
    segtrt monitor --log memory.csv --extra -- segtrt bench --split-dir demo/split --models edgetam_mini_points\n\n\
    Columns: timestamp,gpu_used_gb,gpu_total_gb,gpu_percent,ram_used_gb,ram_total_gb,ram_percent; a GB is 2^30 bytes. \
    On a Jetson GPU and host share one memory: the ram columns have it all, the gpu columns are zero. The memory is that \
    of the whole machine; with --extra the command's own is the last column.")]
pub struct MonitorArgs {
    /// The log, CSV; begun anew.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Seconds between two samples.
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub interval: f64,
    /// Seconds after which it ends [default: with the command, or with Ctrl-C].
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub duration: Option<f64>,
    /// More columns: swap, GPU load, power, temperature and clock, the command's own memory.
    #[arg(long)]
    pub extra: bool,
    /// Which GPU, as nvidia-smi counts them.
    #[arg(long, default_value_t = 0)]
    pub device: usize,
    /// Print one JSON document at the end instead of the samples and peaks.
    #[arg(long)]
    pub json: bool,
    /// A program to run and to end with; its exit code is passed on.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=31_536_000.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds, 0.01 or more, such as 1 or 0.5".to_owned()),
    }
}
