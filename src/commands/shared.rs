/*!
Arguments that several commands declare alike.
*/

use clap::Args;

use crate::commands::headings::DATA;

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
}
