/*!
What references in float64 have in common.
*/

/// Sums that do not wait for each other.
const LANES: usize = 8;

/// The sum of products of as many elements as both have.
///
/// Here most of a reference's time goes by. Few iterators: each step of one is a call where the compiler does not optimise, as for tests.
pub(super) fn dot<B: Copy + Into<f64>>(a: &[f64], b: &[B]) -> f64 {
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
pub(super) fn add<B: Copy + Into<f64>>(sums: &mut [f64], weight: f64, row: &[B]) {
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

/// A row less its mean, over its deviation, times `weight` plus `bias`.
pub(super) fn normalized(x: &[f64], weight: &[f32], bias: &[f32], epsilon: f64) -> Vec<f64> {
    let count = x.len() as f64;
    let mean = x.iter().sum::<f64>() / count;
    let spread = x.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    let by = (spread + epsilon).sqrt().recip();
    let scaled = weight.iter().zip(bias).map(|(w, b)| (f64::from(*w) * by, f64::from(*b)));
    x.iter().zip(scaled).map(|(value, (w, b))| (value - mean) * w + b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
