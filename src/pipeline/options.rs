/*!
How the pipeline runs: what is in flight at once, and how the host drives it.
*/

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::gpu::Wait;

/// What a run measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One frame in flight: its latency is that of a live camera's frame.
    #[default]
    Latency,
    /// Frames overlap: as many as possible in a second, each one older when its mask is there.
    Throughput,
}

impl Mode {
    /// The name in every row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
        }
    }
}

/// The pipeline's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// What is measured.
    pub mode: Mode,
    /// Stages are recorded as CUDA graphs and replayed; else each frame's calls are made anew.
    pub graphs: bool,
    /// How the host waits for a frame.
    pub wait: Wait,
    /// Throughput: frames that the encoder may be ahead of the tracker.
    pub encode_ahead: usize,
    /// Throughput: frames that the encoder takes at once.
    #[serde(default = "one")]
    pub encode_batch: usize,
    /// Threads that decode JPEG files ahead.
    pub decode_threads: usize,
    /// The objects of a frame are tracked on a stream each, instead of one after the other.
    pub object_streams: bool,
}

fn one() -> usize {
    1
}

impl Options {
    /// Frames that the encoder takes at once in this mode.
    pub(super) fn batch(&self) -> usize {
        match self.mode {
            Mode::Latency => 1,
            Mode::Throughput => self.encode_batch.max(1),
        }
    }

    /// Feature sets in device memory.
    pub(super) fn feature_sets(&self) -> usize {
        match self.mode {
            Mode::Latency => 1,
            // While one batch is tracked the next one is encoded.
            Mode::Throughput if self.encode_batch > 1 => {
                let batch = self.encode_batch;
                self.encode_ahead.max(2 * batch).next_multiple_of(batch)
            }
            Mode::Throughput => self.encode_ahead.max(1),
        }
    }

    /// Frames that the host may have enqueued before it takes a result.
    pub(super) fn flights(&self) -> usize {
        match self.mode {
            Mode::Latency => 1,
            // One more than the encoder may hold, so that the copy engine never waits for the host.
            Mode::Throughput => self.feature_sets() + 2,
        }
    }
}
