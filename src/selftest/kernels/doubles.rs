/*!
What references in float64 have in common.
*/

/// The sum of products. Not an iterator: each step of one is a call where the compiler does not optimise, as for tests.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (mut sums, mut at, length) = ([0.0; 2], 0, a.len().min(b.len()));
    while at + 1 < length {
        sums[0] += a[at] * b[at];
        sums[1] += a[at + 1] * b[at + 1];
        at += 2;
    }
    if at < length {
        sums[0] += a[at] * b[at];
    }
    sums[0] + sums[1]
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
