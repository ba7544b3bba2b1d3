/*!
Arguments of `segtrt compare`.
*/

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use crate::commands::shared::parse_stall_limit;
use report::compare::runs::NamedFolder;
use report::compare::sweep::Axis;

/// What is compared with what.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt compare --split-dir davis16 --models edgetam_points --baselines eager,compile --precision fp16 --out-dir cmp\n  \
    segtrt compare --split-dir davis16 --runs tensorrt=a/1 tensorrt=a/2 compile=b/1 compile=b/2 --reference-run fp32\n  \
    segtrt compare --split-dir davis16 --models edgetam_points --sweep precision=fp32,fp16 --sweep imgsz=512,1024\n\n\
    The same command again goes on where it stopped, and judges anew what is there. Exit code 0: every side computed the \
    same thing; 1: one did not, was refused, or could not be measured. What the numbers mean: docs/comparing.md.")]
pub struct CompareArgs {
    /// The split: SA-V layout or DAVIS layout. Ground truth and the frames of pictures come from it.
    #[arg(long)]
    pub split_dir: PathBuf,
    /// Stem of the manifest in the split folder.
    #[arg(long, default_value = "sav_val")]
    pub split_name: String,
    /// Where runs and results go; an interrupted comparison in it goes on.
    #[arg(long, default_value = "comparison")]
    pub out_dir: PathBuf,
    /// Print comparison.json instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Judge these folders and measure nothing: FOLDER or NAME=FOLDER, one name's folders are its rounds; the folder of a
    /// whole comparison brings its own names.
    #[arg(long, num_args = 1.., value_name = "FOLDER")]
    pub runs: Vec<NamedFolder>,
    /// With --runs: the side that the others are compared with [default: the first].
    #[arg(long, value_name = "SIDE")]
    pub subject: Option<String>,
    /// What masks are compared with: a side's name, or when measuring eager-fp32 (PyTorch) or cpu (ONNX Runtime)
    /// [default: eager-fp32 where there are baselines, else cpu; of --runs the first side in fp32].
    #[arg(long, value_name = "SIDE", conflicts_with = "reference_run")]
    pub reference: Option<String>,
    /// A run folder with masks in fp32 that all masks are compared with.
    #[arg(long, value_name = "FOLDER")]
    pub reference_run: Option<PathBuf>,
    /// What is measured, and how.
    #[command(flatten)]
    pub measure: MeasureArgs,
}

/// What is measured, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub struct MeasureArgs {
    /// Tags such as edgetam_points,sam2_tiny_bbox.
    #[arg(long, value_delimiter = ',')]
    pub models: Vec<String>,
    /// segtrt's own side.
    #[arg(long, value_enum, default_value = "tensorrt")]
    pub backend: OwnSide,
    /// Several of segtrt's own sides: tensorrt, cpu, ort-cuda, ort-tensorrt, each alone or with a precision of its own
    /// (tensorrt,tensorrt:mixed). The first is what the others are compared with [default: --backend].
    #[arg(
        long,
        value_name = "SIDE[:PRECISION],…",
        value_delimiter = ',',
        conflicts_with = "backend"
    )]
    pub sides: Vec<ChosenSide>,
    /// PyTorch's sides: eager, compile, reduce_overhead (compile with CUDA graphs), vos_optimized, each alone or with a precision of its own: fp32, tf32 (fp32 with TF32
    /// products), fp16, bf16. None with --baselines "".
    #[arg(
        long,
        value_name = "MODE[:PRECISION],…",
        value_delimiter = ',',
        default_value = "eager,compile,vos_optimized"
    )]
    pub baselines: Vec<String>,
    /// Precision of all sides [default: fp16; fp32 with --backend cpu].
    #[arg(long)]
    pub precision: Option<String>,
    /// Precision of PyTorch's sides that name none [default: that of the others].
    #[arg(long, value_parser = ["fp32", "tf32", "fp16", "bf16"])]
    pub baseline_precision: Option<String>,
    /// Side of the network input in pixels [default: the bundle's].
    #[arg(long)]
    pub imgsz: Option<usize>,
    /// Folder of engines written by build-engines.
    #[arg(long, default_value = "engines")]
    pub engines: PathBuf,
    /// Folder of bundles; PyTorch takes their weights, the CPU and ONNX Runtime their graphs [default: onnx/bundles].
    #[arg(long, env = "SEGTRT_ONNX_DIR", value_delimiter = ':')]
    pub onnx_dir: Vec<PathBuf>,
    /// Rounds of each side.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Passes over each object's first frames before its recorded one.
    #[arg(long, default_value_t = 1)]
    pub warmup_runs: usize,
    /// Clips, 0 for all.
    #[arg(long, default_value_t = 0)]
    pub limit_videos: usize,
    /// Objects of each clip, 0 for all.
    #[arg(long, default_value_t = 0)]
    pub limit_objects: usize,
    /// Frames of each clip from the prompted one on, 0 for all.
    #[arg(long, default_value_t = 0)]
    pub max_clip_frames: usize,
    /// Python with PyTorch.
    #[arg(long, default_value = "python3")]
    pub python: PathBuf,
    /// The PyTorch runner.
    #[arg(long, default_value = "pytorch/run.py")]
    pub runner: PathBuf,
    /// A further argument of the PyTorch runner, such as --runner-arg=--weights-overlay; may be given several times.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub runner_arg: Vec<String>,
    /// A further argument of segtrt bench, such as --bench-arg=--host-wait; may be given several times.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub bench_arg: Vec<String>,
    /// Where PyTorch runs [default: cuda; cpu with --backend cpu].
    #[arg(long, value_parser = ["cuda", "cpu"])]
    pub device: Option<String>,
    /// After the rounds run each side once more, untimed, with the reference's logits in its memories: a second drift
    /// curve, without the feedback of masks.
    #[arg(long, conflicts_with_all = ["runs", "sweep"])]
    pub teacher_forced: bool,
    /// End PyTorch's processes after each round instead of letting them wait: for boards with little memory.
    #[arg(long)]
    pub restart_runners: bool,
    /// A side that finishes no frame for so many seconds hangs: it is ended and noted, the others go on. Not while models are loaded,
    /// built or compiled. 0: wait for ever [default: 600].
    #[arg(long, env = "SEGTRT_STALL_LIMIT", value_name = "SECONDS", value_parser = parse_stall_limit)]
    pub stall_limit: Option<u64>,
    /// A PyTorch process that is not built, compiled and warm after so many seconds is ended: its side is noted as missing, the others
    /// go on. max-autotune takes many minutes where nothing of it is in Inductor's cache. 0: wait for ever [default].
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["runs", "sweep"])]
    pub ready_limit: Option<u64>,
    /// Measure and do not judge.
    #[arg(long, conflicts_with_all = ["runs", "json"])]
    pub measure_only: bool,
    /// Measure segtrt's side alone in every combination of such lists and name the fastest; --baselines are left out.
    /// Names: precision, objects (tracked together), imgsz.
    #[arg(long, value_name = "NAME=VALUE,…", conflicts_with_all = ["runs", "reference", "reference_run", "measure_only"])]
    pub sweep: Vec<Axis>,
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
