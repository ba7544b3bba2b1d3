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
