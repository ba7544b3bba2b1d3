/*!
Flags of `segtrt compare`.
*/

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use crate::commands::headings::{DATA, GPU, MEASURING, MODEL, OUTPUT};
use crate::commands::shared::parse_stall_limit;
use report::compare::runs::NamedFolder;
use report::compare::sweep::Axis;

/// What is compared with what.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  segtrt compare --split-dir davis16 --models edgetam_points \
                        --baselines eager,compile --precision fp16 --out-dir cmp\n  segtrt \
                        compare --split-dir davis16 --runs tensorrt=a/1 tensorrt=a/2 compile=b/1 \
                        compile=b/2 --reference-run fp32\n  segtrt compare --split-dir davis16 \
                        --models edgetam_points --sweep encode_batch=1,2,4,8,16 \
                        --nsys\n\n--split-dir names the folder with frames and ground \
                        truth, also with --runs. Repeat the command to continue an interrupted \
                        comparison and judge it again. Exit code 0: all sides computed the same \
                        masks. Exit code 1: one did not, or was not measured. \
                        docs/how-to/compare-with-pytorch.md explains the numbers.")]
pub struct CompareArgs {
    /// Folder of the split, in the layout of SA-V, DAVIS, YouTube-VOS, MOSE or LVOS. It provides the
    /// ground truth.
    #[arg(long, help_heading = DATA)]
    pub split_dir: PathBuf,
    /// Name of the clip list in the split folder.
    #[arg(long, help_heading = DATA, default_value = "sav_val")]
    pub split_name: String,
    /// Folder of runs and results; an interrupted comparison in it continues.
    #[arg(long, help_heading = OUTPUT, default_value = "comparison")]
    pub out_dir: PathBuf,
    /// Print comparison.json instead of the table.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Judge these run folders and measure nothing: FOLDER or NAME=FOLDER; folders of one name are
    /// rounds. The folder of a comparison has its own names.
    #[arg(long, help_heading = DATA, num_args = 1.., value_name = "FOLDER")]
    pub runs: Vec<NamedFolder>,
    /// With --runs: the side that the others are compared with [default: the first].
    #[arg(long, help_heading = MEASURING, value_name = "SIDE")]
    pub subject: Option<String>,
    /// Side with the reference masks; when measuring also eager-fp32 (PyTorch) or cpu (ONNX
    /// Runtime) [default: eager-fp32, without --baselines cpu; with --runs the first fp32 side].
    #[arg(long, help_heading = MEASURING, value_name = "SIDE", conflicts_with = "reference_run")]
    pub reference: Option<String>,
    /// Run folder with reference masks in fp32.
    #[arg(long, help_heading = MEASURING, value_name = "FOLDER")]
    pub reference_run: Option<PathBuf>,
    /// Flags of a measurement.
    #[command(flatten)]
    pub measure: MeasureArgs,
}

