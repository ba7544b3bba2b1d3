/*!
Arguments that several commands declare alike.
*/

use clap::Args;

use crate::commands::headings::{DATA, MEASURING};
use report::regression::Limits;

/// In which order clips are taken.
#[derive(Clone, Debug, Args)]
pub struct ShuffleArgs {
    /// Shuffle the clips before limiting them, as Python's random.shuffle does.
    #[arg(long, help_heading = DATA)]
    pub shuffle_videos: bool,
    /// Seed of the shuffle; implies --shuffle-videos.
    #[arg(long, help_heading = DATA, allow_negative_numbers = true)]
    pub seed: Option<i64>,
}

/// Changes that are no regression.
#[derive(Clone, Debug, Args)]
pub struct LimitArgs {
    /// Allowed loss of frames per second, or increase of latency.
    #[arg(
        long,
        help_heading = MEASURING,
        value_name = "PERCENT",
        default_value = "3%",
        value_parser = percent
    )]
    pub max_slowdown: f64,
    /// Allowed increase of memory.
    #[arg(
        long,
        help_heading = MEASURING,
        value_name = "PERCENT",
        default_value = "3%",
        value_parser = percent
    )]
    pub max_memory: f64,
    /// Allowed loss of J&F, J and F, in points of 100.
    #[arg(
        long,
        help_heading = MEASURING,
        value_name = "POINTS",
        default_value = "0.1",
        value_parser = points
    )]
    pub max_jf_drop: f64,
}

impl LimitArgs {
    /// As the judge takes them.
    pub fn limits(&self) -> Limits {
        Limits { slowdown: self.max_slowdown, memory: self.max_memory, jf_points: self.max_jf_drop }
    }
}

/// The command line, for result files; the program by its name alone.
pub(in crate::commands) fn command_line() -> String {
    let words = std::env::args().skip(1).map(|word| match word.contains([' ', '"']) {
        true => format!("{word:?}"),
        false => word,
    });
    std::iter::once("segtrt".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// `3%` as 0.03. A bare number could be either, so it is refused.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').map(|number| number.trim().parse::<f64>());
    match number {
        Some(Ok(percent)) if (0.0..=1000.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected a percentage with its sign, such as 3%".to_owned()),
    }
}

fn points(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(points) if (0.0..=100.0).contains(&points) => Ok(points),
        _ => Err("expected points of a hundred, 0 to 100, such as 0.1".to_owned()),
    }
}

/// Children tell of the frames that they finish once a second at least: a shorter limit would end
/// those at work. Scoring and writing an object's files are told of by its row alone
/// (docs/explanation/how-we-measure.md), so a limit this short suits short clips.
const LEAST_STALL_LIMIT_S: u64 = 3;

/// Seconds of `--stall-limit`: 0, or some that a child at work keeps.
pub(in crate::commands) fn parse_stall_limit(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(seconds) if seconds == 0 || seconds >= LEAST_STALL_LIMIT_S => Ok(seconds),
        _ => Err(format!("give whole seconds, {LEAST_STALL_LIMIT_S} or more, or 0 for no limit")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_none_or_longer_than_a_beat() {
        assert_eq!(
            ["0", "3", "600"].map(|text| parse_stall_limit(text).ok()),
            [0, 3, 600].map(Some)
        );
        for text in ["1", "2", "-1", "10m", ""] {
            assert!(
                parse_stall_limit(text).is_err_and(|told| told.contains("3 or more")),
                "{text}"
            );
        }
    }

    #[test]
    fn limits_are_read_in_their_unit_and_nothing_else() {
        assert_eq!((percent("3%"), percent("0.5 %")), (Ok(0.03), Ok(0.005)));
        for text in ["3", "0.03", "-1%", "%", "x%", "nan%", ""] {
            assert!(percent(text).unwrap_err().contains("3%"), "{text}");
        }
        assert_eq!(points("0.1"), Ok(0.1));
        assert!(points("-1").is_err() && points("0.1%").is_err() && points("NaN").is_err());
    }
}
