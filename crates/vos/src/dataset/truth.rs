/*!
Reads masks from an object's mask files.
*/

use std::path::Path;

use super::{MaskError, ObjectTruth};
use crate::decode::{self, DecodeError, IdImage};
use crate::mask::Mask;

/// Largest ratio of a mask's pixels to its frame's, four in each direction; a larger mask is not
/// decoded.
const MOST_PIXELS: usize = 16;

impl ObjectTruth {
    /// The frame on which the object is prompted: its first annotated one. `None` without
    /// annotations.
    pub fn prompt_index(&self) -> Option<usize> {
        self.masks.keys().next().copied()
    }

    /// The ground truth of frame `index` in the size of its file. `frame`: width and height of the
    /// frames, which limit the size.
    ///
    /// # Errors
    /// The frame is not annotated, the file is missing, damaged or far too large, or it is a colour
    /// image without object ids.
    pub fn mask(&self, index: usize, frame: (usize, usize)) -> Result<Mask, MaskError> {
        let path = self.path(index)?;
        let image = read(path, Some(frame))?;
        if let (Some(id), false) = (self.id, image.has_ids) {
            return Err(MaskError::NoIds { path: path.into(), id });
        }
        Ok(image.mask(self.id))
    }

    /// Like [`Self::mask`], but the mask must have the size of the frames. A mask of another size
    /// is not decoded.
    ///
    /// Errors of [`Self::mask`], or the mask has another size.
    pub fn mask_of_size(
        &self,
        index: usize,
        width: usize,
        height: usize,
    ) -> Result<Mask, MaskError> {
        let path = self.path(index)?;
        let (found, expected) = (size(path)?, (width, height));
        if found != expected {
            return Err(MaskError::Size { path: path.into(), found, expected });
        }
        self.mask(index, expected)
    }

    /// The mask file of frame `index`.
    fn path(&self, index: usize) -> Result<&Path, MaskError> {
        let missing = || MaskError::NotAnnotated { object: self.name.clone(), index };
        self.masks.get(&index).map(std::path::PathBuf::as_path).ok_or_else(missing)
    }
}

/// Decodes a mask file unless its header states a size far above the frames'.
///
/// # Errors
/// The file is missing, damaged or far too large.
pub(super) fn read(path: &Path, frame: Option<(usize, usize)>) -> Result<IdImage, MaskError> {
    if let Some(expected) = frame {
        let found = size(path)?;
        if found.0.saturating_mul(found.1) > MOST_PIXELS.saturating_mul(expected.0 * expected.1) {
            return Err(MaskError::Size { path: path.into(), found, expected });
        }
    }
    decode::mask_png(path).map_err(unusable)
}

/// Width and height in a mask file's header.
fn size(path: &Path) -> Result<(usize, usize), MaskError> {
    decode::mask_png_size(path).map_err(unusable)
}

fn unusable(error: DecodeError) -> MaskError {
    match error.is_missing() {
        true => MaskError::Missing(error),
        false => MaskError::Unreadable(error),
    }
}
