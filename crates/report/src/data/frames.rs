/*!
Frame times of all passes of a group: percentiles over every frame, and curves thinned for a page.
*/

use serde::Serialize;

use crate::input::RecordedPass;
use vos::stats;

/// Points of a distribution curve up to its 99th percentile, and above it.
const CURVE: (usize, usize) = (300, 100);
/// Points of a time series; each pair is the minimum and the maximum of its share of the frames.
const SERIES_POINTS: usize = 1000;
/// Least number of frames for which the 99.9th percentile differs from the slowest frame.
const FRAMES_FOR_P999: usize = 1000;

/// The frames of all passes without each pass's first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frames {
    /// `latency`, or `interval` between masks if frames overlap.
    pub kind: &'static str,
    /// Number of frames.
    pub frames: usize,
    /// Number of passes.
    pub passes: usize,
    /// Mean, ms.
    pub mean_ms: f64,
    /// Standard deviation, ms.
    pub std_ms: f64,
    /// Fastest frame, ms.
    pub min_ms: f64,
    /// Median, ms.
    pub p50_ms: f64,
    /// 90th percentile, ms.
    pub p90_ms: f64,
    /// 95th percentile, ms.
    pub p95_ms: f64,
    /// 99th percentile, ms.
    pub p99_ms: f64,
    /// 99.9th percentile, ms; only with a thousand frames or more.
    pub p999_ms: Option<f64>,
    /// Slowest frame, ms.
    pub max_ms: f64,
    /// The distribution: a time in ms and the share of frames that took at most that long, thinned.
    pub ecdf: Vec<(f64, f64)>,
    /// The longest pass frame by frame.
    pub series: Series,
}

/// One pass frame by frame.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Clip.
    pub video: String,
    /// Object.
    pub object: String,
    /// Number of the pass.
    pub run: u64,
    /// Frames of the pass.
    pub frames: usize,
    /// Number of frames that share two points, the fastest and the slowest of them; 1 if every
    /// frame is drawn.
    pub frames_per_pair: usize,
    /// Frame of the pass (0 is the prompted one) and its time in ms.
    pub points: Vec<(f64, f64)>,
}

/// Frames of all passes; `None` if no pass has a frame after its first.
pub fn of(passes: &[&RecordedPass], overlapping: bool) -> Option<Frames> {
    let longest = passes.iter().rev().max_by_key(|pass| pass.latencies_ms.len())?;
    let later = passes.iter().flat_map(|pass| pass.latencies_ms.iter().skip(1).copied());
    let times = stats::sorted(&later.filter(|time| time.is_finite()).collect::<Vec<_>>());
    let at = |percent| stats::percentile_of_sorted(&times, percent);
    Some(Frames {
        kind: if overlapping { "interval" } else { "latency" },
        frames: times.len(),
        passes: passes.len(),
        mean_ms: stats::mean(&times)?,
        std_ms: stats::population_std(&times)?,
        min_ms: at(0.0)?,
        p50_ms: at(50.0)?,
        p90_ms: at(90.0)?,
        p95_ms: at(95.0)?,
        p99_ms: at(99.0)?,
        p999_ms: at(99.9).filter(|_| times.len() >= FRAMES_FOR_P999),
        max_ms: at(100.0)?,
        ecdf: ecdf(&times),
        series: series(longest),
    })
}

/// The share of sorted times up to each time; the tail keeps more points than the rest.
fn ecdf(sorted: &[f64]) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let (body, tail) = CURVE;
    let share = |index: usize| (sorted[index], (index + 1) as f64 / count as f64);
    if count <= body + tail {
        return (0..count).map(share).collect();
    }
    let tail_from = count - count / 100 - 1;
    let spread = |from: usize, to: usize, points: usize| {
        (0..points).map(move |point| from + (to - from) * point / points)
    };
    let mut indices: Vec<usize> =
        spread(0, tail_from, body).chain(spread(tail_from, count - 1, tail)).collect();
    indices.push(count - 1);
    indices.dedup();
    indices.into_iter().map(share).collect()
}

fn series(pass: &RecordedPass) -> Series {
    let times = &pass.latencies_ms;
    let per_pair = match times.len() <= SERIES_POINTS {
        true => 1,
        false => times.len().div_ceil(SERIES_POINTS / 2),
    };
    let mut points: Vec<(f64, f64)> = Vec::new();
    if per_pair == 1 {
        points.extend(times.iter().enumerate().map(|(frame, time)| (frame as f64, *time)));
    } else {
        for (part, times) in times.chunks(per_pair).enumerate() {
            let place = |index: usize| (part * per_pair + index) as f64;
            let by_time = |a: &(usize, &f64), b: &(usize, &f64)| a.1.total_cmp(b.1);
            let least = times.iter().enumerate().min_by(by_time);
            let most = times.iter().enumerate().max_by(by_time);
            if let (Some((low, least)), Some((high, most))) = (least, most) {
                let mut pair = [(place(low), *least), (place(high), *most)];
                pair.sort_by(|a, b| a.0.total_cmp(&b.0));
                points.extend(pair);
            }
        }
    }
    Series {
        video: pass.video.clone(),
        object: pass.object.clone(),
        run: pass.run,
        frames: times.len(),
        frames_per_pair: per_pair,
        points,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(latencies_ms: Vec<f64>) -> RecordedPass {
        RecordedPass { video: "v".into(), latencies_ms, ..RecordedPass::default() }
    }

    #[test]
    fn the_first_frame_of_each_pass_is_no_part_of_the_distribution() {
        let (one, two) = (pass(vec![900.0, 1.0, 2.0]), pass(vec![800.0, 3.0, 4.0, 5.0]));
        let frames = of(&[&one, &two], false).unwrap();
        assert_eq!((frames.frames, frames.passes, frames.min_ms, frames.max_ms), (5, 2, 1.0, 5.0));
        assert_eq!((frames.p50_ms, frames.p999_ms), (3.0, None));
        assert_eq!(frames.ecdf, [(1.0, 0.2), (2.0, 0.4), (3.0, 0.6), (4.0, 0.8), (5.0, 1.0)]);
        assert_eq!((frames.series.frames, frames.series.points[0]), (4, (0.0, 800.0)));
        assert_eq!(of(&[&pass(vec![7.0])], false), None);
        assert_eq!(of(&[], false), None);
    }

    #[test]
    fn a_million_frames_keep_their_extremes_in_a_thousand_points() {
        let mut times: Vec<f64> =
            (0..1_000_000).map(|frame| 2.0 + f64::from(frame % 97) / 1000.0).collect();
        times[765_432] = 50.0;
        times[3] = 0.5;
        let frames = of(&[&pass(times)], false).unwrap();
        assert!(frames.ecdf.len() <= 402 && frames.series.points.len() <= 1000);
        assert!(
            frames.series.points.contains(&(765_432.0, 50.0))
                && frames.series.points.contains(&(3.0, 0.5))
        );
        assert_eq!(frames.ecdf.last(), Some(&(50.0, 1.0)));
        assert!(frames.ecdf.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1));
        assert_eq!(frames.series.frames_per_pair, 2000);
        assert!((frames.p999_ms.unwrap() - 2.096).abs() < 1e-9);
    }
}
