/*!
The compared numbers of a model, and their computation from its objects.
*/

use serde::Serialize;

use super::run::{ObjectRun, PassSummary};
use vos::stats::{max, mean, median, sorted};

/// A number of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Frames of all objects over their time.
    Fps,
    /// Median latency, ms, mean of the objects.
    P50Ms,
    /// 95th percentile, ms, mean of the objects.
    P95Ms,
    /// 99th percentile, ms, mean of the objects.
    P99Ms,
    /// Allocated device memory, MiB, maximum of the objects.
    GpuPeakAllocMib,
    /// Device memory that was no longer free, MiB, maximum of the objects.
    GpuPeakReservedMib,
    /// Resident memory, MiB, maximum of the objects.
    CpuPeakRssMib,
    /// J&F, 0..1, mean of the objects.
    JandF,
    /// J, 0..1, mean of the objects.
    J,
    /// F, 0..1, mean of the objects.
    F,
}

/// The kind of limit for a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitKind {
    Speed,
    Memory,
    Quality,
}

impl Metric {
    /// All metrics in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::Fps,
        Self::P50Ms,
        Self::P95Ms,
        Self::P99Ms,
        Self::GpuPeakAllocMib,
        Self::GpuPeakReservedMib,
        Self::CpuPeakRssMib,
        Self::JandF,
        Self::J,
        Self::F,
    ];

    /// Name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fps => "fps",
            Self::P50Ms => "p50 ms",
            Self::P95Ms => "p95 ms",
            Self::P99Ms => "p99 ms",
            Self::GpuPeakAllocMib => "GPU alloc MiB",
            Self::GpuPeakReservedMib => "GPU reserved MiB",
            Self::CpuPeakRssMib => "peak RSS MiB",
            Self::JandF => "J&F, %",
            Self::J => "J, %",
            Self::F => "F, %",
        }
    }

    /// Number of printed decimals, of percent for J&F, J and F.
    pub fn digits(self) -> usize {
        match self.kind() {
            LimitKind::Speed if self == Self::Fps => 2,
            LimitKind::Speed => 3,
            LimitKind::Memory => 1,
            LimitKind::Quality => 2,
        }
    }

    /// Whether changes are in points of 100 instead of percent.
    pub fn is_in_points(self) -> bool {
        self.kind() == LimitKind::Quality
    }

    /// The range of its values over the passes of these objects; `None` if an object lacks it.
    pub fn range_of(self, objects: &[&ObjectRun]) -> Option<Range> {
        let all = objects.iter().all(|object| self.is_in(object));
        Range::of(&self.of_model(objects)).filter(|_| all)
    }

    pub(super) fn kind(self) -> LimitKind {
        match self {
            Self::Fps | Self::P50Ms | Self::P95Ms | Self::P99Ms => LimitKind::Speed,
            Self::GpuPeakAllocMib | Self::GpuPeakReservedMib | Self::CpuPeakRssMib => {
                LimitKind::Memory
            }
            Self::JandF | Self::J | Self::F => LimitKind::Quality,
        }
    }

    /// Whether more is better.
    pub(super) fn more_is_better(self) -> bool {
        self == Self::Fps || self.kind() == LimitKind::Quality
    }

    /// Frames after the first that a clip needs, so that at least one lies beyond the percentile.
    pub fn least_frames(self) -> usize {
        match self {
            Self::P95Ms => 20,
            Self::P99Ms => 100,
            _ => 0,
        }
    }

    /// The number of one pass over one object; `None` if it was not measured.
    fn of_pass(self, pass: &PassSummary) -> Option<f64> {
        match self {
            Self::Fps => Some(1000.0 * pass.frames as f64 / pass.duration_ms),
            Self::P50Ms => pass.p50_ms,
            Self::P95Ms => pass.p95_ms,
            Self::P99Ms => pass.p99_ms,
            Self::GpuPeakAllocMib => pass.gpu_peak_alloc_mib,
            Self::GpuPeakReservedMib => pass.gpu_peak_reserved_mib,
            Self::CpuPeakRssMib => pass.cpu_peak_rss_mib,
            Self::JandF => pass.jf,
            Self::J => pass.j,
            Self::F => pass.f,
        }
    }

    /// Whether all passes of an object have it.
    pub(super) fn is_in(self, object: &ObjectRun) -> bool {
        !object.passes.is_empty() && object.passes.iter().all(|pass| self.of_pass(pass).is_some())
    }

    /// Whether the clips are long enough for it.
    pub(super) fn can_be_judged(self, objects: &[&ObjectRun]) -> bool {
        let mut passes = objects.iter().flat_map(|object| &object.passes);
        passes.all(|pass| pass.frames > self.least_frames())
    }

    /// A number for each pass that all objects have: of all first passes, of all second passes, …
    pub(super) fn of_model(self, objects: &[&ObjectRun]) -> Vec<f64> {
        let passes = objects.iter().map(|object| object.passes.len()).min().unwrap_or(0);
        let pass = |at: usize| objects.iter().map(move |object| &object.passes[at]);
        let one = |at: usize| {
            let numbers: Vec<f64> = pass(at).filter_map(|pass| self.of_pass(pass)).collect();
            match (self, self.kind()) {
                (Self::Fps, _) => {
                    let frames: usize = pass(at).map(|pass| pass.frames).sum();
                    let ms: f64 = pass(at).map(|pass| pass.duration_ms).sum();
                    Some(1000.0 * frames as f64 / ms)
                }
                (_, LimitKind::Memory) => max(&numbers),
                _ => mean(&numbers),
            }
        };
        (0..passes).filter_map(one).collect()
    }
}

