/*!
How the pipeline runs: what is in flight at once, and how the host drives it.
*/

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use cuda::Wait;
use vos::preprocess::Filter;
use vos::record::Mode;

/// What decodes frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JpegDecoder {
    /// libjpeg-turbo on the host: Pillow's pixels, as Meta's loader has them.
    #[default]
    Turbo,
    /// NVIDIA's nvJPEG: entropy code on the host, pixels on the device. They are not Pillow's.
    Nvjpeg,
}

impl JpegDecoder {
    /// Pixels are Pillow's.
    pub fn is_turbo(&self) -> bool {
        *self == Self::Turbo
    }
}

/// The pipeline's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// What is measured.
    pub mode: Mode,
    /// Stages are captured as CUDA graphs and replayed; else each frame enqueues its calls.
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
    /// What decodes them. Absent where it is libjpeg-turbo.
    #[serde(rename = "decoder", default, skip_serializing_if = "JpegDecoder::is_turbo")]
    pub jpeg_decoder: JpegDecoder,
    /// How frames are resized. Absent where it is as Pillow does.
    #[serde(default, skip_serializing_if = "Filter::is_pillow")]
    pub resize: Filter,
    /// The objects of a frame are tracked on a stream each, instead of one after the other.
    pub object_streams: bool,
}

fn one() -> usize {
    1
}

impl Options {
    /// Frames that the encoder takes at once in this mode, at least 1.
    pub fn batch(&self) -> usize {
        if self.overlapping() { self.encode_batch.max(1) } else { 1 }
    }

    /// Frames of a clip overlap.
    pub(super) fn overlapping(&self) -> bool {
        self.mode == Mode::Throughput
    }

    /// Feature sets in device memory.
    pub(super) fn feature_sets(&self) -> usize {
        match self.batch() {
            _ if !self.overlapping() => 1,
            1 => self.encode_ahead.max(1),
            // While one batch is tracked the next one is encoded.
            batch => self.encode_ahead.max(2 * batch).next_multiple_of(batch),
        }
    }

    /// Frames that the host may have enqueued before it takes a result.
    pub(super) fn frames_in_flight(&self) -> usize {
        // One more than the encoder may hold, so that the copy engine never waits for the host.
        if self.overlapping() { self.feature_sets() + 2 } else { 1 }
    }

    /// Buffers of frames between file and device: one for each frame in flight, one for each
    /// decoding thread, and one that is ready.
    pub(super) fn frame_buffers(&self) -> usize {
        self.frames_in_flight() + self.decode_threads.max(1) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_before_nvjpeg_read_and_write_as_they_did() {
        let text = r#"{"mode":"latency","graphs":true,"wait":"spin","encode_ahead":3,"encode_batch":1,"decode_threads":8,"object_streams":false}"#;
        let mut options: Options = serde_json::from_str(text).unwrap();
        assert_eq!(options.jpeg_decoder, JpegDecoder::Turbo);
        assert_eq!(serde_json::to_string(&options).unwrap(), text);
        options.jpeg_decoder = JpegDecoder::Nvjpeg;
        let told = serde_json::to_string(&options).unwrap();
        assert!(told.contains(r#""decoder":"nvjpeg""#), "{told}");
        assert_eq!(serde_json::from_str::<Options>(&told).unwrap(), options);
    }
}
