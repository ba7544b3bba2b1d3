/*!
Every limit of a comparison. docs/reference/verdicts.md has the same tables, and a test checks that.
*/

/// Limits for equal masks: the distance from the fp32 reference, by precision.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct EqualityLimits {
    /// `fp32`, `fp16` or `bf16`.
    pub precision: &'static str,
    /// Lowest IoU of any frame.
    pub min_iou: f64,
    /// Lowest mean IoU over all frames.
    pub mean_iou: f64,
    /// Largest difference of J&F, points of 100.
    pub jf_points: f64,
}

/// The limits in force. fp32 differs between libraries only by the order of sums. bf16 has three
/// bits less than fp16, so it is allowed eight times fp16's error.
pub const EQUALITY: [EqualityLimits; 3] = [
    EqualityLimits { precision: "fp32", min_iou: 0.998, mean_iou: 0.9999, jf_points: 0.05 },
    EqualityLimits { precision: "fp16", min_iou: 0.99, mean_iou: 0.998, jf_points: 0.1 },
    EqualityLimits { precision: "bf16", min_iou: 0.92, mean_iou: 0.984, jf_points: 0.8 },
];

/// The limits of a precision; none for an unknown one. Mixed engines store f16, and TF32 matmuls
/// have fp16's eleven bits: both have fp16's limits.
pub fn equality_of(precision: &str) -> Option<&'static EqualityLimits> {
    let precision = if matches!(precision, "mixed" | "tf32") { "fp16" } else { precision };
    EQUALITY.iter().find(|limits| limits.precision == precision)
}

/// When equal masks prove something: two empty masks are equal, and so are two that cover the whole
/// frame.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct ProofLimits {
    /// Least pixels of a reference mask that counts.
    pub least_pixels: usize,
    /// Largest part of the frame that a mask that counts may cover.
    pub most_cover: f64,
    /// Least part of all frames whose reference masks count.
    pub least_share: f64,
}

/// The limits in force.
pub const PROOF: ProofLimits =
    ProofLimits { least_pixels: 100, most_cover: 0.95, least_share: 0.1 };

/// When a ratio of speeds is valid, besides the rules for each pass ([`vos::verdict::THRESHOLDS`]).
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct SpeedLimits {
    /// Least rounds of each side.
    pub rounds: usize,
    /// Standard deviation of the rounds' FPS over their mean.
    pub round_spread: f64,
    /// Largest part of a side's passes that may be unsteady or drift. The interval includes few
    /// disturbances; many are a property of the side or the machine.
    pub disturbed: f64,
    /// Frames that must lie beyond a percentile.
    pub frames_beyond: usize,
    /// Difference of the sides' mean SM clocks over the higher one.
    pub clock_gap: f64,
    /// Half the width of the interval over the ratio.
    pub interval: f64,
}

/// The limits in force.
pub const SPEED: SpeedLimits = SpeedLimits {
    rounds: 3,
    round_spread: 0.05,
    disturbed: 0.25,
    frames_beyond: 5,
    clock_gap: 0.05,
    interval: 0.10,
};

/// Bootstrap replicates.
pub const REPLICATES: usize = 10_000;

/// Part of the replicates inside the interval.
pub const CONFIDENCE: f64 = 0.95;

/// Seed of the bootstrap: the same folders give the same interval on every machine.
pub const SEED: i64 = 5;

/// Flips that are listed singly; further ones are only counted.
pub const LISTED_FLIPS: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_shows_the_limits_in_force() {
        let text = include_str!("../../../../docs/reference/verdicts.md");
        for limits in EQUALITY {
            let EqualityLimits { precision, min_iou, mean_iou, jf_points } = limits;
            let row = format!("| {precision} | {min_iou} | {mean_iou} | {jf_points} |");
            assert!(text.contains(&row), "docs/reference/verdicts.md lacks {row}");
        }
        let percent = |part: f64| format!("{:.0} %", 100.0 * part);
        for (code, limit) in [
            ("proves_nothing", format!("{} pixels", PROOF.least_pixels)),
            ("proves_nothing", percent(PROOF.most_cover)),
            ("proves_nothing", percent(PROOF.least_share)),
            ("few_rounds", format!("{} rounds", SPEED.rounds)),
            ("rounds_differ", percent(SPEED.round_spread)),
            ("unsteady`, `drift", percent(SPEED.disturbed)),
            ("tail_of_few", format!("{} frames", SPEED.frames_beyond)),
            ("clocks_apart", percent(SPEED.clock_gap)),
            ("wide_interval", percent(SPEED.interval)),
        ] {
            let row = text.lines().find(|line| line.starts_with(&format!("| `{code}`")));
            let row = row.unwrap_or_else(|| panic!("docs/reference/verdicts.md has no row {code}"));
            assert!(row.contains(&limit), "{row} lacks {limit}");
        }
        assert!(text.contains(&format!("{REPLICATES} replicates")));
    }

    #[test]
    fn each_precision_is_stricter_than_the_next() {
        for pair in EQUALITY.windows(2) {
            assert!(pair[0].min_iou > pair[1].min_iou && pair[0].mean_iou > pair[1].mean_iou);
            assert!(pair[0].jf_points < pair[1].jf_points);
        }
        assert_eq!(equality_of("fp16").unwrap().min_iou, 0.99);
        assert_eq!(equality_of("mixed"), equality_of("fp16"));
        assert_eq!(equality_of("tf32"), equality_of("fp16"));
        assert_eq!(equality_of("int8"), None);
    }
}