/// Median and spread of the recorded passes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// Median of the passes.
    pub middle: f64,
    /// Lowest pass; of ten or more a tenth is dropped.
    pub low: f64,
    /// Highest pass; as many are dropped.
    pub high: f64,
    /// Number of passes.
    pub passes: usize,
}

impl Range {
    /// Range of these numbers; `None` without one.
    pub(super) fn of(numbers: &[f64]) -> Option<Self> {
        let sorted = sorted(numbers);
        let left_out = sorted.len() / 10;
        Some(Self {
            middle: median(numbers)?,
            low: *sorted.get(left_out)?,
            high: *sorted.get(sorted.len() - 1 - left_out)?,
            passes: sorted.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(passes: &[(usize, f64, f64, Option<f64>)]) -> ObjectRun {
        let pass =
            |&(frames, duration_ms, rss, p50_ms): &(usize, f64, f64, Option<f64>)| PassSummary {
                frames,
                duration_ms,
                p50_ms,
                cpu_peak_rss_mib: Some(rss),
                ..PassSummary::default()
            };
        ObjectRun { passes: passes.iter().map(pass).collect(), ..ObjectRun::default() }
    }

    #[test]
    fn a_model_is_all_frames_over_all_time_the_mean_latency_and_the_most_memory() {
        let long = object(&[(90, 900.0, 50.0, Some(10.0)), (90, 1800.0, 52.0, Some(20.0))]);
        let short =
            object(&[(10, 1100.0, 70.0, Some(110.0)), (10, 200.0, 1.0, None), (1, 1.0, 1.0, None)]);
        let objects = [&long, &short];
        assert_eq!(Metric::Fps.of_model(&objects), [50.0, 50.0]);
        assert_eq!(Metric::CpuPeakRssMib.of_model(&objects), [70.0, 52.0]);
        assert_eq!(Metric::P50Ms.of_model(&[&long]), [10.0, 20.0]);
        assert!(Metric::P50Ms.is_in(&long) && !Metric::P50Ms.is_in(&short));
        assert!(!Metric::Fps.is_in(&object(&[])));
        assert_eq!(Metric::Fps.of_model(&[]), [0.0; 0]);
        assert!(Metric::P95Ms.can_be_judged(&[&long]) && !Metric::P95Ms.can_be_judged(&objects));
        assert!(!Metric::P99Ms.can_be_judged(&[&long]) && Metric::P50Ms.can_be_judged(&objects));
    }

    #[test]
    fn one_outlier_of_many_passes_is_no_spread() {
        let mut numbers = vec![10.0; 20];
        numbers.push(99.0);
        let range = Range::of(&numbers).unwrap();
        assert_eq!((range.low, range.middle, range.high, range.passes), (10.0, 10.0, 10.0, 21));
        let three = Range::of(&[2.0, 9.0, 1.0]).unwrap();
        assert_eq!((three.low, three.middle, three.high), (1.0, 2.0, 9.0));
        let one = Range::of(&[3.0]).unwrap();
        assert_eq!((one.low, one.high), (3.0, 3.0));
        assert_eq!(Range::of(&[]), None);
    }
}
