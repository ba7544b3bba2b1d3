/*!
Pictures of frames: the one with the lowest IoU in four panels (frame, reference, side, difference),
and small ones in two panels (reference, side).
*/

use std::path::Path;

use anyhow::{Context, Result};

use vos::dataset::Clip;
use vos::decode::RgbImage;
use vos::files::Configuration;
use vos::mask::Mask;
use vos::overlay::{THUMBNAIL_WIDTH, paint, paint_prompt, shrink, write_jpeg, write_png};
use vos::prompt::Prompt;

/// Pixels between two panels.
const GAP: usize = 4;

/// Orange: only the reference has the pixel. Blue: only the side has it. Colour-blind readers can
/// distinguish them.
const ONLY_REFERENCE: [u8; 3] = [230, 159, 0];
const ONLY_SIDE: [u8; 3] = [0, 114, 178];

/// Both masks have the pixel.
const BOTH: [u8; 3] = [128, 128, 128];

/// The beginning of file names for each of `sides` (model, side), in their order. Characters that
/// some file systems forbid are replaced. Names that become equal get a part of their hash.
pub(super) fn file_stems(sides: &[(&str, &str)]) -> Vec<String> {
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
    let stems: Vec<String> =
        sides.iter().map(|(model, side)| format!("{}__{}", plain(model), plain(side))).collect();
    let named = |((model, side), stem): (&(&str, &str), &String)| {
        let is_shared = stems.iter().filter(|other| *other == stem).count() > 1;
        let hash = Configuration::default().with("model", *model).with("side", *side).sha256();
        let more = if is_shared { format!("-{}", &hash[..8]) } else { String::new() };
        format!("{stem}{more}")
    };
    sides.iter().zip(&stems).map(named).collect()
}

/// Writes the four panels as a PNG and creates its folders.
///
/// # Errors
/// The frame cannot be decoded, a mask has another size, or the file cannot be written.
pub(super) fn write(
    path: &Path,
    clip: &Clip,
    frame: usize,
    reference: &Mask,
    side: &Mask,
) -> Result<()> {
    let size = clip.frame_size()?;
    let image = clip.frame(frame, size)?;
    let fits = |mask: &Mask| (mask.width(), mask.height()) == size;
    anyhow::ensure!(fits(reference) && fits(side), "the masks have another size than the frame");
    let panels = panels(&image, reference, side);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    write_png(path, (panels.width, panels.height), &panels.data)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a small JPEG of the masks of the reference and of the side, each over the frame, with the
/// prompt if there is one.
///
/// # Errors
/// The frame cannot be decoded, a mask has another size, or the file cannot be written.
pub(super) fn write_small(
    path: &Path,
    clip: &Clip,
    frame: usize,
    masks: [&Mask; 2],
    prompt: Option<&Prompt>,
) -> Result<()> {
    let size = clip.frame_size()?;
    let image = clip.frame(frame, size)?;
    let fits = |mask: &&Mask| (mask.width(), mask.height()) == size;
    anyhow::ensure!(masks.iter().all(fits), "the masks have another size than the frame");
    let panels = masks.map(|mask| {
        let mut panel = image.clone();
        paint(&mut panel.data, mask);
        if let Some(prompt) = prompt {
            paint_prompt(&mut panel.data, size, prompt);
        }
        shrink(&panel, THUMBNAIL_WIDTH)
    });
    let small = (panels[0].width, panels[0].height);
    write_jpeg(path, &row(&panels.map(|panel| panel.data), small))
}

/// The four panels in a row with white gaps.
fn panels(image: &RgbImage, reference: &Mask, side: &Mask) -> RgbImage {
    let (width, height) = (image.width, image.height);
    let painted = |mask: &Mask| {
        let mut data = image.data.clone();
        paint(&mut data, mask);
        data
    };
    row(
        &[
            image.data.clone(),
            painted(reference),
            painted(side),
            difference(image, reference, side),
        ],
        (width, height),
    )
}

/// Panels of this size in a row with white gaps.
fn row(panels: &[Vec<u8>], (width, height): (usize, usize)) -> RgbImage {
    let whole = panels.len() * width + panels.len().saturating_sub(1) * GAP;
    let mut data = vec![255; 3 * whole * height];
    for (y, line) in data.chunks_exact_mut(3 * whole).enumerate() {
        for (at, panel) in panels.iter().enumerate() {
            let from = 3 * y * width;
            line[3 * at * (width + GAP)..][..3 * width]
                .copy_from_slice(&panel[from..from + 3 * width]);
        }
    }
    RgbImage { width: whole, height, data }
}

/// The difference of the masks over a darkened frame.
fn difference(image: &RgbImage, reference: &Mask, side: &Mask) -> Vec<u8> {
    let mut data: Vec<u8> = image.data.iter().map(|byte| byte / 4).collect();
    for (at, pixel) in data.chunks_exact_mut(3).enumerate() {
        let (x, y) = (at % image.width, at / image.width);
        let colour = match (reference.get(x, y), side.get(x, y)) {
            (true, true) => BOTH,
            (true, false) => ONLY_REFERENCE,
            (false, true) => ONLY_SIDE,
            (false, false) => continue,
        };
        pixel.copy_from_slice(&colour);
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_has_a_file_of_its_own() {
        let names =
            file_stems(&[("m", "a.b"), ("m", "a_b"), ("m", "c.d"), ("m_", "a"), ("m", "_a")]);
        let mut unique = names.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), 5, "{names:?}");
        assert_eq!(names[2], "m__c_d", "no other name became equal");
        assert!(names[0].starts_with("m__a_b-") && names[1].starts_with("m__a_b-"));
        assert_eq!(file_stems(&[("m", "a.b")]), ["m__a_b"]);
    }

    #[test]
    fn the_panels_are_frame_reference_side_and_difference() {
        let image = RgbImage { width: 3, height: 2, data: [40, 80, 120].repeat(6) };
        let reference = Mask::from_fn(3, 2, |x, _| x == 0);
        let side = Mask::from_fn(3, 2, |x, y| x <= 1 && y == 0);
        let found = panels(&image, &reference, &side);
        assert_eq!((found.width, found.height), (4 * 3 + 3 * GAP, 2));
        let pixel = |panel: usize, x: usize, y: usize| {
            let at = 3 * (y * found.width + panel * (3 + GAP) + x);
            [found.data[at], found.data[at + 1], found.data[at + 2]]
        };
        assert_eq!(pixel(0, 0, 0), [40, 80, 120]);
        assert_eq!((pixel(1, 0, 0), pixel(1, 1, 0)), ([0, 255, 0], [40, 80, 120]));
        assert_eq!((pixel(2, 1, 0), pixel(2, 0, 1)), ([0, 255, 0], [40, 80, 120]));
        assert_eq!((pixel(3, 0, 0), pixel(3, 1, 0)), (BOTH, ONLY_SIDE));
        assert_eq!((pixel(3, 0, 1), pixel(3, 2, 1)), (ONLY_REFERENCE, [10, 20, 30]));
        assert_eq!(&found.data[3 * 3..3 * (3 + GAP)], &[255; 3 * GAP]);
    }
}
