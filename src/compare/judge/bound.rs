/*!
How many times as fast a side is at least, where something disturbed the passes.

What else runs on a machine makes frames late and never early. So the slowest passes of the faster side beside the fastest ones of
the other give a ratio that no disturbance can have raised, clip by clip; as long as the other side's fastest passes show none
themselves. It is no estimate: the ratio of an undisturbed machine lies above it.
*/

use std::collections::BTreeMap;

use super::belief;
use super::contender::Contender;

/// What a pair's verdict may name for a bound to be sound: frames that came late, now and then or for a whole round. Clocks that
/// were held down, or another device, slow every pass alike, and the fastest with them.
pub(super) const LATE: [&str; 3] = ["unsteady", "drift", "rounds_differ"];

/// What a side did of one clip in one round.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    frames: f64,
    seconds: f64,
    /// No pass of it shows a disturbance.
    calm: bool,
}

impl Stretch {
    fn seconds_per_frame(&self) -> f64 {
        self.seconds / self.frames
    }
}

/// The stretches of each clip, a round each.
type Clips = BTreeMap<String, Vec<Stretch>>;

/// The least ratio of speeds; `None` where a clip has no undisturbed pass of the baseline.
pub(super) fn at_least(subject: &Contender<'_>, baseline: &Contender<'_>) -> Option<f64> {
    of(&stretches(subject), &stretches(baseline))
}

fn of(subject: &Clips, baseline: &Clips) -> Option<f64> {
    let (mut slowest, mut fastest) = (0.0, 0.0);
    for (clip, stretches) in subject {
        let frames = stretches.first()?.frames;
        let times = stretches.iter().map(Stretch::seconds_per_frame);
        slowest += frames * times.reduce(f64::max)?;
        let calm = baseline.get(clip)?.iter().filter(|stretch| stretch.calm);
        fastest += frames * calm.map(Stretch::seconds_per_frame).reduce(f64::min)?;
    }
    let ratio = fastest / slowest;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

fn stretches(side: &Contender<'_>) -> Clips {
    let mut clips = Clips::new();
    for round in &side.rounds {
        let mut here: BTreeMap<&str, Stretch> = BTreeMap::new();
        for (key, passes) in &round.objects {
            let stretch =
                here.entry(&key.video).or_insert(Stretch { frames: 0.0, seconds: 0.0, calm: true });
            for pass in passes {
                stretch.frames += pass.frames.len() as f64;
                stretch.seconds +=
                    pass.frames.iter().map(|frame| frame.latency_ms).sum::<f64>() / 1000.0;
                stretch.calm &= belief::is_calm(side, round, pass);
            }
        }
        for (clip, stretch) in here {
            clips.entry(clip.to_owned()).or_default().push(stretch);
        }
    }
    clips
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clips(of: &[(&str, &[(f64, bool)])]) -> Clips {
        let stretch =
            |&(ms, calm): &(f64, bool)| Stretch { frames: 50.0, seconds: 50.0 * ms / 1e3, calm };
        of.iter()
            .map(|(clip, all)| ((*clip).to_owned(), all.iter().map(stretch).collect()))
            .collect()
    }

    #[test]
    fn the_slowest_stands_beside_the_fastest_of_each_clip() {
        let subject =
            clips(&[("a", &[(5.0, true), (5.2, false)]), ("b", &[(4.8, true), (4.0, true)])]);
        let baseline =
            clips(&[("a", &[(20.0, true), (15.0, true)]), ("b", &[(15.0, true), (30.0, false)])]);
        assert_eq!(of(&subject, &baseline), Some(30.0 / 10.0));
        // What is early while it shows a disturbance is no fastest pass.
        let disturbed = clips(&[("a", &[(20.0, true), (15.0, false)]), ("b", &[(15.0, true)])]);
        assert_eq!(of(&subject, &disturbed), Some(35.0 / 10.0));
        // It would not do to leave out a clip without an undisturbed pass, nor one that was not measured.
        let never = clips(&[("a", &[(20.0, false)]), ("b", &[(15.0, true)])]);
        assert_eq!(of(&subject, &never), None);
        assert_eq!(of(&subject, &clips(&[("a", &[(20.0, true)])])), None);
        assert_eq!(of(&clips(&[]), &clips(&[])), None);
    }
}
