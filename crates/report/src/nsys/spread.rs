/*!
Count, sum and spread: the numbers of every summary table.
*/

use vos::stats;

/// Statistics of integers, in their unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Number of values.
    pub count: usize,
    /// Their sum.
    pub total: i64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// Minimum.
    pub min: i64,
    /// Maximum.
    pub max: i64,
    /// Standard deviation of a sample (divided by n - 1), as in nsys; 0 for a single value.
    pub deviation: f64,
}

impl Spread {
    /// Statistics of at least one value.
    pub fn of(values: &[i64]) -> Option<Self> {
        let (min, max) = (*values.iter().min()?, *values.iter().max()?);
        let reals: Vec<f64> = values.iter().map(|value| *value as f64).collect();
        let population = stats::population_std(&reals)?;
        let count = values.len();
        let bessel = (count as f64 / (count.max(2) - 1) as f64).sqrt();
        Some(Self {
            count,
            total: values.iter().sum(),
            mean: stats::mean(&reals)?,
            median: stats::median(&reals)?,
            min,
            max,
            deviation: if count > 1 { population * bessel } else { 0.0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_sample() {
        let spread = Spread::of(&[900, 770]).unwrap();
        assert_eq!((spread.count, spread.total, spread.min, spread.max), (2, 1670, 770, 900));
        assert_eq!((spread.mean, spread.median), (835.0, 835.0));
        assert!((spread.deviation - 91.92388).abs() < 1e-4, "{}", spread.deviation);
        assert_eq!(Spread::of(&[5]).unwrap().deviation, 0.0);
        assert_eq!(Spread::of(&[]), None);
    }
}
