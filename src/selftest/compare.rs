/*!
Differences of an output and its reference, in float64.
*/

use serde::{Deserialize, Serialize};

/// An output against its reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// ‖ours − reference‖ / ‖reference‖ (Euclidean norms); none where it is not a number.
    pub relative: Option<f64>,
    /// Greatest |ours − reference|; none where it is not a number.
    pub max_abs: Option<f64>,
}

/// Compares two outputs value by value; none where they are not of one size.
pub fn difference(ours: &[f32], reference: &[f32]) -> Option<Difference> {
    if ours.len() != reference.len() {
        return None;
    }
    let (mut apart, mut size, mut greatest) = (0.0_f64, 0.0_f64, 0.0_f64);
    for (a, b) in ours.iter().zip(reference) {
        let (a, b) = (f64::from(*a), f64::from(*b));
        let d = (a - b).abs();
        apart += d * d;
        size += b * b;
        // `max` would pass over a NaN.
        greatest = if d > greatest || d.is_nan() { d } else { greatest };
        if greatest.is_nan() {
            return Some(Difference { relative: None, max_abs: None });
        }
    }
    let relative = match (apart, size) {
        (0.0, _) => 0.0,
        _ => (apart / size).sqrt(),
    };
    let number = |v: f64| v.is_finite().then_some(v);
    Some(Difference { relative: number(relative), max_abs: number(greatest) })
}

/// Intersection over union of the masks that two logit maps mean (positive: object); 1 where both
/// are empty.
pub fn mask_iou(ours: &[f32], reference: &[f32]) -> f64 {
    let (mut both, mut either) = (0_usize, 0_usize);
    for (a, b) in ours.iter().zip(reference) {
        let (a, b) = (*a > 0.0, *b > 0.0);
        both += usize::from(a && b);
        either += usize::from(a || b);
    }
    if either == 0 { 1.0 } else { both as f64 / either as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(ours: &[f32], reference: &[f32]) -> (Option<f64>, Option<f64>) {
        let d = difference(ours, reference).unwrap();
        (d.relative, d.max_abs)
    }

    #[test]
    fn errors_are_relative_to_the_references_norm() {
        assert_eq!(numbers(&[3.0, 4.0], &[3.0, 4.0]), (Some(0.0), Some(0.0)));
        assert_eq!(numbers(&[3.0, 5.0], &[3.0, 4.0]), (Some(0.2), Some(1.0)));
        assert_eq!(numbers(&[0.0, 0.0], &[3.0, 4.0]), (Some(1.0), Some(4.0)));
        assert_eq!(numbers(&[0.0], &[0.0]), (Some(0.0), Some(0.0)));
        assert_eq!(difference(&[1.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn small_values_are_squared_in_double_precision() {
        // In single precision the squares of these would be 0.
        let (relative, _) = numbers(&[1.5e-30], &[1e-30]);
        assert!((relative.unwrap() - 0.5).abs() < 1e-6, "{relative:?}");
    }

    #[test]
    fn what_is_no_number_has_no_error() {
        assert_eq!(numbers(&[f32::NAN, 1.0], &[1.0, 1.0]), (None, None));
        assert_eq!(numbers(&[1.0, f32::INFINITY], &[1.0, 1.0]), (None, None));
        // Nothing can be relative to nothing.
        assert_eq!(numbers(&[1.0], &[0.0]), (None, Some(1.0)));
    }

    #[test]
    fn masks_agree_by_intersection_over_union() {
        assert_eq!(mask_iou(&[1.0, 2.0, -1.0, -5.0], &[9.0, -1.0, 3.0, -1.0]), 1.0 / 3.0);
        assert_eq!(mask_iou(&[-1.0], &[0.0]), 1.0);
        assert_eq!(mask_iou(&[f32::NAN], &[1.0]), 0.0);
    }
}
