/*!
What a comparison found: the shape of `comparison.json`, which tables are made from too.
*/

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::bootstrap::Interval;
use super::equality::{DriftCurve, Equality};
use super::flips::Flips;
use super::original::AsOriginal;
use super::speed::Speed;
use vos::record::Verdict;

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Name of this layout.
    pub format: &'static str,
    /// Release that judged.
    pub segtrt: &'static str,
    /// UTC days on which was measured.
    pub measured_on: Vec<String>,
    /// How the comparison was called.
    pub command: String,
    /// The split that ground truth and frames come from.
    pub split_dir: String,
    /// The side that the others are compared with.
    pub subject: String,
    /// What masks are compared with.
    pub reference: String,
    /// The sides are known to have been measured in turn.
    pub interleaved: bool,
    /// Every limit in force.
    pub thresholds: Value,
    /// Model by model.
    pub models: Vec<ModelComparison>,
    /// IoU against frames since the prompt.
    pub drift_curves: Vec<DriftCurve>,
    /// Machine, libraries and timed region of each side.
    pub sides: BTreeMap<String, SideFacts>,
}

/// What does not depend on the model.
#[derive(Clone, Debug, Serialize)]
pub struct SideFacts {
    /// Machine and libraries of its first round.
    pub environment: Map<String, Value>,
    /// Its settings.
    pub configuration: Map<String, Value>,
    /// What lies inside the timed region, in words.
    pub timed_region: String,
}

/// One model.
#[derive(Clone, Debug, Serialize)]
pub struct ModelComparison {
    /// Model tag.
    pub model: String,
    /// Side of the network input, pixels.
    pub imgsz: String,
    /// Clips.
    pub clips: usize,
    /// Objects in them.
    pub objects: usize,
    /// Whose weights, as far as told.
    pub weights: Option<String>,
    /// Side by side.
    pub sides: Vec<SideReport>,
    /// The subject against each other side.
    pub ratios: Vec<Ratio>,
}

/// How it went with a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The masks of this side are what the others are compared with.
    Reference,
    /// It computed the same thing as the reference.
    Same,
    /// Not the reference, but the original code at the same precision, which is beside the
    /// reference itself.
    AsOriginal,
    /// It did not.
    Mismatch,
    /// The masks prove nothing.
    ProvesNothing,
    /// It was given other work, so that nothing is compared.
    Refused,
    /// It could not be measured.
    NotAvailable,
}

impl Outcome {
    /// The word of the tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Same => "same",
            Self::AsOriginal => "as eager",
            Self::Mismatch => "MISMATCH",
            Self::ProvesNothing => "NO PROOF",
            Self::Refused => "REFUSED",
            Self::NotAvailable => "not available",
        }
    }

    /// Whether its speed may be shown.
    pub fn is_proven(self) -> bool {
        matches!(self, Self::Reference | Self::Same | Self::AsOriginal)
    }
}

/// One side on one model.
#[derive(Clone, Debug, Serialize)]
pub struct SideReport {
    /// The side.
    pub side: String,
    /// How it went.
    pub outcome: Outcome,
    /// Why, where it went badly.
    pub why: Option<String>,
    /// Precision of the row.
    pub precision: String,
    /// What ran the network.
    pub backend: String,
    /// On what.
    pub device: String,
    /// Rounds.
    pub rounds: usize,
    /// How many of how many these are and why there are no more; none where none is missing.
    pub stopped_early: Option<String>,
    /// Their folders.
    pub folders: Vec<String>,
    /// Its speed; only beside a proven equality.
    pub speed: Option<Speed>,
    /// What was measured and is not to be published.
    pub withheld: Option<Withheld<Speed>>,
    /// The masks against the reference's.
    pub equality: Option<Equality>,
    /// The masks against the original code's at the same precision; none where nothing of that
    /// precision ran it, and where all of that precision are the reference's.
    pub as_original: Option<AsOriginal>,
    /// The masks of its teacher-forced run against the reference's; none where there was none.
    pub teacher_forced: Option<TeacherForced>,
    /// Objectness that turned over.
    pub objectness_flips: Option<Flips>,
    /// Choices of a mask that turned over.
    pub chosen_mask_flips: Option<Flips>,
    /// Whether its speed may be believed.
    pub verdict: Verdict,
}

