/*!
The overlay of a pass: its masks over the frames, with the ground truth and the prompt.
*/

use std::path::{Path, PathBuf};

use vos::dataset::{Clip, ObjectTruth};
use vos::decode::RgbImage;
use vos::mask::Mask;
use vos::overlay::{
    Layers, OverlayWriter, THUMBNAIL_WIDTH, paint, paint_outline, paint_prompt, shrink, write_jpeg,
};
use vos::prompt::Prompt;

use super::clip_run::ClipPass;
use super::object_error::ObjectError;

/// An object with all that is shown of it.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    /// Where its frames are.
    pub clip: &'a Clip,
    /// Its ground truth.
    pub truth: &'a ObjectTruth,
    /// What the network was given on the first frame of the pass.
    pub prompt: &'a Prompt,
}

/// Writes all frames of `pass` and returns the overlay's path; `wrote` hears of each frame.
pub fn write(
    mut writer: OverlayWriter,
    shown: Shown<'_>,
    pass: &ClipPass,
    wrote: &mut dyn FnMut(),
) -> Result<PathBuf, ObjectError> {
    let mut prompt = Some(shown.prompt);
    for (index, mask) in &pass.masks {
        let size = (mask.width(), mask.height());
        let truth = truth_of(shown, *index, mask);
        let layers = Layers { mask: Some(mask), truth: truth.as_ref(), prompt: prompt.take() };
        writer.write(&shown.clip.frame(*index, size)?, layers)?;
        wrote();
    }
    Ok(writer.finish()?)
}

/// A frame without a readable truth of its size is shown without; scoring has a note on it.
fn truth_of(shown: Shown<'_>, index: usize, mask: &Mask) -> Option<Mask> {
    let there = shown.truth.masks.contains_key(&index);
    let truth = shown.truth.mask(index, (mask.width(), mask.height()));
    there.then(|| truth.ok()).flatten().filter(|truth| truth.same_size(mask))
}

/// Writes small pictures `<stem>__<frame>.jpg` of the prompted frame, the last one and three
/// between them into `folder`.
pub fn write_thumbnails(
    folder: &Path,
    stem: &str,
    shown: Shown<'_>,
    pass: &ClipPass,
) -> Result<(), ObjectError> {
    let last = pass.masks.len().saturating_sub(1);
    let mut places: Vec<usize> = (0..=4).map(|quarter| last * quarter / 4).collect();
    places.dedup();
    for (at, (index, mask)) in places.iter().filter_map(|at| Some((*at, pass.masks.get(*at)?))) {
        let size = (mask.width(), mask.height());
        let mut frame: RgbImage = shown.clip.frame(*index, size)?;
        paint(&mut frame.data, mask);
        if let Some(truth) = truth_of(shown, *index, mask) {
            paint_outline(&mut frame.data, &truth);
        }
        if at == 0 {
            paint_prompt(&mut frame.data, size, shown.prompt);
        }
        let path = folder.join(format!("{stem}__{index:05}.jpg"));
        write_jpeg(&path, &shrink(&frame, THUMBNAIL_WIDTH))?;
    }
    Ok(())
}
