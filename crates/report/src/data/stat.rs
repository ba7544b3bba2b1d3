/*!
Mean and spread of a column over the rows of a group.
*/

use serde::Serialize;

use vos::stats;

/// Mean and spread of a column over rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stat {
    /// Rows with a number.
    pub n: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the population.
    pub std: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Median.
    pub median: f64,
}

/// Two-sided 95 % quantiles of Student's distribution with 1, 2, … degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Half the 95 % interval of the mean of `n` values with this standard deviation of the population;
/// `None` for a single value.
pub fn half_interval(n: usize, std: f64) -> Option<f64> {
    let freedom = n.checked_sub(1).filter(|freedom| *freedom > 0)?;
    let quantile = STUDENT.get(freedom - 1).copied().unwrap_or(1.96);
    // The population's deviation over n values, so the mean's error divides by n - 1.
    Some(quantile * std / (freedom as f64).sqrt())
}

impl Stat {
    /// Half the 95 % interval of the mean; none with fewer than three values, of which it would say
    /// nothing.
    pub fn half_interval(&self) -> Option<f64> {
        half_interval(self.n, self.std).filter(|_| self.n > 2)
    }
}

/// Statistics of values; `None` without any.
pub fn stat(values: &[f64]) -> Option<Stat> {
    Some(Stat {
        n: values.len(),
        mean: stats::mean(values)?,
        std: stats::population_std(values)?,
        min: stats::min(values)?,
        max: stats::max(values)?,
        median: stats::median(values)?,
    })
}
