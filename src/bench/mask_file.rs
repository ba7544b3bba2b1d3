/*!
The predicted masks of one object and model as JSON: COCO run lengths, one entry a frame.

This is what frame-by-frame comparisons with another implementation read.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::clip_run::ClipPass;
use vos::files::atomic;
use vos::rle::Rle;

#[derive(Serialize)]
struct MaskFile {
    frames: Vec<FrameEntry>,
}

#[derive(Serialize)]
struct FrameEntry {
    frame: usize,
    mask: Rle,
    area: usize,
    objectness: f32,
    predicted_iou: f32,
}

/// Writes `dir/name`; `packed` hears of each mask that is in its shape.
pub fn write(dir: &Path, name: &str, pass: &ClipPass, packed: &mut dyn FnMut()) -> Result<PathBuf> {
    let scores = pass.objectness.iter().zip(&pass.predicted_iou);
    let frames = pass
        .masks
        .iter()
        .zip(scores)
        .map(|((frame, mask), (&objectness, &predicted_iou))| FrameEntry {
            frame: *frame,
            mask: Rle::compressed(mask),
            area: mask.area(),
            objectness,
            predicted_iou,
        })
        .inspect(|_| packed())
        .collect();
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let path = dir.join(name);
    let file = MaskFile { frames };
    atomic::write(&path, |out| Ok(serde_json::to_writer(out, &file)?))?;
    Ok(path)
}
