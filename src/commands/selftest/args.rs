/*!
Flags of `segtrt selftest`.
*/

use std::path::PathBuf;

use clap::Args;

use crate::commands::headings::{GPU, MEASURING, MODEL, OUTPUT};
use crate::selftest::kernels::Topic;
use vos::precision::Precision;

/// Flags of `segtrt selftest`.
#[derive(Debug, Args)]
#[command(after_help = "Example: segtrt selftest --engines engines --models edgetam --onnx-dir \
                  onnx/bundles --csv selftest.csv\n\n1. Kernels run on the GPU and are compared \
                  with the CPU, bit for bit where the order of sums allows it.\n2. Each engine \
                  runs on random inputs and is compared with the fp32 bundle in ONNX Runtime.\n3. \
                  A synthetic clip of six frames runs on the engines and on the CPU; the mean IoU \
                  of the masks must be 0.9. fp16 engines with random weights are reported \
                  only.\nExit code 0: all agree. Exit code 1: something differs or was not tested.")]
pub struct SelftestArgs {
    /// Folder of engines written by build-engines, or one engine folder.
    #[arg(long, help_heading = MODEL, default_value = "engines")]
    pub engines: PathBuf,
    /// Only engines of this row of the platform table [default: those for this GPU].
    #[arg(long, help_heading = MODEL)]
    pub platform: Option<String>,
    /// Only these models, separated by commas, such as edgetam,sam2.1_tiny.
    #[arg(long, help_heading = MODEL, value_delimiter = ',')]
    pub models: Vec<String>,
    /// Only this image side, in pixels.
    #[arg(long, help_heading = MODEL)]
    pub imgsz: Option<usize>,
    /// Only engines of this precision.
    #[arg(long, help_heading = MODEL)]
    pub precision: Option<Precision>,
    /// Folder of bundles, or one bundle, with the fp32 references; may be repeated [default:
    /// onnx/bundles, then the installed ones].
    #[arg(long, help_heading = MODEL, env = "SEGTRT_ONNX_DIR", value_delimiter = ':')]
    pub onnx_dir: Vec<PathBuf>,
    /// TensorRT's library, or its folder [default: SEGTRT_TENSORRT_LIB, the loader's path, pip's
    /// packages].
    #[arg(long, help_heading = GPU)]
    pub tensorrt_lib: Option<PathBuf>,
    /// Shared library of ONNX Runtime, or its folder.
    #[arg(long, help_heading = MODEL)]
    pub ort_lib: Option<PathBuf>,
    /// Test only the kernels, without engines. --csv then writes their rows as they are judged.
    #[arg(long, help_heading = MEASURING, conflicts_with = "no_kernels")]
    pub kernels: bool,
    /// Test only the engines.
    #[arg(long, help_heading = MEASURING)]
    pub no_kernels: bool,
    /// Skip kernel cases with more output elements, for slow tools such as compute-sanitizer.
    /// 128000 keeps a case of every kernel.
    #[arg(
        long,
        help_heading = MEASURING,
        value_name = "N",
        conflicts_with = "no_kernels",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub max_elements: Option<u64>,
    /// Skip cases that use cuBLASLt, because compute-sanitizer's racecheck fails in it.
    #[arg(long, help_heading = MEASURING, conflicts_with = "no_kernels")]
    pub without_cublaslt: bool,
    /// Test only these kinds of kernels, separated by commas.
    #[arg(long, help_heading = MEASURING, value_delimiter = ',', conflicts_with = "no_kernels")]
    pub topics: Vec<Topic>,
    /// Timed runs of each case, at most; 0 compares without timing.
    #[arg(long, help_heading = MEASURING, default_value_t = 50)]
    pub runs: u32,
    /// Warm-up runs before the timed ones.
    #[arg(long, help_heading = MEASURING, default_value_t = 10)]
    pub warmup: u32,
    /// Measure only the peaks that segtrt roofline takes: an fp16 matmul of cuBLASLt and a copy on
    /// the device.
    #[arg(long, help_heading = MEASURING, conflicts_with_all = ["kernels", "no_kernels", "csv", "layers"])]
    pub peak: bool,
    /// Compare with nothing: check only that outputs are written and finite.
    #[arg(long, help_heading = MEASURING)]
    pub no_reference: bool,
    /// Skip the clip, which takes the CPU seconds per frame with large models.
    #[arg(long, help_heading = MEASURING)]
    pub no_clip: bool,
    /// Largest relative error of an output [default: 1e-3 for fp32, 2e-2 for the others].
    #[arg(long, help_heading = MEASURING, value_parser = parse_error)]
    pub max_error: Option<f64>,
    /// Write the rows to this CSV file.
    #[arg(long, help_heading = OUTPUT)]
    pub csv: Option<PathBuf>,
    /// Time every layer with TensorRT's profiler and write the medians to this CSV file.
    #[arg(long, help_heading = OUTPUT)]
    pub layers: Option<PathBuf>,
    /// Write rows and machine to this JSON file. Without a file, or with -, to standard output;
    /// tables then go to standard error.
    #[arg(long, help_heading = OUTPUT, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

fn parse_error(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|error| error.is_finite() && *error > 0.0);
    parsed.ok_or_else(|| format!("{text:?} is no error; write a number above 0, for example 0.02"))
}
