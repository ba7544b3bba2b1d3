/*!
Arguments of `segtrt doctor`.
*/

use std::path::PathBuf;

use clap::Args;

/// What is looked at beside the machine.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt doctor --split-dir /data/sav_val --onnx-dir onnx/bundles\n\n\
    Nothing is changed and nothing is measured. Exit code 0: a bench can run on this machine, on its CPU or a GPU; 1: not yet."
)]
pub struct DoctorArgs {
    /// The split that is to be measured.
    #[arg(long, value_name = "DIR")]
    pub split_dir: Option<PathBuf>,
    /// Stem of the manifest in the split folder.
    #[arg(long, default_value = "sav_val")]
    pub split_name: String,
    /// Folder of bundles (or one bundle); may be given several times [default: onnx/bundles].
    #[arg(long, env = "SEGTRT_ONNX_DIR", value_delimiter = ':', value_name = "DIR")]
    pub onnx_dir: Vec<PathBuf>,
    /// Folder of engines written by build-engines, or one engine folder in it.
    #[arg(long, default_value = "engines", value_name = "DIR")]
    pub engines: PathBuf,
    /// TensorRT's library, or its folder [default: SEGTRT_TENSORRT_LIB, the loader's path, pip's packages].
    #[arg(long)]
    pub tensorrt_lib: Option<PathBuf>,
    /// ONNX Runtime's shared library, or its folder.
    #[arg(long)]
    pub ort_lib: Option<PathBuf>,
    /// Where results are to go; its disk is looked at [default: SPLIT_DIR, or this folder].
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}
