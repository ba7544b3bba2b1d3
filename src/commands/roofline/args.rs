/*!
Flags of `segtrt roofline`.
*/

use std::path::PathBuf;

use clap::Args;

use crate::commands::headings::{GPU, MODEL, OUTPUT};
use vos::precision::Precision;

/// Flags of `segtrt roofline`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  segtrt roofline --platform orin\n  segtrt roofline out\n  segtrt \
                        roofline out --peak-gflops 790000 --peak-mb-per-s 4300000\n\nThe least time \
                        of a stage is its FLOPs at the peak of the tensor cores, or its bytes at \
                        the peak of the memory, whichever takes longer. The exporter counts FLOPs, \
                        bytes and launches of each graph; for a bundle of an older export type: \
                        python3 onnx/segexport/work.py BUNDLE. The peaks are the data sheet's, or \
                        those that segtrt selftest --peak measured. It is a bound, not a forecast."
)]
pub struct RooflineArgs {
    /// Folders of finished runs, to show the share that each stage reached.
    #[arg(value_name = "RUN_FOLDER")]
    pub runs: Vec<String>,
    /// Row of the platform table [default: that of the runs' GPU, else of this machine's].
    #[arg(long, help_heading = GPU)]
    pub platform: Option<String>,
    /// Another platform table.
    #[arg(long, help_heading = GPU)]
    pub platforms: Option<PathBuf>,
    /// Peak of dense fp16 matmuls, GFLOP/s, in place of the data sheet's.
    #[arg(long, help_heading = GPU, value_name = "GFLOP/s", value_parser = above_zero)]
    pub peak_gflops: Option<f64>,
    /// Peak bandwidth of the device memory, MB/s, in place of the data sheet's.
    #[arg(long, help_heading = GPU, value_name = "MB/s", value_parser = above_zero)]
    pub peak_mb_per_s: Option<f64>,
    /// Only these models, separated by commas, such as edgetam,sam2.1_tiny.
    #[arg(long, help_heading = MODEL, value_delimiter = ',')]
    pub models: Vec<String>,
    /// Only this image side, in pixels.
    #[arg(long, help_heading = MODEL)]
    pub imgsz: Option<usize>,
    /// Precision of the engines [default: that of the runs, else of the bundles].
    #[arg(long, help_heading = MODEL)]
    pub precision: Option<Precision>,
    /// Folder of bundles, or one bundle; may be repeated [default: onnx/bundles, then the installed
    /// ones].
    #[arg(long, help_heading = MODEL, env = "SEGTRT_ONNX_DIR", value_delimiter = ':')]
    pub onnx_dir: Vec<PathBuf>,
    /// Print one JSON document instead of tables.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

fn above_zero(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    parsed.ok_or_else(|| format!("{text:?} is no rate; write a number above 0, for example 42500"))
}
