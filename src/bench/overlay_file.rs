/*!
The overlay of a pass: its masks over the frames, with the ground truth and the prompt.
*/

use std::path::PathBuf;

use vos::dataset::{Clip, ObjectTruth};
use vos::overlay::{Layers, OverlayWriter};
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
        // A frame without a readable truth of its size is shown without; scoring has a note on it.
        let truth = shown.truth.masks.contains_key(index);
        let truth = truth.then(|| shown.truth.mask(*index, size).ok()).flatten();
        let truth = truth.as_ref().filter(|truth| truth.same_size(mask));
        let layers = Layers { mask: Some(mask), truth, prompt: prompt.take() };
        writer.write(&shown.clip.frame(*index, size)?, layers)?;
        wrote();
    }
    Ok(writer.finish()?)
}
