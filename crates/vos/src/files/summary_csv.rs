/*!
`sav_benchmark_summary.csv`: one row per video, object and model.

The predecessor's columns come first, in its order and with its rounding; segtrt's follow.
*/

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use super::columns::{self, Column, TableRow, write_table};
use super::python_format::Cell;
use crate::record::SummaryRecord;
use crate::strides::Strides;

/// File name, the predecessor's.
pub const FILE_NAME: &str = "sav_benchmark_summary.csv";

/// Which of the predecessor's two tables the first columns follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColumnSet {
    /// The columns of its benchmark.
    #[default]
    Standard,
    /// The columns of its extended experiments: with strides and the number of scored frames.
    Extended,
}

impl ColumnSet {
    /// The columns that show these strides.
    pub fn telling(strides: Strides) -> Self {
        if strides.leave_nothing_out() { Self::Standard } else { Self::Extended }
    }

    /// The columns of the summary in `folder`; `None` if it cannot be read.
    pub fn of_table(folder: &Path) -> Option<Self> {
        let mut reader = csv::Reader::from_path(folder.join(FILE_NAME)).ok()?;
        let strided = reader.headers().ok()?.iter().any(|name| name == INPUT_STRIDE[0].0);
        Some(if strided { Self::Extended } else { Self::Standard })
    }

    /// Columns before segtrt's, in the predecessor's order.
    fn predecessor(self) -> Vec<Column> {
        let extended = self == Self::Extended;
        let mut all = vec![columns::VIDEO, columns::OBJECT, columns::MODEL, columns::IMGSZ];
        all.extend_from_slice(if extended { &INPUT_STRIDE } else { &[] });
        all.extend_from_slice(&[columns::PRECISION, columns::FRAMES, PROCESSED_END]);
        all.extend(extended.then_some(columns::SCORED_FRAMES));
        all.extend_from_slice(&SPEED);
        all.extend_from_slice(&columns::QUALITY);
        all.extend_from_slice(&PICTURE);
        all.extend(extended.then_some(ANNOTATION_STRIDE));
        all.push(columns::SETUP);
        all
    }
}

const PROCESSED_END: Column =
    ("processed_end_frame", |r| Cell::count(r.record.processed_end_frame));

const SPEED: [Column; 5] =
    [columns::FPS, columns::LATENCY, columns::GPU_ALLOC, columns::GPU_RESERVED, columns::CPU_RSS];

const PICTURE: [Column; 5] = [
    ("overlay", |r| Cell::text(r.record.overlay.as_deref())),
    ("input_H", |r| Cell::count(r.record.input_size.map(|[height, _]| height))),
    ("input_W", |r| Cell::count(r.record.input_size.map(|[_, width]| width))),
    ("infer_H", |r| Cell::count(r.record.infer_size.map(|[height, _]| height))),
    ("infer_W", |r| Cell::count(r.record.infer_size.map(|[_, width]| width))),
];

const INPUT_STRIDE: [Column; 2] = [
    ("input_frame_stride", |r| Cell::count(Some(r.record.conditions.strides.input))),
    ("input_fps", |r| Cell::rounded(Some(r.record.conditions.strides.input_fps()), 3)),
];

/// Empty if all annotations are scored.
const ANNOTATION_STRIDE: Column = ("annotation_stride_frames", |r| {
    let stride = r.record.conditions.strides.annotation;
    Cell::count((stride > 0).then_some(stride))
});

/// Writes the header and one row per record, in the order given.
///
/// # Errors
/// `out` cannot be written.
pub fn write<'a>(
    out: &mut impl Write,
    set: ColumnSet,
    rows: impl IntoIterator<Item = &'a SummaryRecord>,
) -> Result<()> {
    let rows: Vec<&SummaryRecord> = rows.into_iter().collect();
    let first = set.predecessor();
    let known = |name: &str| first.iter().any(|(known, _)| *known == name);
    // A duplicate name would be ambiguous for a reader that looks up columns by name.
    let detail: Vec<Column> =
        columns::DETAIL.into_iter().filter(|(name, _)| !known(name)).collect();
    let columns: [&[Column]; 8] = [
        &first,
        &columns::OUTCOME,
        &detail,
        &columns::BELIEF,
        &columns::PACE,
        &columns::ROOFLINE,
        columns::PERCENTILES.as_flattened(),
        &columns::ENQUEUED,
    ];
    let delivery = columns::delivery(rows.iter().map(|row| &row.pooled));
    let lanes = columns::lanes(rows.iter().map(|row| &row.pooled));
    let profiled = columns::profiled_stages(rows.iter().map(|row| &row.pooled));
    let columns: Vec<&[Column]> = columns.into_iter().chain([delivery, lanes, profiled]).collect();
    write_table(
        out,
        &columns,
        rows.into_iter().map(|row| TableRow { record: &row.pooled, runs: row.runs }),
    )
}
