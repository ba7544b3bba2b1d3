/*!
The files of an object's pass: masks, logits, overlays, encoded output.
*/

use std::path::Path;

use super::clip_run::ClipPass;
use super::mask_file;
use super::object_error::ObjectError;
use super::object_rows::Rows;
use super::overlay_file::{self, Shown};
use super::teacher;
use vos::files;
use vos::geometry::Geometry;
use vos::overlay::{OverlayWriter, THUMBNAILS};
use vos::record::{EncodeOutput, RunRecord};

impl Rows<'_> {
    /// Mask, overlay and logits files of a pass, as far as they are wanted; its row gets the
    /// overlay's path. `wrote` hears of each mask.
    pub(super) fn write_files(
        &self,
        row: &mut RunRecord,
        shown: Shown<'_>,
        geometry: &Geometry,
        pass: &ClipPass,
        wrote: &mut dyn FnMut(),
    ) -> Result<(), ObjectError> {
        let out_dir = &self.plan.out_dir;
        if self.plan.save_masks {
            let name = format!("{}.json", row.key.file_stem());
            mask_file::write(&out_dir.join(files::MASKS), &name, pass, wrote)?;
        }
        if self.plan.save_logits {
            teacher::write(out_dir, &row.key, self.low_size, pass)?;
        }
        if self.plan.save_overlays {
            let stride = self.plan.strides.input;
            let writer = OverlayWriter::create(out_dir, &row.key, geometry.video_size(), stride)?;
            let path = overlay_file::write(writer, shown, pass, wrote)?;
            // Below the run folder, which may be moved or collected.
            let inside = path.strip_prefix(out_dir).unwrap_or(&path);
            row.overlay = Some(inside.display().to_string());
            let stem = row.key.file_stem();
            overlay_file::write_thumbnails(&out_dir.join(THUMBNAILS), &stem, shown, pass)?;
        }
        Ok(())
    }

    /// An encoded overlay's path below the run folder, for the row.
    pub(super) fn shown_overlay(&self, path: &Path) -> Option<String> {
        let shown = self.plan.encode?.output == EncodeOutput::Overlay;
        let inside = path.strip_prefix(&self.plan.out_dir).unwrap_or(path);
        shown.then(|| inside.display().to_string())
    }
}
