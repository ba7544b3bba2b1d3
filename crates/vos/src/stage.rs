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

/// Names of a stage.
struct Names {
    range: &'static CStr,
    columns: [&'static str; 5],
    label: &'static str,
}

/// The names of a stage, from its own: columns of mean, median, 99th percentile, and the two of a
/// profiled pass.
macro_rules! names {
    ($name:literal, $label:literal) => {
        Names {
            range: match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(range) => range,
                Err(_) => panic!("a NUL within the name of a stage"),
            },
            columns: [
                concat!($name, "_ms"),
                concat!($name, "_p50_ms"),
                concat!($name, "_p99_ms"),
                concat!($name, "_profiled_ms"),
                concat!($name, "_projected_ms"),
            ],
            label: $label,
        }
    };
}

/// Of each stage.
const NAMES: [Names; Stage::COUNT] = [
    names!("decode", "Decode"),
    names!("upload", "Host to device"),
    names!("preprocess", "Preprocessing"),
    names!("encoder", "Inference: encoder"),
    names!("prompt", "Inference: prompt"),
    names!("track", "Inference: track"),
    names!("memory", "Inference: memory"),
    names!("postprocess", "Postprocessing"),
    names!("download", "Device to host"),
    names!("encode", "Encode"),
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

    /// The stages that run on the GPU where there is one.
    pub const ON_GPU: [Self; 8] = [
        Self::Upload,
        Self::Preprocess,
        Self::Encoder,
        Self::Prompt,
        Self::Track,
        Self::Memory,
        Self::Postprocess,
        Self::Download,
    ];

    /// Name of its profiler range.
    pub const fn range(self) -> &'static CStr {
        NAMES[self as usize].range
    }

    /// Name of its column, with the unit: `encoder_ms`.
    pub const fn column(self) -> &'static str {
        NAMES[self as usize].columns[0]
    }

    /// Column of its median: `encoder_p50_ms`.
    pub const fn p50_column(self) -> &'static str {
        NAMES[self as usize].columns[1]
    }

    /// Column of its 99th percentile: `encoder_p99_ms`.
    pub const fn p99_column(self) -> &'static str {
        NAMES[self as usize].columns[2]
    }

    /// Column of its mean in a profiled pass, by events: `encoder_profiled_ms`.
    pub const fn profiled_column(self) -> &'static str {
        NAMES[self as usize].columns[3]
    }

    /// Column of its mean projection in a profiled pass: `encoder_projected_ms`.
    pub const fn projected_column(self) -> &'static str {
        NAMES[self as usize].columns[4]
    }

    /// Name in the report.
    pub const fn label(self) -> &'static str {
        NAMES[self as usize].label
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
            let name = stage.range().to_str().unwrap();
            let column = format!("{name}_ms");
            assert_eq!(stage.column(), column);
            assert_eq!(stage.p50_column(), format!("{name}_p50_ms"));
            assert_eq!(stage.p99_column(), format!("{name}_p99_ms"));
            assert_eq!(stage.profiled_column(), format!("{name}_profiled_ms"));
            assert_eq!(stage.projected_column(), format!("{name}_projected_ms"));
            assert_eq!(Stage::of_column(&column), Some(stage));
        }
        assert_eq!(Stage::of_column("latency_ms"), None);
    }
}
