/*!
`profile_summary.csv`: one row per recorded pass.

The predecessor's columns come first, in its order and with its rounding; segtrt's follow.
*/

use std::io::Write;

use anyhow::Result;

use super::columns::{self, Column, TableRow, write_table};
use super::python_format::Cell;
use crate::record::RunRecord;

/// File name, the predecessor's.
pub const FILE_NAME: &str = "profile_summary.csv";

const PREDECESSOR: [Column; 13] = [
    columns::VIDEO,
    columns::OBJECT,
    columns::MODEL,
    ("run", |r| Cell::count(Some(r.record.run))),
    columns::IMGSZ,
    columns::FRAMES,
    columns::FPS,
    columns::LATENCY,
    columns::GPU_ALLOC,
    columns::GPU_RESERVED,
    columns::CPU_RSS,
    ("nsight_report", |r| Cell::text(r.record.nsight_report.as_deref())),
    columns::SETUP,
];

const DOCUMENTED: [Column; 5] = [
    columns::PRECISION,
    ("H", |r| Cell::count(r.record.input_size.map(|[height, _]| height))),
    ("W", |r| Cell::count(r.record.input_size.map(|[_, width]| width))),
    ("infer_H", |r| Cell::count(r.record.infer_size.map(|[height, _]| height))),
    ("infer_W", |r| Cell::count(r.record.infer_size.map(|[_, width]| width))),
];

/// Writes the header and one row per pass, in the order given.
pub fn write<'a>(
    out: &mut impl Write,
    runs: impl IntoIterator<Item = &'a RunRecord>,
) -> Result<()> {
    let runs: Vec<&RunRecord> = runs.into_iter().collect();
    let columns: [&[Column]; 10] = [
        &PREDECESSOR,
        &DOCUMENTED,
        &columns::OUTCOME,
        &columns::QUALITY,
        &columns::DETAIL,
        &columns::BELIEF,
        &columns::PACE,
        &columns::ROOFLINE,
        columns::PERCENTILES.as_flattened(),
        &columns::ENQUEUED,
    ];
    let delivery = columns::delivery(runs.iter().copied());
    let lanes = columns::lanes(runs.iter().copied());
    let profiled = columns::profiled_stages(runs.iter().copied());
    let columns: Vec<&[Column]> = columns.into_iter().chain([delivery, lanes, profiled]).collect();
    write_table(out, &columns, runs.into_iter().map(|record| TableRow { record, runs: 1 }))
}
