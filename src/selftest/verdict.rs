/*!
Whether an output is good enough, and why not.

| precision | relative error up to | why |
|---|---|---|
| fp32 | 1e-3 | TF32 is off: only the order of sums differs, 24 bits over up to 30 000 keys and some 50 layers |
| fp16 | 2e-2 | 11 bits: the fp16 bundles of EdgeTAM and SAM 2.1 tiny, run by ONNX Runtime, are off by 1.3e-3 at most, but for `iou` (5e-3); TensorRT may round more often |
| best | 2e-2 | layer by layer fp16 or TF32, which has 11 bits too |
| bf16 | 2e-2 | a starting point: 8 bits, eight times fp16's error; `--max-error` where a board shows more |

`iou`, `ious` and `score` are single numbers, qualities and a logit, all of order 1: near 0 a
relative error of one number says nothing, so there the absolute error counts where it is the
smaller. Mask agreement of `low` is reported and does not decide: the logits' own error bounds it,
and where most logits are near 0 few pixels decide it.
*/

use serde::{Deserialize, Serialize};

use super::compare::{Difference, difference, mask_iou};
use super::tensor::Readback;
use vos::precision::Precision;

/// Outputs that are one number an object, or one a candidate mask.
const SINGLE_NUMBERS: [&str; 3] = ["iou", "ious", "score"];

/// The output whose sign is a mask.
const LOGITS: &str = "low";

/// Greatest relative error that an engine of this precision may show; the table above.
pub fn limit(precision: Precision) -> f64 {
    match precision {
        Precision::Fp32 => 1e-3,
        Precision::Fp16 | Precision::Mixed | Precision::Bf16 | Precision::Best => 2e-2,
    }
}

/// How an output, or a whole case, came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It agrees with the reference.
    Passed,
    /// It is a number, and there was nothing to compare it with.
    Ran,
    /// It does not agree, is no number, or never came.
    Failed,
}

impl Verdict {
    /// The word in tables and files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Ran => "ran",
            Self::Failed => "failed",
        }
    }
}

/// One output, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Its name.
    pub output: String,
    /// How many values it has.
    pub elements: usize,
    /// How far it is from the reference; none without one.
    pub difference: Option<Difference>,
    /// The relative error that it may show.
    pub limit: f64,
    /// Agreement of the masks, for logits with a reference.
    pub mask_iou: Option<f64>,
    /// Values that are written, but infinite or no numbers.
    pub non_finite: usize,
    /// Values that the engine never wrote.
    pub unwritten: usize,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it failed.
    pub reason: Option<String>,
}

/// Judges an output. `replayed` is the same output of a CUDA graph, which must not differ from the
/// enqueued run's.
pub fn judge(
    name: &str,
    ours: &Readback,
    replayed: Option<&Readback>,
    reference: Option<&[f32]>,
    limit: f64,
) -> Judged {
    let compared = reference.and_then(|reference| difference(&ours.values, reference));
    let mut judged = Judged {
        output: name.to_owned(),
        elements: ours.values.len(),
        difference: compared,
        limit,
        mask_iou: reference.filter(|_| name == LOGITS).map(|r| mask_iou(&ours.values, r)),
        non_finite: non_finite(ours),
        unwritten: ours.unwritten,
        verdict: Verdict::Failed,
        reason: None,
    };
    judged.reason = incomplete(ours)
        .or_else(|| wrong(name, ours, reference, compared, limit))
        .or_else(|| replayed.and_then(|replayed| replay_differs(ours, replayed, limit)));
    judged.verdict = match (&judged.reason, reference) {
        (Some(_), _) => Verdict::Failed,
        (None, Some(_)) => Verdict::Passed,
        (None, None) => Verdict::Ran,
    };
    judged
}

fn non_finite(read: &Readback) -> usize {
    read.values.iter().filter(|v| !v.is_finite()).count() - read.unwritten
}

fn incomplete(read: &Readback) -> Option<String> {
    let all = read.values.len();
    if read.unwritten > 0 {
        return Some(format!("{} of {all} values were never written", read.unwritten));
    }
    match non_finite(read) {
        0 => None,
        bad => Some(format!("{bad} of {all} values are infinite or no numbers")),
    }
}

fn wrong(
    name: &str,
    ours: &Readback,
    reference: Option<&[f32]>,
    compared: Option<Difference>,
    limit: f64,
) -> Option<String> {
    let reference = reference?;
    let Some(Difference { relative, max_abs }) = compared else {
        let (found, expected) = (ours.values.len(), reference.len());
        return Some(format!("{found} values came, the reference has {expected}"));
    };
    let single = SINGLE_NUMBERS.contains(&name);
    // Of two errors the smaller; none is no number, which is worse than any.
    let error = match (relative, max_abs) {
        (Some(relative), Some(absolute)) if single => Some(relative.min(absolute)),
        (None, absolute) if single => absolute,
        (relative, _) => relative,
    };
    match error {
        Some(error) if error <= limit => None,
        Some(error) => Some(format!("error {error:.2e} is above {limit:.0e}")),
        None => {
            Some("the reference is all zeros or no numbers, and the engine's is not".to_owned())
        }
    }
}

