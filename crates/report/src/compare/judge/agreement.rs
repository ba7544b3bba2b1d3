/*!
Agreement of one object's masks with the reference's, frame by frame.
*/

use anyhow::{Context, Result, bail};

use crate::compare::runs::{MaskFile, PassRecord};
use crate::compare::thresholds::PROOF;
use vos::dataset::ObjectTruth;
use vos::mask::Mask;
use vos::metrics::{MetricsKind, Scorer};
use vos::record::Quality;

/// Agreement of two masks of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FrameAgreement {
    /// Frame index in the clip.
    pub frame: usize,
    /// Intersection over union; 1 for two empty masks.
    pub iou: f64,
    /// Pixels that only one mask has.
    pub differing: usize,
    /// Both masks are empty.
    pub both_empty: bool,
    /// The reference mask is neither tiny nor nearly the whole frame, so agreement proves
    /// something.
    pub counts: bool,
    /// The round with the least agreement, from 1.
    pub round: usize,
}

/// Compares two masks of one frame. Masks of different sizes are an error.
pub(super) fn compare(
    frame: usize,
    round: usize,
    reference: &Mask,
    other: &Mask,
) -> Result<FrameAgreement> {
    if !reference.same_size(other) {
        bail!(
            "frame {frame}: the masks are {}x{} and the reference's {}x{}",
            other.width(),
            other.height(),
            reference.width(),
            reference.height()
        );
    }
    let (both, either) = reference.intersection_union(other);
    let area = reference.area();
    let most = PROOF.most_cover * (reference.width() * reference.height()) as f64;
    Ok(FrameAgreement {
        frame,
        iou: if either == 0 { 1.0 } else { both as f64 / either as f64 },
        differing: either - both,
        both_empty: either == 0,
        counts: area >= PROOF.least_pixels && area as f64 <= most,
        round,
    })
}

/// Checks that there is a mask for every frame of the pass, in the same order.
pub(super) fn complete(masks: &MaskFile, pass: &PassRecord) -> Result<()> {
    let mut wanted: Vec<usize> = pass.frames.iter().map(|frame| frame.frame).collect();
    // If a clip was repeated, the masks are those of the first repetition.
    wanted.truncate(masks.frames.len().max(1));
    let later = &pass.frames[wanted.len()..];
    let found: Vec<usize> = masks.frames.iter().map(|frame| frame.frame).collect();
    if found != wanted || later.iter().any(|frame| !wanted.contains(&frame.frame)) {
        bail!("masks of {} frames, {} frames were run", found.len(), pass.frames.len());
    }
    Ok(())
}

/// The agreement of every frame, in its worst round.
pub(super) fn worst_of_rounds(
    reference: &MaskFile,
    rounds: &[MaskFile],
) -> Result<Vec<FrameAgreement>> {
    let mut worst: Vec<FrameAgreement> = Vec::new();
    for (index, masks) in rounds.iter().enumerate() {
        // A round with the same bits as an earlier one adds nothing.
        if rounds[..index].contains(masks) {
            continue;
        }
        for (at, (theirs, ours)) in reference.frames.iter().zip(&masks.frames).enumerate() {
            let found = compare(ours.frame, index + 1, &theirs.decode()?, &ours.decode()?)?;
            match worst.get_mut(at) {
                Some(known) if found.iou < known.iou => *known = found,
                Some(_) => {}
                None => worst.push(found),
            }
        }
    }
    Ok(worst)
}

/// J and F by the official rules over the annotated frames that were run; `None` where none counts.
pub(super) fn score(truth: &ObjectTruth, masks: &MaskFile) -> Result<Option<Quality>> {
    let mut scorer = Scorer::new(MetricsKind::Official);
    for entry in masks.frames.iter().filter(|entry| truth.masks.contains_key(&entry.frame)) {
        let mask = entry.decode().with_context(|| format!("object {}", truth.name))?;
        let annotated = truth.mask(entry.frame, (mask.width(), mask.height()));
        if let Err(error) = &annotated {
            log::warn!("{error}; not scored");
        }
        scorer.push(annotated.as_ref().ok(), Some(&mask));
    }
    Ok(scorer.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::runs::MaskFrame;
    use vos::record::{FrameTimes, ObjectKey};
    use vos::rle::Rle;

    fn square(side: usize) -> Mask {
        Mask::from_fn(40, 30, |x, y| x < side && y < side)
    }

    fn file(masks: &[Mask]) -> MaskFile {
        let entry =
            |(frame, mask): (usize, &Mask)| MaskFrame { frame, mask: Rle::compressed(mask) };
        MaskFile { frames: masks.iter().enumerate().map(entry).collect() }
    }

    #[test]
    fn empty_masks_agree_and_prove_nothing() {
        let empty = compare(0, 1, &square(0), &square(0)).unwrap();
        assert_eq!((empty.iou, empty.both_empty, empty.counts), (1.0, true, false));
        let small = compare(0, 1, &square(9), &square(9)).unwrap();
        assert_eq!((small.iou, small.counts), (1.0, false));
        assert!(compare(0, 1, &square(10), &square(0)).unwrap().counts);
        let full = Mask::from_fn(40, 30, |_, _| true);
        assert!(!compare(0, 1, &full, &full).unwrap().counts);
        let lost = compare(0, 1, &square(10), &square(0)).unwrap();
        assert_eq!((lost.iou, lost.differing, lost.both_empty), (0.0, 100, false));
        assert!(
            compare(3, 1, &full, &Mask::new(2, 2)).unwrap_err().to_string().contains("frame 3")
        );
    }

    #[test]
    fn the_worst_round_of_each_frame_is_kept() {
        let reference = file(&[square(10), square(20)]);
        let rounds = [
            file(&[square(10), square(19)]),
            file(&[square(10), square(19)]),
            file(&[square(9), square(20)]),
        ];
        let found = worst_of_rounds(&reference, &rounds).unwrap();
        assert_eq!((found[0].iou, found[0].round), (0.81, 3));
        assert_eq!((found[1].iou, found[1].round), (361.0 / 400.0, 1));
    }

    #[test]
    fn masks_must_be_those_of_the_frames_that_were_run() {
        let pass = |frames: &[usize]| PassRecord {
            key: ObjectKey { video: "v".into(), object: "1".into(), tag: "m".into() },
            run: 0,
            observed: None,
            frames: frames
                .iter()
                .map(|&frame| FrameTimes { frame, ..FrameTimes::default() })
                .collect(),
            decisions: crate::compare::runs::Decisions::default(),
            findings: Vec::new(),
            stages_apart: false,
        };
        let masks = file(&[square(3), square(3)]);
        assert!(complete(&masks, &pass(&[0, 1])).is_ok());
        assert!(complete(&masks, &pass(&[0, 1, 0, 1])).is_ok(), "the clip came twice");
        for frames in [&[0, 1, 2][..], &[0], &[1, 2], &[]] {
            assert!(complete(&masks, &pass(frames)).is_err(), "{frames:?}");
        }
        assert!(complete(&MaskFile { frames: vec![] }, &pass(&[0])).is_err());
    }
}
