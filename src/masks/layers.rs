/*!
The masks of one object, and several objects on one frame.

Where objects overlap, the higher logit has the pixel, as in Meta's predictor with
`non_overlap_masks`. Without logits the smaller id has it, as in its `vos_inference.py`.
*/

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};

use report::compare::runs::{MaskFile, MaskFrame};
use vos::geometry::{Geometry, Tap};
use vos::logits::LogitsFile;
use vos::mask::Mask;

/// The masks of one object in a clip.
pub struct Layer {
    /// Name in the rows.
    pub name: String,
    /// Frame index → position in the run, and the mask.
    frames: BTreeMap<usize, (usize, MaskFrame)>,
    /// The low-resolution logits in the order of the run, if it saved them.
    pub logits: Option<LogitsFile>,
}

impl Layer {
    /// Joins the files of an object.
    ///
    /// # Errors
    /// The logits are of another number of frames than the masks.
    pub fn new(name: &str, masks: MaskFile, logits: Option<LogitsFile>) -> Result<Self> {
        let (masks, own) = (masks.frames, logits.as_ref().map(LogitsFile::frames));
        ensure!(
            own.is_none_or(|own| own == masks.len()),
            "found logits of {} frames, expected {}, as many as masks; measure again",
            own.unwrap_or_default(),
            masks.len()
        );
        let entries = masks.into_iter().enumerate();
        let frames = entries.map(|(at, mask)| (mask.frame, (at, mask))).collect();
        Ok(Self { name: name.to_owned(), frames, logits })
    }

    /// The value of its pixels.
    ///
    /// # Errors
    /// The name is no id that a palette has.
    pub fn id(&self) -> Result<u8> {
        match self.name.parse() {
            Ok(id @ 1..=254) => Ok(id),
            _ => bail!(
                "object {:?} cannot be a pixel value; expected an id from 1 to 254",
                self.name
            ),
        }
    }

    /// The frames with a mask, in order.
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.frames.keys().copied()
    }

    /// Whether frame `index` has a mask.
    pub fn has(&self, index: usize) -> bool {
        self.frames.contains_key(&index)
    }

    /// The mask of frame `index`.
    ///
    /// # Errors
    /// It is damaged.
    pub fn mask(&self, index: usize) -> Result<Option<Mask>> {
        self.frames.get(&index).map(|(_, frame)| frame.decode()).transpose()
    }

    /// The logit of a pixel of frame `index`, from its samples in a row and a column.
    fn logit(&self, index: usize, column: Tap, row: Tap) -> Option<f32> {
        let logits = self.logits.as_ref()?;
        let values = logits.frame(self.frames.get(&index)?.0)?;
        let at = |y: usize, x: usize| Some(values.get(y * logits.side() + x)?.to_f32());
        let along = |y: usize| {
            let (a, b) = (at(y, column.first)?, at(y, column.second)?);
            Some((1.0 - column.weight) * a + column.weight * b)
        };
        let (a, b) = (along(row.first)?, along(row.second)?);
        Some((1.0 - row.weight) * a + row.weight * b)
    }

    fn taps(&self, geometry: &Geometry) -> Option<[Vec<Tap>; 2]> {
        Some(geometry.upsample_taps(self.logits.as_ref()?.side()))
    }
}

