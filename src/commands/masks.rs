/*!
`segtrt masks`.
*/

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::Outcome;
use crate::commands::headings::{DATA, MODEL, OUTPUT};
use crate::masks::{self, ANNOTATIONS, Written};
use host::{UsageError, counted};
use report::compare::runs::RunFolder;
use vos::dataset;

/// Flags of `segtrt masks`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt masks demo/out --split-dir demo/split --out demo/submission\n\n\
    Measure with bench --save-masks. Where objects overlap, the smaller id has the pixel; after \
    bench --save-masks --save-logits, the higher logit has it. docs/how-to/own-clips.md has the data sets."
)]
pub struct MasksArgs {
    /// Folder of a finished run, bench's --out-dir.
    #[arg(value_name = "RUN_FOLDER")]
    pub run: PathBuf,
    /// Folder of the measured split.
    #[arg(long, help_heading = DATA)]
    pub split_dir: PathBuf,
    /// Name of the clip list in the split folder; without such a file all clips are taken.
    #[arg(long, help_heading = DATA, default_value = "sav_val")]
    pub split_name: String,
    /// Tag of the model, if the run has several.
    #[arg(long, help_heading = MODEL, value_name = "TAG")]
    pub model: Option<String>,
    /// Folder of the masks: Annotations/CLIP/FRAME.png, indexed, with DAVIS's palette.
    #[arg(long, help_heading = OUTPUT, value_name = "DIR")]
    pub out: PathBuf,
}

/// Writes the masks of one model.
pub fn run(args: MasksArgs) -> Result<Outcome> {
    let MasksArgs { run, split_dir, split_name, model, out } = args;
    let run = RunFolder::read(&run)?;
    let models = run.models();
    let model = match (&model, models.as_slice()) {
        (Some(model), models) if models.contains(&model.as_str()) => model.as_str(),
        (None, [only]) => only,
        _ => bail!(UsageError(format!(
            "{} has masks of {}; name one with --model",
            run.path.display(),
            models.join(", ")
        ))),
    };
    let split = dataset::open(&split_dir, &split_name)?;
    let written = masks::write(&run, model, split.as_ref(), &out)?;
    let Written { clips, objects, files, left_out, contested, lost, by_logit } = &written;
    println!(
        "{} of {} in {}: {}",
        counted(*files, "mask"),
        counted(*objects, "object"),
        counted(*clips, "clip"),
        out.join(ANNOTATIONS).display()
    );
    if *contested > 0 && !by_logit {
        eprintln!(
            "{} of several objects: the smaller id has them. For the higher logit, measure with \
             --save-masks --save-logits",
            counted(*contested, "pixel")
        );
    }
    if *left_out > 0 {
        eprintln!(
            "{} without a mask: the run left them out; measure without --max-clip-frames and strides",
            counted(*left_out, "frame")
        );
    }
    for object in lost {
        eprintln!("no mask of {object}");
    }
    Ok(if lost.is_empty() { Outcome::Done } else { Outcome::PartlyFailed })
}
