/*!
Generates a synthetic split: moving, rotating, deforming shapes that occlude one another.

Demos and tests need a data set with exact ground truth and without downloads. The scene uses only
exactly rounded arithmetic, so a seed gives the same files on every machine.
*/

mod files;
mod noise;
mod random;
mod scene;
mod shape;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use rayon::prelude::*;

use scene::Scene;

/// Name of the written split; its manifest is `sav_val.txt`.
pub const SPLIT_NAME: &str = "sav_val";
/// The usual [`SynthOptions::mask_stride`]: 24 frames and 6 masks a second, as in SA-V.
pub const MASK_STRIDE: usize = 4;
const LARGEST_SIDE: usize = 8192;
/// Space of each object on the first frame, in pixels a side.
const SMALLEST_CELL: usize = 8;

/// Options of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynthOptions {
    /// The split's directory. It is created if missing, and must be empty or an earlier synthetic
    /// split.
    pub out: PathBuf,
    /// Number of videos, at least 1.
    pub videos: usize,
    /// Number of objects in each video, at least 1.
    pub objects: usize,
    /// Frames of each video, at least 1.
    pub frames: usize,
    /// Width of the frames, at least 16 pixels; may be odd.
    pub width: usize,
    /// Height of the frames, at least 16 pixels; may be odd.
    pub height: usize,
    /// The same seed and sizes give the same bytes.
    pub seed: u64,
    /// All objects of a video have one outline, size and texture, so that the prompt alone tells
    /// them apart.
    pub alike: bool,
    /// Masks are written for every frame whose number is a multiple of this, at least 1.
    pub mask_stride: usize,
}

/// Number of written files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynthSummary {
    /// JPEG frames.
    pub frames: usize,
    /// PNG masks.
    pub masks: usize,
}

/// Writes a SA-V split: `sav_val.txt`, `JPEGImages_24fps/`, `Annotations_6fps/`.
///
/// # Errors
/// An option is out of range, the directory has other files, or a file cannot be written.
pub fn write_split(options: &SynthOptions) -> Result<SynthSummary> {
    check(options)?;
    let split = files::Split::prepare(options)?;
    let mut summary = SynthSummary { frames: 0, masks: 0 };
    for index in 0..options.videos {
        let video = format!("synth_{index:03}");
        let scene = Scene::new(options, index);
        split.start_video(&video, options.objects)?;
        (0..options.frames).into_par_iter().try_for_each(|frame| {
            let view = scene.render(frame);
            split.write_frame(&video, frame, &view)?;
            if frame % options.mask_stride == 0 {
                split.write_masks(&video, frame, options.objects, &view)?;
            }
            anyhow::Ok(())
        })?;
        split.finish_video(&video)?;
        summary.frames += options.frames;
        summary.masks += options.objects * options.frames.div_ceil(options.mask_stride);
    }
    Ok(summary)
}

/// Checks the options.
///
/// # Errors
/// An option is out of range; the message has its flag.
pub fn check(options: &SynthOptions) -> Result<()> {
    let &SynthOptions { videos, objects, frames, width, height, .. } = options;
    let numbers = [
        ("videos", videos),
        ("objects", objects),
        ("frames", frames),
        ("mask-stride", options.mask_stride),
    ];
    for (name, value) in numbers {
        ensure!(value >= 1, "--{name} is 0; expected at least 1");
        ensure!(
            value <= 100_000,
            "--{name} is {value}; expected at most 100000, the limit of file \
                                   names"
        );
    }
    for (name, value) in [("width", width), ("height", height)] {
        ensure!(
            (16..=LARGEST_SIDE).contains(&value),
            "--size {width}x{height}: the {name} must be 16 to {LARGEST_SIDE} pixels"
        );
    }
    let (columns, rows) = grid(objects, width, height);
    ensure!(
        width / columns >= SMALLEST_CELL && height / rows >= SMALLEST_CELL,
        "--objects {objects} do not fit into {width}x{height} pixels side by side, each with \
         {SMALLEST_CELL}x{SMALLEST_CELL}; use a larger --size or fewer --objects"
    );
    Ok(())
}

/// Columns and rows of the grid on which the objects start.
fn grid(objects: usize, width: usize, height: usize) -> (usize, usize) {
    let columns = (objects as f64 * width as f64 / height as f64).sqrt().ceil() as usize;
    let columns = columns.clamp(1, objects);
    (columns, objects.div_ceil(columns))
}
