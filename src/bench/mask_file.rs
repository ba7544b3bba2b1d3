/*!
The predicted masks of one object and model as JSON: COCO run lengths, one entry a frame.

This is what frame-by-frame comparisons with another implementation read.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::clip_run::Pass;
use crate::files::atomic;
use crate::geometry::Geometry;
use crate::rle;

#[derive(Serialize)]
struct MaskFile {
    /// Height and width, pixels, as COCO orders them.
    size: [usize; 2],
    frames: Vec<FrameEntry>,
}

#[derive(Serialize)]
struct FrameEntry {
    frame: usize,
    /// COCO's compressed run lengths.
    counts: String,
    area: usize,
    objectness: f32,
    predicted_iou: f32,
}

/// Writes `dir/name`.
pub fn write(dir: &Path, name: &str, geometry: &Geometry, pass: &Pass) -> Result<PathBuf> {
    let (width, height) = geometry.video_size();
    let scores = pass.objectness.iter().zip(&pass.predicted_iou);
    let frames = pass
        .masks
        .iter()
        .zip(scores)
        .map(|((frame, mask), (&objectness, &predicted_iou))| FrameEntry {
            frame: *frame,
            counts: rle::encode_compressed(mask),
            area: mask.area(),
            objectness,
            predicted_iou,
        })
        .collect();
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let path = dir.join(name);
    let file = MaskFile { size: [height, width], frames };
    atomic::write(&path, |out| Ok(serde_json::to_writer(out, &file)?))?;
    Ok(path)
}
