/*!
The settings that a sweep can vary, with their values.
*/

use serde::{Deserialize, Serialize};

/// Settings that can be swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Precision of graphs or engines.
    Precision,
    /// Objects tracked together.
    Objects,
    /// Side of the network input, pixels.
    Imgsz,
    /// Batch size of the encoder.
    EncodeBatch,
    /// Frames that the encoder may run ahead of the tracker.
    EncodeAhead,
    /// Decoder of JPEG frames.
    JpegDecoder,
    /// Threads that decode frames.
    DecodeThreads,
    /// Threads of ONNX Runtime.
    Threads,
    /// Clips at once on one GPU.
    Lanes,
}

impl Setting {
    /// All of them, in the order of the help.
    pub const ALL: [Self; 9] = [
        Self::Lanes,
        Self::EncodeBatch,
        Self::EncodeAhead,
        Self::JpegDecoder,
        Self::DecodeThreads,
        Self::Threads,
        Self::Precision,
        Self::Imgsz,
        Self::Objects,
    ];

    /// Its name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Precision => "precision",
            Self::Objects => "objects",
            Self::Imgsz => "imgsz",
            Self::EncodeBatch => "encode_batch",
            Self::EncodeAhead => "encode_ahead",
            Self::JpegDecoder => "jpeg_decoder",
            Self::DecodeThreads => "decode_threads",
            Self::Threads => "threads",
            Self::Lanes => "lanes",
        }
    }

    /// The setting of this name; a hyphen counts as an underscore.
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.replace('-', "_");
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }

    /// Its values, for a message.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Precision => "fp32, fp16 or mixed",
            Self::Objects | Self::Lanes => "1 to 64",
            Self::Imgsz => "pixels, such as 512,1024",
            Self::EncodeBatch => "1, 2, 4, 8 or 16",
            Self::EncodeAhead => "1 to 32",
            Self::JpegDecoder => "turbo or nvjpeg",
            Self::DecodeThreads => "1 to 256",
            Self::Threads => "1 to 1024",
        }
    }

    /// The value as files write it; none if it is not a value of this setting.
    pub(super) fn value(self, text: &str) -> Option<String> {
        let words: &[&str] = match self {
            Self::Precision => &["fp32", "fp16", "mixed"],
            Self::JpegDecoder => &["turbo", "nvjpeg"],
            _ => &[],
        };
        if self.is_word() {
            return words.contains(&text).then(|| text.to_owned());
        }
        let number: u32 = text.parse().ok()?;
        let fits = match self {
            Self::Objects | Self::Lanes => number <= 64,
            Self::EncodeBatch => number <= 16 && number.is_power_of_two(),
            Self::EncodeAhead => number <= 32,
            Self::DecodeThreads => number <= 256,
            Self::Threads => number <= 1024,
            _ => true,
        };
        (number > 0 && fits).then(|| number.to_string())
    }

    /// Its values are words, not numbers.
    pub fn is_word(self) -> bool {
        matches!(self, Self::Precision | Self::JpegDecoder)
    }

    /// The value in names of files and folders: numbers have leading zeros, so that names sort as
    /// numbers do, however many values the sweep has.
    pub fn padded(self, value: &str) -> String {
        let digits = match self {
            Self::Precision | Self::JpegDecoder => 0,
            Self::Objects | Self::Lanes | Self::EncodeBatch | Self::EncodeAhead => 2,
            Self::DecodeThreads | Self::Threads => 3,
            Self::Imgsz => 4,
        };
        format!("{value:0>digits$}")
    }

    /// Its values decide over the network's input, so masks of two values are not compared.
    pub(super) fn changes_input(self) -> bool {
        matches!(self, Self::Imgsz | Self::JpegDecoder)
    }
}