/// What is measured, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub struct MeasureArgs {
    /// Models by their names in fetch, with or without a prompt, such as edgetam,sam2.1_tiny_bbox.
    #[arg(long, help_heading = MODEL, value_delimiter = ',')]
    pub models: Vec<String>,
    /// The side of segtrt.
    #[arg(long, help_heading = MODEL, value_enum, default_value = "tensorrt")]
    pub backend: OwnSide,
    /// Several sides of segtrt: tensorrt, cpu, ort-cuda, ort-tensorrt, also as SIDE:PRECISION. The
    /// first is the subject [default: --backend].
    #[arg(
        long, help_heading = MODEL,
        value_name = "SIDE[:PRECISION],…",
        value_delimiter = ',',
        conflicts_with = "backend"
    )]
    pub sides: Vec<ChosenSide>,
    /// Sides of PyTorch: eager, compile, reduce_overhead (compile with CUDA graphs), vos_optimized,
    /// also as MODE:PRECISION with fp32, tf32, fp16 or bf16. "" for none.
    #[arg(
        long, help_heading = MODEL,
        value_name = "MODE[:PRECISION],…",
        value_delimiter = ',',
        default_value = "eager,compile,vos_optimized"
    )]
    pub baselines: Vec<String>,
    /// Precision of all sides [default: fp16; fp32 with --backend cpu].
    #[arg(long, help_heading = MODEL)]
    pub precision: Option<String>,
    /// Precision of PyTorch's sides without one of their own [default: --precision].
    #[arg(long, help_heading = MODEL, value_parser = ["fp32", "tf32", "fp16", "bf16"])]
    pub baseline_precision: Option<String>,
    /// Image side of the network input, in pixels [default: the bundle's].
    #[arg(long, help_heading = MODEL)]
    pub imgsz: Option<usize>,
    /// Folder of engines written by build-engines, or one engine folder.
    #[arg(long, help_heading = MODEL, default_value = "engines")]
    pub engines: PathBuf,
    /// Folder of bundles, for weights and graphs [default: onnx/bundles, then the
    /// installed ones].
    #[arg(long, help_heading = MODEL, env = "SEGTRT_ONNX_DIR", value_delimiter = ':')]
    pub onnx_dir: Vec<PathBuf>,
    /// Rounds of each side.
    #[arg(
        long,
        help_heading = MEASURING,
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub rounds: u32,
    /// Warm-up passes over each object's first frames.
    #[arg(long, help_heading = MEASURING, default_value_t = 1)]
    pub warmup_runs: usize,
    /// Number of clips, 0 for all.
    #[arg(long, help_heading = DATA, default_value_t = 0)]
    pub limit_videos: usize,
    /// Objects per clip, 0 for all.
    #[arg(long, help_heading = DATA, default_value_t = 0)]
    pub limit_objects: usize,
    /// Frames per clip, from the prompted frame on, 0 for all.
    #[arg(long, help_heading = DATA, default_value_t = 0)]
    pub max_clip_frames: usize,
    /// Python with PyTorch.
    #[arg(long, help_heading = MODEL, default_value = "python3")]
    pub python: PathBuf,
    /// The PyTorch runner.
    #[arg(long, help_heading = MODEL, default_value = "pytorch/run.py")]
    pub runner: PathBuf,
    /// Further argument of the PyTorch runner, such as --runner-arg=--weights-overlay; may be
    /// repeated.
    #[arg(long, help_heading = MODEL, value_name = "ARG", allow_hyphen_values = true)]
    pub runner_arg: Vec<String>,
    /// Further argument of segtrt bench, such as --bench-arg=--host-wait; may be repeated.
    #[arg(long, help_heading = MODEL, value_name = "ARG", allow_hyphen_values = true)]
    pub bench_arg: Vec<String>,
    /// Where PyTorch runs [default: cuda; cpu with --backend cpu].
    #[arg(long, help_heading = GPU, value_parser = ["cuda", "cpu"])]
    pub device: Option<String>,
    /// After the rounds, run each side once with the reference's logits in memory, untimed: a drift
    /// curve without feedback.
    #[arg(long, help_heading = MEASURING, conflicts_with_all = ["runs", "sweep"])]
    pub teacher_forced: bool,
    /// End PyTorch's processes after each round: for boards with little memory.
    #[arg(long, help_heading = MEASURING)]
    pub restart_runners: bool,
    /// End a side that finishes no frame for this long, except while it loads or compiles; the
    /// others go on. 0 waits forever [default: 600].
    #[arg(
        long,
        help_heading = MEASURING,
        env = "SEGTRT_STALL_LIMIT",
        value_name = "SECONDS",
        value_parser = parse_stall_limit
    )]
    pub stall_limit: Option<u64>,
    /// End a PyTorch process that is not compiled and warm after this long; its side is missing,
    /// the others go on. 0 waits forever [default].
    #[arg(long, help_heading = MEASURING, value_name = "SECONDS", conflicts_with_all = ["runs", "sweep"])]
    pub ready_limit: Option<u64>,
    /// Measure without judging.
    #[arg(long, help_heading = MEASURING, conflicts_with_all = ["runs", "json"])]
    pub measure_only: bool,
    /// Measure segtrt's side in all combinations of these lists and name the fastest, without
    /// baselines; may be repeated. Names: encode_batch, encode_ahead (both in throughput mode),
    /// jpeg_decoder, decode_threads, threads (of ONNX Runtime), precision, imgsz, objects (tracked
    /// together).
    #[arg(
        long,
        help_heading = MEASURING,
        value_name = "NAME=VALUE,…",
        conflicts_with_all = ["runs", "reference", "reference_run", "measure_only"]
    )]
    pub sweep: Vec<Axis>,
    /// With --sweep: after the rounds, record each combination once under Nsight Systems, into
    /// OUT_DIR/nsight_reports/COMBINATION.nsys-rep.
    #[arg(long, help_heading = MEASURING, requires = "sweep")]
    pub nsys: bool,
}

/// segtrt's own sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OwnSide {
    /// TensorRT engines.
    #[value(alias = "trt")]
    Tensorrt,
    /// ONNX Runtime on the CPU.
    #[value(alias = "onnxruntime")]
    Cpu,
    /// ONNX Runtime's CUDA provider.
    OrtCuda,
    /// ONNX Runtime's TensorRT provider.
    OrtTensorrt,
}

/// One of `--sides`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenSide {
    /// What runs.
    pub side: OwnSide,
    /// Its precision, where it is not that of all sides.
    pub precision: Option<String>,
}

impl ChosenSide {
    /// The name in tables and folders: `tensorrt`, `tensorrt-mixed`.
    pub fn name(&self) -> String {
        let side = self.side.name();
        self.precision.as_ref().map_or_else(|| side.to_owned(), |own| format!("{side}-{own}"))
    }
}

impl FromStr for ChosenSide {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, precision) = match text.trim().split_once(':') {
            Some((name, precision)) => (name, Some(precision)),
            None => (text.trim(), None),
        };
        let side = OwnSide::from_str(name, true).map_err(|_| {
            format!("there is no side {name}; known are tensorrt, cpu, ort-cuda, ort-tensorrt")
        })?;
        if precision.is_some_and(|own| own.is_empty() || own.contains(['/', ':'])) {
            return Err(format!(
                "{text} has no precision after the colon; write such as {name}:mixed"
            ));
        }
        Ok(Self { side, precision: precision.map(str::to_owned) })
    }
}

impl OwnSide {
    /// The name in tables and folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tensorrt => "tensorrt",
            Self::Cpu => "cpu",
            Self::OrtCuda => "ort-cuda",
            Self::OrtTensorrt => "ort-tensorrt",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_may_have_a_precision_of_its_own() {
        let side = |text: &str| text.parse::<ChosenSide>();
        let mixed = ChosenSide { side: OwnSide::Tensorrt, precision: Some("mixed".to_owned()) };
        assert_eq!((side("trt:mixed"), mixed.name()), (Ok(mixed), "tensorrt-mixed".to_owned()));
        assert_eq!(side("ort-cuda"), Ok(ChosenSide { side: OwnSide::OrtCuda, precision: None }));
        assert!(side("cuda").is_err_and(|told| told.contains("no side cuda")));
        assert!(side("cpu:").is_err_and(|told| told.contains("cpu:mixed")));
    }
}
