/*!
Every limit of the verdict in one place.
*/

/// Limits of the rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Frames of a pass before the steady ones: by then the banks are full (seven memories, sixteen
    /// pointers) and every frame is the same work.
    pub steady_from: usize,
    /// Steady frames that it takes to judge by.
    pub steady_frames: usize,
    /// Batches of steady frames that it takes to judge by, where frames are encoded several at
    /// once.
    pub steady_batches: usize,
    /// Steady frames below which the 99th percentile is hardly more than the slowest frame.
    pub p99_frames: usize,
    /// Standard deviation of the steady latencies over their mean.
    pub spread: f64,
    /// Difference between the medians of the first and second half of the steady frames, over the
    /// median of all.
    pub drift: f64,
    /// Distance from the median, in median absolute deviations, from which on a frame is an
    /// outlier: ten standard deviations of a normal distribution, as in hyperfine.
    pub outlier_mads: f64,
    /// Distance from the median, over the median, up to which no frame is an outlier: where more
    /// than half of the frames take the same time, to the last digit of the clock, the median
    /// absolute deviation is zero.
    pub outlier_least: f64,
    /// Highest less lowest clock of the multiprocessors, over the highest.
    pub clock_drift: f64,
    /// Part of the latency that the stages must explain.
    pub explained: f64,
    /// Readings of the sensors below which throttling may have been missed.
    pub readings: usize,
    /// Length of the judged frames, s, from which on a steady pass at the power limit shows the
    /// speed that the GPU sustains there. A shorter pass may have run on clocks that were about to
    /// fall.
    pub sustained_seconds: f64,
    /// Difference between the mean times of the last and first quarter of these frames, over the
    /// mean of all: how much faster clocks at the beginning may have made the pass.
    pub sustained_drift: f64,
    /// Part of such a pass that its frames fill, in latency mode: a GPU that waits between frames has
    /// time to recover. Where frames overlap, their intervals contain the waits.
    pub sustained_busy: f64,
    /// Readings of the sensors in such a pass: half of those that 10 s have at the usual period of
    /// 100 ms. With fewer, another limit beside the power's may have been missed.
    pub sustained_readings: usize,
}

/// The limits in force.
pub const THRESHOLDS: Thresholds = Thresholds {
    steady_from: 18,
    steady_frames: 20,
    steady_batches: 5,
    p99_frames: 100,
    spread: 0.10,
    drift: 0.05,
    outlier_mads: 14.826,
    outlier_least: 0.01,
    clock_drift: 0.05,
    explained: 0.90,
    readings: 3,
    sustained_seconds: 10.0,
    sustained_drift: 0.02,
    sustained_busy: 0.90,
    sustained_readings: 50,
};
