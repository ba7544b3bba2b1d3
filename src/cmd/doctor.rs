/*!
`segtrt doctor`.
*/

use std::path::PathBuf;

use anyhow::Result;

use super::Outcome;
use crate::cli::DoctorArgs;
use crate::doctor::{self, Options};

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
