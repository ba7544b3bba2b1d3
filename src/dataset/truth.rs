/*!
From an object's mask files to masks.
*/

use super::{MaskError, ObjectTruth};
use crate::decode;
use crate::mask::Mask;

impl ObjectTruth {
    /// The frame on which the object is prompted: its first annotated one. `None` without annotations.
    pub fn prompt_index(&self) -> Option<usize> {
        self.masks.keys().next().copied()
    }

    /// The ground truth of frame `index`, in the size of its file.
    ///
    /// # Errors
    /// The frame is not annotated, the file is missing or damaged, or it is a colour image that cannot
    /// hold the id of this object.
    pub fn mask(&self, index: usize) -> Result<Mask, MaskError> {
        let path = self
            .masks
            .get(&index)
            .ok_or_else(|| MaskError::NotAnnotated { object: self.name.clone(), index })?;
        let image = decode::mask_png(path).map_err(|error| {
            if error.is_missing() {
                MaskError::Missing(error)
            } else {
                MaskError::Unreadable(error)
            }
        })?;
        if let (Some(id), false) = (self.id, image.has_ids) {
            return Err(MaskError::NoIds { path: path.clone(), id });
        }
        Ok(image.mask(self.id))
    }

    /// Like [`Self::mask`], and the mask must have `width` × `height` pixels.
    ///
    /// # Errors
    /// Those of [`Self::mask`], and a mask of another size.
    pub fn mask_of_size(
        &self,
        index: usize,
        width: usize,
        height: usize,
    ) -> Result<Mask, MaskError> {
        let mask = self.mask(index)?;
        if (mask.width(), mask.height()) != (width, height) {
            let path = self.masks[&index].clone();
            let found = (mask.width(), mask.height());
            return Err(MaskError::Size { path, found, expected: (width, height) });
        }
        Ok(mask)
    }
}
