/*!
`segtrt doctor`.
*/

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::Outcome;
use crate::doctor::{self, Options};

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

/// Where bundles are looked for unless `--onnx-dir` says otherwise.
const USUAL_ONNX_DIR: &str = "onnx/bundles";

/// Looks at the machine and says what is missing.
pub fn run(args: DoctorArgs) -> Result<Outcome> {
    let out_dir = args.out_dir.or_else(|| args.split_dir.clone());
    let options = Options {
        split: args.split_dir.map(|dir| (dir, args.split_name)),
        onnx_dirs: match args.onnx_dir.is_empty() {
            true => vec![PathBuf::from(USUAL_ONNX_DIR)],
            false => args.onnx_dir,
        },
        engines: args.engines,
        tensorrt_lib: args.tensorrt_lib,
        ort_lib: args.ort_lib,
        out_dir: out_dir.unwrap_or_else(|| PathBuf::from(".")),
        root: PathBuf::from("/"),
    };
    let (checks, verdict) = doctor::examine(&options);
    match args.json {
        true => println!("{:#}", doctor::json(&checks, &verdict)),
        false => println!("{}", doctor::text(&checks, &verdict)),
    }
    Ok(if verdict.can_run() { Outcome::Done } else { Outcome::PartlyFailed })
}