/// A run with the reference's logits in its memories: what a side's arithmetic alone does to its
/// masks. It proves nothing and has no speed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TeacherForced {
    /// Its folder.
    pub folder: Option<String>,
    /// Frames compared, all objects.
    pub frames: usize,
    /// Mean IoU over them.
    pub mean_iou: Option<f64>,
    /// Lowest IoU of any.
    pub min_iou: Option<f64>,
    /// Why there is none, where it was asked for.
    pub why: Option<String>,
}

/// A number that stands beside no proof.
#[derive(Clone, Debug, Serialize)]
pub struct Withheld<T> {
    /// Why it is not shown.
    pub why: String,
    /// The number.
    pub not_to_be_published: T,
}

/// How many times as fast as another side the subject is.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// The faster or slower one.
    pub subject: String,
    /// What it is compared with.
    pub baseline: String,
    /// FPS over FPS, with the interval; only where both sides are proven.
    pub times_as_fast: Option<Factor>,
    /// What was measured and is not to be published.
    pub withheld: Option<Withheld<Factor>>,
    /// What holds where passes were disturbed, many or few, and nothing else speaks against the
    /// ratio: the subject's slowest pass over each object beside the least time that each frame
    /// took in any of the baseline's passes.
    pub at_least: Option<f64>,
    /// Why there is no ratio.
    pub why: Option<String>,
    /// In words.
    pub sentence: String,
    /// Whether it may be believed.
    pub verdict: Verdict,
}

/// A ratio of speeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Factor {
    /// FPS over FPS, all rounds.
    pub ratio: f64,
    /// The interval; none of one round of one clip.
    pub interval: Option<Interval>,
}

impl Factor {
    /// `4.2 ± 0.1`: the ± is the farther end of the interval, rounded up to one digit, and the
    /// ratio has its digits.
    pub fn text(&self) -> String {
        let Some(Interval { low, high }) = self.interval else {
            return format!("{:.2}", self.ratio);
        };
        let half = (high - self.ratio).max(self.ratio - low);
        // Between a thousandth and one: finer is noise of the clock, coarser needs no digits.
        let digits = if half > 0.0 { (-half.log10().floor()).clamp(0.0, 3.0) } else { 3.0 };
        let unit = 10_f64.powf(-digits);
        let half = (half / unit - 1e-9).ceil().max(0.0) * unit;
        // A half of nothing may come out as a negative zero.
        format!("{:.2$} ± {:.2$}", self.ratio, half.abs(), digits as usize)
    }
}

impl Comparison {
    /// Whether every side of every model is proven, and has all rounds that it was to have.
    pub fn is_sound(&self) -> bool {
        let mut sides = self.models.iter().flat_map(|model| &model.sides);
        sides.all(|side| side.outcome.is_proven() && side.stopped_early.is_none())
    }

    /// A line for each side that has fewer rounds than it was to have.
    pub fn stopped_early(&self) -> Vec<String> {
        let sides = self
            .models
            .iter()
            .flat_map(|model| model.sides.iter().map(|side| (&model.model, side)));
        let line = |(model, side): (&String, &SideReport)| {
            Some(format!("{model} {}: {}", side.side, side.stopped_early.as_ref()?))
        };
        sides.filter_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_as_many_digits_as_its_interval_allows() {
        let text =
            |ratio, low, high| Factor { ratio, interval: Some(Interval { low, high }) }.text();
        assert_eq!(text(4.2345, 4.17, 4.31), "4.23 ± 0.08");
        assert_eq!(text(4.2345, 4.0, 4.31), "4.2 ± 0.3");
        assert_eq!(text(4.2, 4.1, 4.3), "4.2 ± 0.1");
        assert_eq!(text(12.34, 9.0, 14.0), "12 ± 4");
        assert_eq!(text(4.0, 4.0, 4.0), "4.000 ± 0.000");
        assert_eq!(text(4.0, 3.99999, 4.0), "4.000 ± 0.001");
        assert_eq!(Factor { ratio: 1.5, interval: None }.text(), "1.50");
    }
}
