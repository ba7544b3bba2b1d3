/*!
`segtrt doctor`.
*/

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::Outcome;
use crate::commands::headings::{DATA, GPU, MODEL, OUTPUT};
use crate::doctor::{self, Options};

/// What to check in addition to the machine.
#[derive(Debug, Args)]
#[command(after_help = "Example: segtrt doctor --split-dir /data/sav_val --onnx-dir \
                  onnx/bundles\n\nNothing is changed or measured. Exit code 0: a bench can run on \
                  this machine, on CPU or GPU. Exit code 1: it cannot yet.")]
pub struct DoctorArgs {
    /// The split to measure.
    #[arg(long, help_heading = DATA, value_name = "DIR")]
    pub split_dir: Option<PathBuf>,
    /// Name of the clip list in the split folder.
    #[arg(long, help_heading = DATA, default_value = "sav_val")]
    pub split_name: String,
    /// Folder of bundles, or one bundle; may be repeated [default:
    /// onnx/bundles, then the installed ones].
    #[arg(long, help_heading = MODEL, env = "SEGTRT_ONNX_DIR", value_delimiter = ':', value_name = "DIR")]
    pub onnx_dir: Vec<PathBuf>,
    /// Folder of engines written by build-engines, or one engine folder.
    #[arg(long, help_heading = MODEL, default_value = "engines", value_name = "DIR")]
    pub engines: PathBuf,
    /// TensorRT's library, or its folder [default: SEGTRT_TENSORRT_LIB, the loader's path, pip's
    /// packages].
    #[arg(long, help_heading = GPU)]
    pub tensorrt_lib: Option<PathBuf>,
    /// Shared library of ONNX Runtime, or its folder.
    #[arg(long, help_heading = MODEL)]
    pub ort_lib: Option<PathBuf>,
    /// Folder of the results, to check its disk [default: this folder].
    #[arg(long, help_heading = OUTPUT, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Looks at the machine and says what is missing.
pub fn run(args: DoctorArgs) -> Result<Outcome> {
    let options = Options {
        split: args.split_dir.map(|dir| (dir, args.split_name)),
        onnx_dirs: host::share::bundle_roots(&args.onnx_dir),
        engines: args.engines,
        tensorrt_lib: args.tensorrt_lib,
        ort_lib: args.ort_lib,
        out_dir: args.out_dir.unwrap_or_else(|| PathBuf::from(".")),
        root: PathBuf::from("/"),
    };
    let (checks, verdict) = doctor::examine(&options);
    match args.json {
        true => println!("{:#}", doctor::json(&checks, &verdict)),
        false => println!("{}", doctor::text(&checks, &verdict)),
    }
    Ok(if verdict.can_run() { Outcome::Done } else { Outcome::PartlyFailed })
}