fn replay_differs(ours: &Readback, replayed: &Readback, limit: f64) -> Option<String> {
    if let Some(why) = incomplete(replayed) {
        return Some(format!("replayed as a CUDA graph {why}"));
    }
    let apart = difference(&replayed.values, &ours.values)?.relative;
    match apart {
        Some(apart) if apart <= limit => None,
        _ => Some("replayed as a CUDA graph it gives other values".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[f32]) -> Readback {
        Readback { values: values.to_vec(), unwritten: 0 }
    }

    fn verdict(name: &str, ours: &Readback, reference: &[f32], limit: f64) -> Verdict {
        judge(name, ours, None, Some(reference), limit).verdict
    }

    #[test]
    fn errors_up_to_the_limit_pass() {
        let (good, bad) = (read(&[1.0, 1.01]), read(&[1.0, 1.1]));
        assert_eq!(verdict("ptr", &good, &[1.0, 1.0], 2e-2), Verdict::Passed);
        assert_eq!(verdict("ptr", &bad, &[1.0, 1.0], 2e-2), Verdict::Failed);
        let reason = judge("ptr", &bad, None, Some(&[1.0, 1.0]), 2e-2).reason;
        assert_eq!(reason.as_deref(), Some("error 7.07e-2 is above 2e-2"));
        assert_eq!(judge("ptr", &bad, None, None, 2e-2).verdict, Verdict::Ran);
        assert!(limit(Precision::Fp32) < limit(Precision::Fp16));
    }

    #[test]
    fn a_number_near_zero_is_judged_by_its_absolute_error() {
        assert_eq!(verdict("score", &read(&[0.011]), &[0.001], 2e-2), Verdict::Passed);
        assert_eq!(verdict("score", &read(&[0.0]), &[0.5], 2e-2), Verdict::Failed);
        assert_eq!(verdict("iou", &read(&[0.01]), &[0.0], 2e-2), Verdict::Passed);
        // A large logit is judged by its relative error.
        assert_eq!(verdict("score", &read(&[20.1]), &[20.0], 2e-2), Verdict::Passed);
        assert_eq!(verdict("ptr", &read(&[0.011]), &[0.001], 2e-2), Verdict::Failed);
    }

    #[test]
    fn nan_infinity_and_unwritten_values_fail_even_without_a_reference() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let judged = judge("low", &read(&[1.0, bad]), None, None, 2e-2);
            assert_eq!((judged.verdict, judged.non_finite), (Verdict::Failed, 1));
            assert_eq!(
                judge("low", &read(&[bad]), None, Some(&[bad]), 1e9).verdict,
                Verdict::Failed
            );
        }
        let holes = Readback { values: vec![1.0, f32::NAN], unwritten: 1 };
        let judged = judge("mem", &holes, None, Some(&[1.0, 1.0]), 2e-2);
        assert_eq!((judged.verdict, judged.non_finite, judged.unwritten), (Verdict::Failed, 0, 1));
        assert_eq!(judged.reason.as_deref(), Some("1 of 2 values were never written"));
    }

    #[test]
    fn a_graph_that_gives_other_values_fails() {
        let ours = read(&[1.0, 2.0]);
        let judged = |replayed: &Readback| {
            judge("ptr", &ours, Some(replayed), Some(&[1.0, 2.0]), 1e-3).verdict
        };
        assert_eq!(judged(&ours), Verdict::Passed);
        assert_eq!(judged(&read(&[2.0, 1.0])), Verdict::Failed);
        assert_eq!(
            judged(&Readback { values: vec![1.0, f32::NAN], unwritten: 1 }),
            Verdict::Failed
        );
    }

    #[test]
    fn another_size_is_a_failure_with_both_numbers() {
        let judged = judge("ptr", &read(&[1.0]), None, Some(&[1.0, 1.0]), 1.0);
        assert_eq!(judged.reason.as_deref(), Some("1 values came, the reference has 2"));
    }

    #[test]
    fn agreement_of_masks_is_reported_for_logits_only() {
        assert_eq!(judge("low", &read(&[1.0]), None, Some(&[1.0]), 1.0).mask_iou, Some(1.0));
        assert_eq!(judge("ptr", &read(&[1.0]), None, Some(&[1.0]), 1.0).mask_iou, None);
    }
}
