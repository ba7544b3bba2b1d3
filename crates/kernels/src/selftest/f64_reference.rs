/*!
Arithmetic of the references in float64.
*/

/// Sums that do not wait for each other.
const LANES: usize = 8;

/// The sum of products of as many elements as both have.
///
/// Here most of a reference's time goes by. Few iterators: each step of one is a call where the
/// compiler does not optimise, as for tests.
pub(crate) fn dot<B: Copy + Into<f64>>(a: &[f64], b: &[B]) -> f64 {
    let length = a.len().min(b.len());
    let (a, rest_a) = a[..length].as_chunks::<LANES>();
    let (b, rest_b) = b[..length].as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        let mut lane = 0;
        while lane < LANES {
            sums[lane] += a[lane] * b[lane].into();
            lane += 1;
        }
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(a, b)| a * (*b).into()).sum();
    sums.iter().sum::<f64>() + rest
}

/// Adds a row with its weight.
pub(crate) fn add<B: Copy + Into<f64>>(sums: &mut [f64], weight: f64, row: &[B]) {
    let (row, rest) = row[..sums.len()].as_chunks::<LANES>();
    let (sums, rest_sums) = sums.as_chunks_mut::<LANES>();
    for (sums, row) in sums.iter_mut().zip(row) {
        let mut lane = 0;
        while lane < LANES {
            sums[lane] += weight * row[lane].into();
            lane += 1;
        }
    }
    rest_sums.iter_mut().zip(rest).for_each(|(sum, value)| *sum += weight * (*value).into());
}

/// LayerNorm of a row.
pub(crate) fn layer_norm(x: &[f64], weight: &[f32], bias: &[f32], epsilon: f64) -> Vec<f64> {
    let count = x.len() as f64;
    let mean = x.iter().sum::<f64>() / count;
    let spread = x.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    let by = (spread + epsilon).sqrt().recip();
    let scaled = weight.iter().zip(bias).map(|(w, b)| (f64::from(*w) * by, f64::from(*b)));
    x.iter().zip(scaled).map(|(value, (w, b))| (value - mean) * w + b).collect()
}

/// The error function, by its series near zero and its continued fraction far from it; to about
/// 10⁻¹⁵ of 1 + erf.
fn one_and_erf(x: f64) -> f64 {
    if x.abs() < 2.5 {
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term.abs() > 1e-18 {
            n += 1.0;
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return 1.0 + sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    let far = x.abs();
    // erfc(x) = e^(-x²) / √π / (x + ½ / (x + 1 / (x + 3/2 / …
    let below = (1..60).rev().fold(far, |below, n| far + f64::from(n) / 2.0 / below);
    let rest = (-far * far).exp() / below * std::f64::consts::FRAC_2_SQRT_PI / 2.0;
    if x < 0.0 { rest } else { 2.0 - rest }
}

/// The activation GELU.
pub(crate) fn gelu(x: f64) -> f64 {
    0.5 * x * one_and_erf(x * std::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gelu_is_of_the_error_function() {
        // From tables, both branches and both sides.
        for (x, wanted) in [
            (0.0, 1.0),
            (0.5, 1.520_499_877_813_046_5),
            (-1.0, 0.157_299_207_050_285_13),
            (-3.0, 2.209_049_699_858_544e-5),
            (3.0, 1.999_977_909_503_001_4),
            (-4.0, 1.541_725_790_028_002e-8),
        ] {
            let found = one_and_erf(x);
            assert!((found / wanted - 1.0).abs() < 1e-11, "{x}: {found:e}, not {wanted:e}");
        }
        assert!(gelu(60_000.0) == 60_000.0 && gelu(-60_000.0) == 0.0);
    }

    #[test]
    fn all_elements_count_and_none_beyond_the_shorter() {
        for length in [0, 1, 7, 8, 9, 31] {
            let a: Vec<f64> = (0..length).map(|at| at as f64 + 1.0).collect();
            let b: Vec<f32> = (0..length + 3).map(|at| 2.0 * at as f32).collect();
            let wanted: f64 = (0..length).map(|at| (at as f64 + 1.0) * 2.0 * at as f64).sum();
            assert_eq!(dot(&a, &b), wanted, "{length}");
            let mut sums = a.clone();
            add(&mut sums, 0.5, &b);
            let each = (0..length).map(|at| at as f64 + 1.0 + at as f64);
            assert_eq!(sums, each.collect::<Vec<f64>>(), "{length}");
        }
    }
}
