/*!
Every row, INVALID ones struck through with the reason.
*/

use maud::html;

use super::part::Part;
use crate::content::{Report, RowEntry};
use crate::input::Validity;
use crate::table::{Cell, Table};

/// Browsers open a page with more rows slowly.
const SHOWN: usize = 1000;

/// Column, heading, decimals, factor.
type Number = (&'static str, &'static str, usize, f64);

const NUMBERS: [Number; 9] = [
    ("frames", "Frames", 0, 1.0),
    ("fps", "FPS", 2, 1.0),
    ("latency_p50_ms", "P50 ms", 2, 1.0),
    ("latency_p95_ms", "P95 ms", 2, 1.0),
    ("latency_p99_ms", "P99 ms", 2, 1.0),
    ("J", "J, %", 2, 100.0),
    ("F", "F, %", 2, 100.0),
    ("JandF", "J&F, %", 2, 100.0),
    ("gpu_peak_alloc_MiB", "GPU allocated MiB", 1, 1.0),
];

/// The table, and the number of omitted rows.
pub fn parts(report: &Report) -> Vec<Part> {
    let mut heads =
        vec!["Model", report.platforms.kind.word(), "Video", "Object", "Verdict and reason"];
    let first = heads.len();
    heads.extend(NUMBERS.iter().map(|(_, name, ..)| *name));
    let mut table = Table::new("rows", "Values of the tables", &heads, first);
    for entry in report.rows.iter().take(SHOWN) {
        let invalid = entry.row.validity() == Validity::Invalid;
        table.push(line(report, entry), invalid);
    }
    let hidden = report.rows.len().saturating_sub(SHOWN);
    let words = html! {
        @if hidden > 0 {
            p { "The first " (SHOWN) " are shown; " (hidden) " more are in the tables themselves and in "
                code { "segtrt report --json" } "." }
        }
    };
    let summary = html! { (report.rows.len()) " rows" };
    let open = report.rows.len() <= 40;
    vec![Part::fold(summary, open, "bulk", vec![Part::Html(words), Part::Table(table)])]
}

fn line(report: &Report, entry: &RowEntry) -> Vec<Cell> {
    let (row, group) = (&entry.row, &report.groups[entry.group]);
    let validity = row.validity();
    let (video, object, _) = row.key();
    let object = match row.text("run") {
        Some(run) => format!("{object} run {run}"),
        None => object.to_owned(),
    };
    let reason = row.why().filter(|_| !validity.counts()).unwrap_or_default();
    let mut cells = vec![
        Cell::text(&group.name),
        Cell::text(&group.platform),
        Cell::text(video).wrapped(),
        Cell::text(object),
        Cell::validity(validity).with(reason),
    ];
    for (column, _, digits, factor) in NUMBERS {
        // A row that is not ok has no numbers, even if its fields do.
        let shown = validity != Validity::Unmeasured || column == "frames";
        let value = row.number(column).filter(|_| shown).map(|value| factor * value);
        let speed = !matches!(column, "J" | "F" | "JandF" | "frames");
        cells.push(Cell::number(value, digits, validity == Validity::Invalid && speed));
    }
    cells
}
