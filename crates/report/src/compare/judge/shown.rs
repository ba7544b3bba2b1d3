/*!
Frames that a report shows of a side: the prompted one, and those with the best, the median and the
lowest IoU.
*/

use serde::{Deserialize, Serialize};

use super::agreement::FrameAgreement;
use super::evidence::ObjectEvidence;

/// Why a frame is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shown {
    /// The prompted frame of the object with the worst frame.
    Prompt,
    /// The highest IoU.
    Best,
    /// The median IoU.
    Median,
    /// The lowest IoU.
    #[default]
    Worst,
}

impl Shown {
    /// The word on pages and in file names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Best => "best",
            Self::Median => "median",
            Self::Worst => "worst",
        }
    }
}

/// One frame with its small picture: the reference's mask and the side's mask next to each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShownFrame {
    /// Why it is shown.
    pub kind: Shown,
    /// Clip.
    pub video: String,
    /// Object.
    pub object: String,
    /// Frame index in the clip.
    pub frame: usize,
    /// The round whose mask is shown, from 1.
    pub round: usize,
    /// Its IoU.
    pub iou: f64,
    /// The picture, relative to the output folder; none if it could not be drawn.
    pub picture: Option<String>,
}

/// The frames to show; empty without a frame. Frames whose reference mask proves nothing are only
/// chosen if there is no other.
pub(super) fn choose(objects: &[ObjectEvidence]) -> Vec<ShownFrame> {
    let every = || objects.iter().flat_map(|object| object.frames.iter().map(move |f| (object, f)));
    let mut frames: Vec<(&ObjectEvidence, &FrameAgreement)> =
        every().filter(|(_, frame)| frame.counts).collect();
    if frames.is_empty() {
        frames = every().collect();
    }
    // The sort is stable, so of equal frames the first one of the first clip is taken.
    frames.sort_by(|a, b| a.1.iou.total_cmp(&b.1.iou).then(b.1.differing.cmp(&a.1.differing)));
    let (Some(worst), Some(best)) = (frames.first(), frames.last()) else { return Vec::new() };
    let best = frames.iter().find(|frame| frame.1.iou == best.1.iou).unwrap_or(best);
    let median = &frames[(frames.len() - 1) / 2];
    let prompt = worst.0.frames.first().map(|frame| (worst.0, frame));
    let shown = |kind: Shown, (object, frame): (&ObjectEvidence, &FrameAgreement)| ShownFrame {
        kind,
        video: object.key.video.clone(),
        object: object.key.object.clone(),
        frame: frame.frame,
        round: frame.round,
        iou: frame.iou,
        picture: None,
    };
    let rest = [(Shown::Best, *best), (Shown::Median, *median), (Shown::Worst, *worst)];
    let all = prompt.map(|frame| (Shown::Prompt, frame)).into_iter().chain(rest);
    all.map(|(kind, frame)| shown(kind, frame)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::record::ObjectKey;

    fn object(name: &str, frames: &[(f64, bool)]) -> ObjectEvidence {
        let frame = |(at, &(iou, counts)): (usize, &(f64, bool))| FrameAgreement {
            frame: 10 + at,
            iou,
            differing: 1,
            both_empty: !counts,
            counts,
            round: 1,
        };
        ObjectEvidence {
            key: ObjectKey { video: "v".into(), object: name.into(), tag: "m".into() },
            frames: frames.iter().enumerate().map(frame).collect(),
            quality: None,
            reference: None,
            rounds_identical: true,
        }
    }

    #[test]
    fn prompt_best_median_and_worst_are_chosen_among_frames_that_prove_something() {
        let a = object("a", &[(0.9, true), (0.8, true), (0.95, true)]);
        let b = object("b", &[(1.0, false), (0.7, true), (0.85, true)]);
        let found = choose(&[a, b]);
        let told: Vec<(&str, &str, usize)> =
            found.iter().map(|f| (f.kind.as_str(), f.object.as_str(), f.frame)).collect();
        assert_eq!(
            told,
            [("prompt", "b", 10), ("best", "a", 12), ("median", "b", 12), ("worst", "b", 11)]
        );
        assert_eq!(choose(&[object("c", &[(1.0, false)])]).len(), 4, "one frame is all of them");
        assert!(choose(&[]).is_empty());
    }
}
