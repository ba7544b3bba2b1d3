/*!
Arguments that several commands declare alike.
*/

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// In which order clips are taken.
#[derive(Clone, Debug, Args)]
pub struct ShuffleArgs {
    /// Shuffle the clips before limiting them, as Python's random.shuffle does.
    #[arg(long)]
    pub shuffle_videos: bool,
    /// Seed of the shuffle; giving one implies it.
    #[arg(long, allow_negative_numbers = true)]
    pub seed: Option<i64>,
}

/// What `experiment` and `jetson-benchmark` choose for the benches that they start.
#[derive(Clone, Debug, Args)]
pub struct StartedBenchArgs {
    /// What runs the networks [default: engines where a GPU can run them, else ONNX Runtime on the CPU].
    #[arg(long, value_enum, default_value = "auto")]
    pub backend: BackendWish,
    /// Folder of engines written by build-engines.
    #[arg(long, default_value = "engines")]
    pub engines: PathBuf,
    /// Folder of bundles, or a bundle; may be given several times [default: onnx/bundles].
    #[arg(long, env = "SEGTRT_ONNX_DIR", value_delimiter = ':')]
    pub onnx_dir: Vec<PathBuf>,
    /// Which GPU, as the driver counts them.
    #[arg(long, default_value_t = 0)]
    pub device: usize,
    /// Accepted from old command lines: weights are in the bundles and engines.
    #[arg(long, hide = true)]
    pub weights_dir: Option<PathBuf>,
    /// Further flags of bench.
    #[arg(last = true, value_name = "bench flags")]
    pub bench: Vec<String>,
}

/// What is to run the networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendWish {
    /// Engines where they can be run, else the CPU.
    Auto,
    /// Engines, or an error.
    #[value(name = "tensorrt", alias = "trt")]
    TensorRt,
    /// ONNX Runtime on the CPU.
    #[value(name = "onnxruntime", alias = "ort", alias = "cpu")]
    OnnxRuntime,
}

/// Children tell of the frames that they finish once a second at least: a shorter limit would end those at work. Scoring and writing an
/// object's files are told of by its row alone (docs/measuring.md), so a limit this short suits short clips.
const LEAST_STALL_LIMIT_S: u64 = 3;

/// Seconds of `--stall-limit`: 0, or some that a child at work keeps.
pub(super) fn parse_stall_limit(text: &str) -> Result<u64, String> {
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
