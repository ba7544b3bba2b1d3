/*!
`sav_benchmark_summary.csv`: one row per video, object and model.

The predecessor's columns come first, in its order and with its rounding; ours follow.
*/

use std::io::Write;

use anyhow::Result;

use super::columns::{self, Column, Row, write_table};
use super::python_format::Cell;
use crate::record::SummaryRecord;

/// File name, the predecessor's.
pub const FILE_NAME: &str = "sav_benchmark_summary.csv";

const PREDECESSOR: [Column; 12] = [
    columns::VIDEO,
    columns::OBJECT,
    columns::MODEL,
    columns::IMGSZ,
    columns::PRECISION,
    columns::FRAMES,
    ("processed_end_frame", |r| Cell::count(r.record.processed_end_frame)),
    columns::FPS,
    columns::LATENCY,
    columns::GPU_ALLOC,
    columns::GPU_RESERVED,
    columns::CPU_RSS,
];

const PREDECESSOR_AFTER_QUALITY: [Column; 6] = [
    ("overlay", |r| Cell::text(r.record.overlay.as_deref())),
    ("input_H", |r| Cell::count(r.record.input_size.map(|[height, _]| height))),
    ("input_W", |r| Cell::count(r.record.input_size.map(|[_, width]| width))),
    ("infer_H", |r| Cell::count(r.record.infer_size.map(|[height, _]| height))),
    ("infer_W", |r| Cell::count(r.record.infer_size.map(|[_, width]| width))),
    columns::SETUP,
];

/// Writes the header and one row per record, in the order given.
pub fn write<'a>(
    out: &mut impl Write,
    rows: impl IntoIterator<Item = &'a SummaryRecord>,
) -> Result<()> {
    let columns: [&[Column]; 7] = [
        &PREDECESSOR,
        &columns::QUALITY,
        &PREDECESSOR_AFTER_QUALITY,
        &columns::OUTCOME,
        &columns::DETAIL,
        &columns::BELIEF,
        &columns::PACE,
    ];
    write_table(
        out,
        &columns,
        rows.into_iter().map(|row| Row { record: &row.pooled, runs: row.runs }),
    )
}
