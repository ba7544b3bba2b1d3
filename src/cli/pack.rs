/*!
Arguments of `segtrt pack`.
*/

use std::path::PathBuf;

use clap::Args;

use vos::precision::Precision;

/// What `segtrt pack` puts into the tar.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt pack --platform orin --models edgetam --onnx-dir onnx/bundles \
    --out orin.tar\n\nOn the board: tar xf orin.tar && sh segtrt-pack-orin/run.sh"
)]
pub struct PackArgs {
    /// Row of the platform table: orin, orin-nano, h200, …
    #[arg(long)]
    pub platform: String,
    /// Another platform table.
    #[arg(long, value_name = "FILE")]
    pub platforms: Option<PathBuf>,
    /// Models such as edgetam, sam2_tiny, sam2.1_large, separated by commas [default: the platform's].
    #[arg(long)]
    pub models: Option<String>,
    /// Side of the network input in pixels [default: the platform's].
    #[arg(long)]
    pub imgsz: Option<usize>,
    /// Arithmetic of the engines [default: the platform's].
    #[arg(long)]
    pub precision: Option<Precision>,
    /// Most objects of a clip that run at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub max_objects: u16,
    /// Folders of exported bundles, or bundles.
    #[arg(
        long,
        env = "SEGTRT_ONNX_DIR",
        value_delimiter = ':',
        value_name = "DIR",
        default_value = "onnx/bundles",
        num_args = 1..
    )]
    pub onnx_dir: Vec<PathBuf>,
    /// The tar [default: segtrt-pack-PLATFORM.tar].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// A segtrt built for the board, to go with it.
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// A split to measure on; without one the board makes a synthetic one.
    #[arg(long, value_name = "SPLIT_DIR")]
    pub with_clips: Option<PathBuf>,
    /// Replace a tar that is there.
    #[arg(long)]
    pub force: bool,
    /// Print what was packed as JSON.
    #[arg(long)]
    pub json: bool,
}