/// The id of each pixel of frame `index`, and the number of pixels that several objects claim.
/// `layers` are in ascending order of their ids.
///
/// # Errors
/// A mask is damaged or has another size than the clip.
pub fn merge(
    layers: &[(u8, Layer)],
    index: usize,
    geometry: &Geometry,
) -> Result<(Vec<u8>, usize)> {
    let (width, height) = geometry.video_size();
    let mut ids = vec![0_u8; width * height];
    let taps: Vec<_> = layers.iter().map(|(_, layer)| layer.taps(geometry)).collect();
    let logit = |at: usize, x: usize, y: usize| {
        let [columns, rows] = taps.get(at)?.as_ref()?;
        layers.get(at)?.1.logit(index, *columns.get(x)?, *rows.get(y)?)
    };
    let mut contested = 0;
    for (at, (id, layer)) in layers.iter().enumerate() {
        let Some(mask) = layer.mask(index)? else { continue };
        ensure!(
            (mask.width(), mask.height()) == (width, height),
            "the mask of object {id} is {}x{}, the frame {width}x{height}",
            mask.width(),
            mask.height()
        );
        for (x, y) in mask.pixels() {
            let pixel = &mut ids[y * width + x];
            if *pixel == 0 {
                *pixel = *id;
                continue;
            }
            contested += 1;
            let owner = layers.iter().position(|(owner, _)| owner == pixel);
            let logits = owner.and_then(|owner| logit(owner, x, y)).zip(logit(at, x, y));
            if logits.is_some_and(|(owner, challenger)| challenger > owner) {
                *pixel = *id;
            }
        }
    }
    Ok((ids, contested))
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;
    use vos::geometry::GeometryKind;
    use vos::rle::Rle;

    const SIDE: usize = 2;

    /// A 4x2 clip's object on frames 3 and 4; `logits` are the two columns of each frame.
    fn layer(name: &str, logits: Option<[[f32; 2]; 2]>, from: usize) -> Layer {
        let mask = Mask::from_fn(4, 2, |x, _| x >= from);
        let frame = |frame| MaskFrame { frame, mask: Rle::compressed(&mask) };
        let masks = MaskFile { frames: vec![frame(3), frame(4)] };
        let values = |pairs: [[f32; 2]; 2]| {
            pairs.into_iter().flat_map(|[a, b]| [a, b, a, b]).map(f16::from_f32).collect()
        };
        let logits = logits.map(|pairs| LogitsFile::new(SIDE, values(pairs)).unwrap());
        Layer::new(name, masks, logits).unwrap()
    }

    fn merged(one: Layer, two: Layer, index: usize) -> (Vec<u8>, usize) {
        let geometry = Geometry::new(GeometryKind::Stretch, 4, 2, 256);
        let (mut ids, contested) = merge(&[(1, one), (7, two)], index, &geometry).unwrap();
        ids.truncate(4);
        (ids, contested)
    }

    #[test]
    fn the_higher_logit_has_a_pixel() {
        // Columns at 4 pixels: a, ¾a + ¼b, ¼a + ¾b, b.
        let one = || layer("1", Some([[4.0, 0.5], [1.0, 1.0]]), 0);
        let two = || layer("7", Some([[1.0, 2.0], [9.0, 9.0]]), 1);
        assert_eq!(merged(one(), two(), 3), (vec![1, 1, 7, 7], 6));
        assert_eq!(merged(one(), two(), 4), (vec![1, 7, 7, 7], 6));
        // On a tie and without logits the smaller id has it.
        let tie = layer("7", Some([[4.0, 0.5], [1.0, 1.0]]), 1);
        assert_eq!(merged(one(), tie, 3).0, [1, 1, 1, 1]);
        assert_eq!(merged(one(), layer("7", None, 1), 3), (vec![1, 1, 1, 1], 6));
        assert_eq!(merged(layer("1", None, 2), layer("7", None, 1), 3).0, [0, 7, 1, 1]);
        assert_eq!(merged(one(), two(), 5), (vec![0; 4], 0), "not run");
    }

    #[test]
    fn names_that_are_no_pixel_values_and_other_lengths_are_refused() {
        for name in ["0", "255", "000", "cat"] {
            assert!(layer(name, None, 0).id().unwrap_err().to_string().contains("1 to 254"));
        }
        assert_eq!(layer("254", None, 0).id().unwrap(), 254);
        let masks = MaskFile { frames: Vec::new() };
        let logits = LogitsFile::new(1, vec![f16::ZERO; 3]).unwrap();
        let error = Layer::new("1", masks, Some(logits)).err().unwrap().to_string();
        assert!(error.contains("logits of 3 frames, expected 0"), "{error}");
    }
}
