/*!
Arguments of `segtrt test-run`.
*/

use std::path::PathBuf;

use clap::Args;

/// What is gone through.
#[derive(Debug, Args)]
#[command(after_help = "Example: segtrt test-run --out test_run\n\n\
    Steps: a synthetic split; the bundle's hashes; a bench on the CPU; and where there is a GPU, the kernels' selftest, and with \
    TensorRT engines, their selftest and a bench on them, whose masks are compared with the CPU's. The engines are built at TensorRT's lowest optimization level, \
    several at a time: they work, and speeds say nothing. Each step runs in a process of its own and leaves its log. What \
    cannot run here is said to be skipped, with the reason. Exit code 1: a step failed.")]
pub struct TestRunArgs {
    /// Where everything goes.
    #[arg(long, default_value = "test_run", value_name = "DIR")]
    pub out: PathBuf,
    /// The network, a folder written by onnx/export.py.
    #[arg(long, default_value = "onnx/bundles/edgetam_mini_256_fp32", value_name = "DIR")]
    pub bundle: PathBuf,
    /// TensorRT's library, or its folder [default: SEGTRT_TENSORRT_LIB, the loader's path, pip's packages].
    #[arg(long)]
    pub tensorrt_lib: Option<PathBuf>,
    /// ONNX Runtime's shared library, or its folder.
    #[arg(long)]
    pub ort_lib: Option<PathBuf>,
    /// Print one JSON document at the end.
    #[arg(long)]
    pub json: bool,
}
