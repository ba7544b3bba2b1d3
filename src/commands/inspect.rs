/*!
`segtrt inspect`.
*/

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::Outcome;
use crate::commands::headings::{GPU, OUTPUT};
use crate::inspect::{self, Options, Report, text};
use host::printable::printable;

/// Flags of `segtrt inspect`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  segtrt inspect \
                        onnx/bundles/edgetam_mini_256_fp32/track.onnx\n  segtrt inspect \
                        engines/orin/edgetam_1024_fp16 --json\n\nTensorRT opens a plan in its own \
                        process, if its release and GPU are here. Otherwise the report comes from \
                        the plan's manifest.")]
pub struct InspectArgs {
    /// ONNX files, plans, bundles, engine folders, or folders of them.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print one JSON document, a list with one report per file or folder.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// List every layer of a plan.
    #[arg(long, help_heading = OUTPUT)]
    pub layers: bool,
    /// TensorRT's library, or its folder [default: SEGTRT_TENSORRT_LIB, the loader's path, pip's
    /// packages].
    #[arg(long, help_heading = GPU, value_name = "DIR")]
    pub tensorrt_lib: Option<PathBuf>,
}

/// Reports on each file; one that cannot be inspected does not keep the others from it.
pub fn run(args: InspectArgs) -> Result<Outcome> {
    let InspectArgs { files, json, layers, tensorrt_lib } = args;
    let options = Options { tensorrt_lib };
    let mut reports: Vec<Report> = Vec::new();
    let mut failed = 0;
    for file in &files {
        match inspect::inspect(file, &options) {
            Ok(found) => reports.extend(found),
            Err(error) if files.len() == 1 => return Err(error),
            Err(error) => {
                eprintln!("Error: {error:#}");
                failed += 1;
            }
        }
    }
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &reports)?;
        writeln!(out)?;
    } else {
        for report in &reports {
            writeln!(out, "{}", printable(&text::render(report, layers)))?;
        }
    }
    let sound = failed == 0 && reports.iter().all(Report::is_sound);
    Ok(if sound { Outcome::Done } else { Outcome::PartlyFailed })
}
