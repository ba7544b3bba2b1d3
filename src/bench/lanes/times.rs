/*!
The times of frames that several lanes finish at once.

Each lane finishes frames at its own pace, and the card at the sum of all paces. A frame's time is
the time since the mask before it in its lane, over the frames that all lanes finished meanwhile.
Frames that another lane has begun count by the part that falls into that time. So the times of all
frames add up to the time on the clock, and frames over their times are the frames a second of the
card.
*/

use std::time::Instant;

/// When each lane's masks were in host memory, in order; all lanes began at the same time.
pub struct Paces {
    /// Seconds after the beginning.
    lanes: Vec<Vec<f64>>,
}

impl Paces {
    /// Of lanes that began at `began`.
    pub fn new<'a>(began: Instant, lanes: impl IntoIterator<Item = &'a [Instant]>) -> Self {
        let seconds = |at: &Instant| at.saturating_duration_since(began).as_secs_f64();
        Self { lanes: lanes.into_iter().map(|lane| lane.iter().map(seconds).collect()).collect() }
    }

    /// Frames that all lanes finished until `at`, with parts of those that they had begun.
    fn frames_until(&self, at: f64) -> f64 {
        let of_lane = |lane: &Vec<f64>| {
            let done = lane.partition_point(|mask| *mask <= at);
            let before = done.checked_sub(1).map_or(0.0, |last| lane[last]);
            // A lane that finishes nothing any more has ended.
            let part = lane.get(done).map_or(0.0, |next| (at - before) / (next - before));
            done as f64 + part
        };
        self.lanes.iter().map(of_lane).sum()
    }

    /// The time of the frame whose mask is number `mask` of a lane, ms.
    pub fn ms(&self, lane: usize, mask: usize) -> Option<f64> {
        let masks = self.lanes.get(lane)?;
        let (from, to) = (
            mask.checked_sub(1).map_or(Some(0.0), |before| masks.get(before).copied())?,
            *masks.get(mask)?,
        );
        let frames = self.frames_until(to) - self.frames_until(from);
        Some(1e3 * (to - from) / frames)
    }

    /// Frames of all lanes.
    pub fn frames(&self) -> usize {
        self.lanes.iter().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paces(lanes: &[&[f64]]) -> Paces {
        Paces { lanes: lanes.iter().map(|lane| lane.to_vec()).collect() }
    }

    #[test]
    fn one_lane_has_the_intervals_between_its_masks() {
        let one = paces(&[&[0.5, 0.75, 1.75]]);
        let ms = |mask| one.ms(0, mask).unwrap();
        assert_eq!([0, 1, 2].map(ms), [500.0, 250.0, 1000.0]);
        assert_eq!((one.ms(0, 3), one.ms(1, 0), one.frames()), (None, None, 3));
    }

    #[test]
    fn equal_lanes_share_the_time_however_they_are_shifted() {
        let shifted = paces(&[&[1.0, 2.0, 3.0, 4.0], &[1.5, 2.5, 3.5, 4.5]]);
        for mask in [2, 3] {
            assert!((shifted.ms(0, mask).unwrap() - 500.0).abs() < 1e-9);
        }
    }

    #[test]
    fn times_of_all_frames_add_up_to_the_clock_where_paces_differ() {
        let fast: Vec<f64> = (1..=400).map(|at| f64::from(at) * 0.01).collect();
        let slow: Vec<f64> = (1..=100).map(|at| f64::from(at) * 0.04).collect();
        let both = paces(&[&fast, &slow]);
        let of =
            |lane: usize, masks: usize| (0..masks).filter_map(|at| both.ms(lane, at)).sum::<f64>();
        assert!((of(0, 400) + of(1, 100) - 4000.0).abs() < 1e-6);
        // Either lane's frames alone give the rate of the card, 125 a second.
        assert!((400.0 / of(0, 400) - 0.125).abs() < 1e-9);
        assert!((100.0 / of(1, 100) - 0.125).abs() < 1e-9);
    }
}
