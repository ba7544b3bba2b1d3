/*!
The stages of a frame's work, in the order of the pipeline. Records, tables, profiler ranges and the
report take their names from here, so that a stage is named in one place.
*/

use std::ffi::CStr;

/// One stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Frame file to RGB pixels; outside the latency.
    Decode,
    /// Pixels to the device.
    Upload,
    /// Resize and normalise.
    Preprocess,
    /// Image encoder.
    Encoder,
    /// Prompt encoder and mask decoder; prompted frame only.
    Prompt,
    /// Memory attention and mask decoder; tracked frames only.
    Track,
    /// Memory encoder.
    Memory,
    /// Logits to a mask of the clip's size.
    Postprocess,
    /// Result back to the host.
    Download,
    /// Overlay or masks into their file; only where a run encodes them.
    Encode,
}

/// Of each stage: profiler range, column of the tables, label in the report.
const NAMES: [(&CStr, &str, &str); Stage::COUNT] = [
    (c"decode", "decode_ms", "Decode"),
    (c"upload", "upload_ms", "Host to device"),
    (c"preprocess", "preprocess_ms", "Preprocessing"),
    (c"encoder", "encoder_ms", "Inference: encoder"),
    (c"prompt", "prompt_ms", "Inference: prompt"),
    (c"track", "track_ms", "Inference: track"),
    (c"memory", "memory_ms", "Inference: memory"),
    (c"postprocess", "postprocess_ms", "Postprocessing"),
    (c"download", "download_ms", "Device to host"),
    (c"encode", "encode_ms", "Encode"),
];

impl Stage {
    /// Number of stages.
    pub const COUNT: usize = 10;

    /// All stages in the order of the pipeline.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Decode,
        Self::Upload,
        Self::Preprocess,
        Self::Encoder,
        Self::Prompt,
        Self::Track,
        Self::Memory,
        Self::Postprocess,
        Self::Download,
        Self::Encode,
    ];

    /// Name of its profiler range.
    pub const fn range(self) -> &'static CStr {
        NAMES[self as usize].0
    }

    /// Name of its column, with the unit: `encoder_ms`.
    pub const fn column(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// Name in the report.
    pub const fn label(self) -> &'static str {
        NAMES[self as usize].2
    }

    /// The stage of a column; none for any other column.
    pub fn of_column(column: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.column() == column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_stand_where_their_names_do() {
        for (at, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, at);
            let column = format!("{}_ms", stage.range().to_str().unwrap());
            assert_eq!(stage.column(), column);
            assert_eq!(Stage::of_column(&column), Some(stage));
        }
        assert_eq!(Stage::of_column("latency_ms"), None);
    }
}
