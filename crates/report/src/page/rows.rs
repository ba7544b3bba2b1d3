/*!
Every row, INVALID ones struck through with the reason.
*/

use maud::{Markup, html};

use super::cells::{badge, heads, number, table as cells_table};
use crate::content::{Report, RowEntry};
use crate::input::Validity;

/// Browsers open a page with more rows slowly.
const SHOWN: usize = 1000;

const NUMBERS: [(&str, usize); 9] = [
    ("frames", 0),
    ("fps", 2),
    ("latency_p50_ms", 2),
    ("latency_p95_ms", 2),
    ("latency_p99_ms", 2),
    ("J", 4),
    ("F", 4),
    ("JandF", 4),
    ("gpu_peak_alloc_MiB", 1),
];

/// The table, and the number of omitted rows.
pub fn table(report: &Report) -> Markup {
    let head = heads(
        &[
            "Model",
            "Platform",
            "Video",
            "Object",
            "Verdict and reason",
            "Frames",
            "FPS",
            "P50 ms",
            "P95 ms",
            "P99 ms",
            "J",
            "F",
            "J&F",
            "GPU allocated MiB",
        ],
        5,
    );
    let body = html! { @for entry in report.rows.iter().take(SHOWN) { (line(report, entry)) } };
    let hidden = report.rows.len().saturating_sub(SHOWN);
    html! {
        details.bulk open[report.rows.len() <= 40] {
            summary { (report.rows.len()) " rows" }
            @if hidden > 0 {
                p { "The first " (SHOWN) " are shown; " (hidden) " more are in the tables \
                    themselves and in " code { "segtrt \
                    report --json" } "." }
            }
            (cells_table("Values of the tables", true, &head, &body))
        }
    }
}

fn line(report: &Report, entry: &RowEntry) -> Markup {
    let (row, group) = (&entry.row, &report.groups[entry.group]);
    let validity = row.validity();
    let struck = validity == Validity::Invalid;
    let (video, object, _) = row.key();
    let object = match row.text("run") {
        Some(run) => format!("{object} run {run}"),
        None => object.to_owned(),
    };
    // A row that is not ok has no numbers, even if its fields do.
    let value = |column: &str| {
        row.number(column).filter(|_| validity != Validity::Unmeasured || column == "frames")
    };
    html! {
        tr class=[struck.then_some("invalid")] {
            th scope="row" { (group.name) }
            td { (group.platform) }
            td.wrap { (video) }
            td { (object) }
            td { (badge(validity)) @if let Some(why) = row.why().filter(|_| !validity.counts()) { div.reason { (why) } } }
            @for (column, digits) in NUMBERS { (number(value(column), digits, struck && !matches!(column, "J" | "F" | "JandF" | "frames"))) }
        }
    }
}
