/*!
Arguments of `segtrt selftest`.
*/

use std::path::PathBuf;

use clap::Args;

use crate::selftest::kernels::Topic;
use vos::precision::Precision;

/// Which kernels and engines are tested, and how.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt selftest --engines engines --models edgetam --onnx-dir onnx/bundles --csv selftest.csv\n\n\
    First the kernels run on the GPU and are compared with the CPU's results, bit for bit but for attention, whose sums have another order. Then each engine runs on random inputs and is compared with ONNX Runtime, which runs the fp32 bundle of the same model on \
    the same inputs. Then a made-up clip of six frames goes through all of a model's engines and through the CPU backend, and the masks are compared (mean IoU 0.9 at least; fp16 engines with random weights are only told of). Exit code 0: all agree; 1: one does not, or could not be tested."
)]
pub struct SelftestArgs {
    /// Folder of engines written by build-engines, or one engine folder in it.
    #[arg(long, default_value = "engines")]
    pub engines: PathBuf,
    /// Only engines of this row of the platform table [default: those that run on the GPU at hand].
    #[arg(long)]
    pub platform: Option<String>,
    /// Only these models, separated by commas, such as edgetam,sam2.1_tiny.
    #[arg(long, value_delimiter = ',')]
    pub models: Vec<String>,
    /// Only this side of the network input, pixels.
    #[arg(long)]
    pub imgsz: Option<usize>,
    /// Only engines of this precision.
    #[arg(long)]
    pub precision: Option<Precision>,
    /// Folder of bundles (or one bundle) with the fp32 references; may be given several times
    /// [default: onnx/bundles].
    #[arg(long, env = "SEGTRT_ONNX_DIR", value_delimiter = ':')]
    pub onnx_dir: Vec<PathBuf>,
    /// TensorRT's library, or its folder [default: SEGTRT_TENSORRT_LIB, the loader's path, pip's packages].
    #[arg(long)]
    pub tensorrt_lib: Option<PathBuf>,
    /// ONNX Runtime's shared library, or its folder.
    #[arg(long)]
    pub ort_lib: Option<PathBuf>,
    /// Test the kernels only; needs no engines. --csv then writes their rows, each as soon as it is judged.
    #[arg(long, conflicts_with = "no_kernels")]
    pub kernels: bool,
    /// Test the engines only.
    #[arg(long)]
    pub no_kernels: bool,
    /// Leave out the kernels' cases whose output (the mask, where one is counted) has more elements, and say how many those are: for
    /// tools under which 4K frames and full-size attention take minutes. 128000 leaves a case of every kernel.
    #[arg(long, value_name = "N", conflicts_with = "no_kernels", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_elements: Option<u64>,
    /// Leave out what cuBLASLt computes, by itself or in front of this program's kernels: compute-sanitizer's racecheck fails in it.
    #[arg(long, conflicts_with = "no_kernels")]
    pub without_cublaslt: bool,
    /// Test these kinds of kernels only, separated by commas.
    #[arg(long, value_delimiter = ',', conflicts_with = "no_kernels")]
    pub topics: Vec<Topic>,
    /// Timed runs of each case; a kernel of milliseconds has fewer.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Runs before the timed ones.
    #[arg(long, default_value_t = 10)]
    pub warmup: u32,
    /// Compare with nothing: outputs must only be written, and be numbers.
    #[arg(long)]
    pub no_reference: bool,
    /// Leave out the clip, which takes the CPU seconds a frame with large models.
    #[arg(long)]
    pub no_clip: bool,
    /// Greatest relative error of an output [default: 1e-3 for fp32, 2e-2 for the others].
    #[arg(long, value_parser = parse_error)]
    pub max_error: Option<f64>,
    /// Write the rows to this CSV file.
    #[arg(long)]
    pub csv: Option<PathBuf>,
    /// Time every layer of each case with TensorRT's profiler and write the medians to this CSV file.
    #[arg(long)]
    pub layers: Option<PathBuf>,
    /// Write the rows, with the machine and its libraries, to this JSON file; without one, or for -, to standard output, and
    /// the tables to standard error.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

fn parse_error(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|error| error.is_finite() && *error > 0.0);
    parsed.ok_or_else(|| format!("{text:?} is no error; write a number above 0, for example 0.02"))
}
