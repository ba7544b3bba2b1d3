/*!
The result of a comparison: the layout of `comparison.json`, and the input of the tables.
*/

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::bootstrap::Interval;
use super::equality::{DriftCurve, Equality};
use super::flips::Flips;
use super::original::AsOriginal;
use super::speed::Speed;
use vos::record::Verdict;

/// The whole result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Comparison {
    /// Name of this layout.
    pub format: String,
    /// Version of segtrt that judged.
    pub segtrt: String,
    /// UTC dates of the measurements.
    pub measured_on: Vec<String>,
    /// The command line of the comparison.
    pub command: String,
    /// The split with ground truth and frames.
    pub split_dir: String,
    /// The side with which the others are compared.
    pub subject: String,
    /// The run with which all masks are compared.
    pub reference: String,
    /// The sides were measured in turn, as far as known.
    pub interleaved: bool,
    /// Every limit in force.
    pub thresholds: Value,
    /// Model by model.
    pub models: Vec<ModelComparison>,
    /// IoU against frames since the prompt.
    #[serde(skip_deserializing)]
    pub drift_curves: Vec<DriftCurve>,
    /// Machine, libraries and timed region of each side.
    pub sides: BTreeMap<String, SideFacts>,
}

/// Facts that do not depend on the model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SideFacts {
    /// Machine and libraries of its first round.
    pub environment: Map<String, Value>,
    /// Its settings.
    pub configuration: Map<String, Value>,
    /// What lies inside the timed region, in words.
    pub timed_region: String,
}

/// One model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelComparison {
    /// Model tag.
    pub model: String,
    /// Side of the network input, pixels.
    pub imgsz: String,
    /// Clips.
    pub clips: usize,
    /// Objects in them.
    pub objects: usize,
    /// Source of the weights, if known.
    pub weights: Option<String>,
    /// Reports of the sides, in order.
    pub sides: Vec<SideReport>,
    /// The subject against each other side.
    pub ratios: Vec<Ratio>,
}

/// Result of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The reference itself.
    Reference,
    /// Its masks equal the reference's.
    Same,
    /// Its masks equal those of the original code at the same precision, but not the reference's.
    AsOriginal,
    /// Its masks differ.
    Mismatch,
    /// The masks prove nothing.
    ProvesNothing,
    /// Its work differed, so nothing is compared.
    Refused,
    /// It could not be measured.
    #[default]
    NotAvailable,
}

impl Outcome {
    /// The word in tables.
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SideReport {
    /// The side.
    pub side: String,
    /// Result of the comparison.
    pub outcome: Outcome,
    /// The reason, if its masks are not proven.
    pub why: Option<String>,
    /// Precision of the row.
    pub precision: String,
    /// What ran the network.
    pub backend: String,
    /// Device of the rows.
    pub device: String,
    /// Number of rounds.
    pub rounds: usize,
    /// The number of rounds, the expected number and the reason for the difference; none if no
    /// round is missing.
    pub stopped_early: Option<String>,
    /// Its run folders.
    pub folders: Vec<String>,
    /// Its speed; only with proven masks.
    pub speed: Option<Speed>,
    /// The measured speed of a side without proven masks.
    pub withheld: Option<Withheld<Speed>>,
    /// The masks against the reference's.
    pub equality: Option<Equality>,
    /// The masks against the original code's at the same precision; none without such a side, or if
    /// all sides of that precision have the reference's masks.
    pub as_original: Option<AsOriginal>,
    /// The masks of its teacher-forced run against the reference's; none without such a run.
    pub teacher_forced: Option<TeacherForced>,
    /// Frames with another objectness than the reference.
    pub objectness_flips: Option<Flips>,
    /// Frames on which it selected another candidate mask than the reference.
    pub chosen_mask_flips: Option<Flips>,
    /// Validity of its speed.
    pub verdict: Verdict,
}

/// A run with the reference's logits in its memories: it shows the error of a side's arithmetic
/// without feedback. It proves nothing and has no speed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TeacherForced {
    /// Its folder.
    pub folder: Option<String>,
    /// Frames compared, all objects.
    pub frames: usize,
    /// Mean IoU over them.
    pub mean_iou: Option<f64>,
    /// Lowest IoU of any.
    pub min_iou: Option<f64>,
    /// Why it is missing, if it was requested.
    pub why: Option<String>,
}

/// A number without a proof.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Withheld<T> {
    /// Why it is not shown.
    pub why: String,
    /// The number.
    pub not_to_be_published: T,
}

/// Speed of the subject over the speed of another side.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ratio {
    /// The side in the numerator.
    pub subject: String,
    /// The side in the denominator.
    pub baseline: String,
    /// FPS over FPS with the interval; only if both sides are proven.
    pub times_as_fast: Option<Factor>,
    /// The ratio of a pair without proof.
    pub withheld: Option<Withheld<Factor>>,
    /// A lower bound for disturbed passes, if nothing else speaks against the ratio: the subject's
    /// slowest pass over each object against the least time of each frame in any of the baseline's
    /// passes.
    pub at_least: Option<f64>,
    /// Why there is no ratio.
    pub why: Option<String>,
    /// The ratio as a sentence.
    pub sentence: String,
    /// Validity of the ratio.
    pub verdict: Verdict,
}

/// A ratio of speeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Factor {
    /// FPS over FPS, all rounds.
    pub ratio: f64,
    /// The interval; none for one round of one clip.
    pub interval: Option<Interval>,
}

impl Factor {
    /// `4.2 ± 0.1`: the ± is the distance to the farther end of the interval, rounded up to one
    /// digit, and the ratio has the same digits.
    pub fn text(&self) -> String {
        let Some(Interval { low, high }) = self.interval else {
            return format!("{:.2}", self.ratio);
        };
        let half = (high - self.ratio).max(self.ratio - low);
        // Between a thousandth and one: finer digits are noise of the clock, coarser ones are not
        // needed.
        let digits = if half > 0.0 { (-half.log10().floor()).clamp(0.0, 3.0) } else { 3.0 };
        let unit = 10_f64.powf(-digits);
        let half = (half / unit - 1e-9).ceil().max(0.0) * unit;
        // Half the width may be a negative zero.
        format!("{:.2$} ± {:.2$}", self.ratio, half.abs(), digits as usize)
    }
}

impl Comparison {
    /// Whether every side of every model is proven and complete.
    pub fn is_sound(&self) -> bool {
        let mut sides = self.models.iter().flat_map(|model| &model.sides);
        sides.all(|side| side.outcome.is_proven() && side.stopped_early.is_none())
    }

    /// A line for each side with missing rounds.
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
