/*!
The masks of one object in one run from `--save-masks`: run lengths, decoded frame by frame.
*/

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use vos::mask::Mask;
use vos::record::ObjectKey;
use vos::rle::Rle;

/// An object's masks in the order of its frames.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct MaskFile {
    /// One entry a frame.
    pub frames: Vec<MaskFrame>,
}

/// The mask of one frame.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct MaskFrame {
    /// Frame index in the clip.
    pub frame: usize,
    /// The mask at the clip's size.
    pub mask: Rle,
}

impl MaskFile {
    /// Reads the file of `key` in the folder `masks` of a run.
    ///
    /// # Errors
    /// It is missing or damaged.
    pub(super) fn read(folder: &Path, key: &ObjectKey) -> Result<Self> {
        let path = folder.join(format!("{}.json", key.file_stem()));
        let text = std::fs::read(&path).with_context(|| {
            format!("cannot read the masks {}; measure again with --save-masks", path.display())
        })?;
        serde_json::from_slice(&text).with_context(|| {
            format!(
                "{} is not a mask file; measure again with \
                                      --save-masks",
                path.display()
            )
        })
    }
}

impl MaskFrame {
    /// The decoded mask.
    ///
    /// # Errors
    /// The run lengths are damaged.
    pub fn decode(&self) -> Result<Mask> {
        self.mask.to_mask().with_context(|| format!("the mask of frame {} is damaged", self.frame))
    }
}
