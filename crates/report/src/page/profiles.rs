/*!
Profiles of Nsight Systems: ranges by platform, utilisation over time, kernels, copies.
*/

use maud::{Markup, html};

use super::part::Part;
use super::plots::figures as draw;
use crate::chart::{Plot, thousands};
use crate::content::Report;
use crate::figures::Figures;
use crate::input::{NsysOperation, NsysPlatform, NsysReport, NsysRow};
use crate::table::{Cell, NOT_MEASURED, Table};

/// Number of operations shown of a profile.
const TOP: usize = 10;
/// Number of outliers shown.
const OUTLIERS: usize = 30;

/// Captions of the tables that are shown as they are.
const TABLES: [(&str, &str); 5] = [
    ("cuda_gpu_kern_hist", "Durations of each kernel"),
    ("cuda_gpu_kern_pace", "Intervals between starts of each kernel"),
    ("cuda_memcpy_async", "Asynchronous copies by kind of memory"),
    ("cuda_memcpy_sync", "Copies that the host waits for"),
    ("cuda_memset_sync", "Fills that the host waits for"),
];

/// Ranges of the platforms, then each profile; none without one.
pub fn parts(report: &Report, figures: &Figures) -> Vec<Part> {
    if report.nsys.is_empty() {
        return Vec::new();
    }
    let of_kernels = |plot: &&Plot| plot.name.starts_with("kernel_");
    let (kernels, others): (Vec<&Plot>, Vec<&Plot>) = figures.profiles.iter().partition(of_kernels);
    let others: Vec<Plot> = others.into_iter().cloned().collect();
    let kernels: Vec<Plot> = kernels.into_iter().cloned().collect();
    let mut parts = vec![Part::Html(draw(&others))];
    let several = report.nsys_platforms.len() > 1;
    for (at, platform) in report.nsys_platforms.iter().enumerate() {
        parts.extend(of_platform(at, platform, several));
    }
    if !kernels.is_empty() {
        let summary = html! { "Histograms of kernels" };
        parts.push(Part::fold(
            summary,
            report.nsys.len() == 1,
            "small",
            vec![Part::Html(draw(&kernels))],
        ));
    }
    for (at, profile) in report.nsys.iter().enumerate() {
        parts.extend(of_profile(at, profile, several));
    }
    parts
}

/// The boxes of a platform as numbers, and its outliers.
fn of_platform(at: usize, platform: &NsysPlatform, several: bool) -> Vec<Part> {
    let rows = |table: &str| platform.tables.get(table).map(Vec::as_slice).unwrap_or_default();
    let of = if several { format!(", {}", platform.name) } else { String::new() };
    let outliers = rows("nvtx_outliers");
    let shown = outliers.len().min(OUTLIERS);
    let boxes = as_it_is(&format!("ranges_{}", at + 1), &format!("Ranges{of}"), rows("nvtx_box"));
    let caption = format!("Outliers of ranges{of}: {shown} of {}", outliers.len());
    let table = as_it_is(&format!("outliers_{}", at + 1), &caption, &outliers[..shown]);
    [boxes, table]
        .into_iter()
        .flatten()
        .map(|table| {
            let summary = html! { (table.caption) };
            Part::fold(summary, false, "small", vec![Part::Table(table)])
        })
        .collect()
}

/// Longest and largest operations of a profile, and its tables of kernels and copies.
fn of_profile(at: usize, profile: &NsysReport, several: bool) -> Vec<Part> {
    let mut parts = vec![Part::Html(html! {
        h3 {
            (profile.name)
            @if several && !profile.platform.is_empty() { " · " (profile.platform) }
        }
        @for fault in &profile.faults { p { strong { "Do not use: " } (fault) } }
        p {
            "GPU busy " (percent(profile.gpu_util_percent)) " of the time; "
            "memory bandwidth over its peak: " (percent(profile.bandwidth_percent))
            @if profile.bandwidth_percent.is_none() {
                " (" code { "segtrt profile --gpu-metrics all" } " records it, where the driver permits)"
            }
            "."
        }
    })];
    let of = format!("profile_{}", at + 1);
    parts.push(operations(
        &format!("{of}_time"),
        "Longest operations on the GPU",
        ["Time ms", "% of all", "Calls"],
        &profile.by_time(),
        |op| op.total_ns,
    ));
    parts.push(operations(
        &format!("{of}_memory"),
        "Largest copies and fills",
        ["MB", "% of all", "Calls"],
        &profile.by_memory(),
        |op| op.bytes,
    ));
    for (name, caption) in TABLES {
        let caption = format!("{caption}, {}", profile.name);
        if let Some(table) = as_it_is(&format!("{of}_{name}"), &caption, profile.rows(name)) {
            let summary = html! { (table.caption) };
            parts.push(Part::fold(summary, false, "bulk", vec![Part::Table(table)]));
        }
    }
    parts
}

/// A table of nsys with texts first, times in µs and sizes in MB; none without a row. Numbers of
/// intervals are in the plots.
fn as_it_is(name: &str, caption: &str, rows: &[NsysRow]) -> Option<Table> {
    let first = rows.first()?;
    let has_text = |column: &str| rows.iter().any(|row| row.text(column).is_some());
    let columns = first.0.iter().filter(|(_, value)| !value.is_array()).map(|(column, _)| column);
    let (texts, numbers): (Vec<&String>, Vec<&String>) = columns.partition(|name| has_text(name));
    let heads: Vec<String> = texts
        .iter()
        .chain(&numbers)
        .map(|column| column.replace("(ns)", "µs").replace("(B)", "MB").replace("(%)", "%"))
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(name, caption, &heads, texts.len());
    for row in rows {
        let text = |column: &&String| match row.text(column) {
            Some(text) => Cell::text(text),
            None => Cell { none: true, ..Cell::text("unknown") },
        };
        let number = |column: &&String| {
            let (scale, digits) = match column.as_str() {
                name if name.ends_with("(ns)") => (1e-3, 1),
                name if name.ends_with("(B)") => (1e-6, 3),
                name if name.ends_with("(%)") || name == "GB/s" || name == "Times Med" => (1.0, 1),
                _ => (1.0, 0),
            };
            Cell::number(row.number(column).map(|value| value * scale), digits, false)
        };
        let cells = texts.iter().map(text).chain(numbers.iter().map(number));
        table.push(cells.collect(), false);
    }
    Some(table)
}

fn percent(value: Option<f64>) -> Markup {
    match value {
        Some(value) => html! { strong { (thousands(value, 1)) " %" } },
        None => html! { span.none { (NOT_MEASURED) } },
    }
}

/// The first operations of a list with their share; `value` is in ns or bytes, shown in millions.
fn operations(
    name: &str,
    caption: &str,
    [unit, share, calls]: [&str; 3],
    all: &[&NsysOperation],
    value: fn(&NsysOperation) -> Option<f64>,
) -> Part {
    if all.is_empty() {
        return Part::Html(html! { p.none { (caption) ": " (NOT_MEASURED) "." } });
    }
    let caption = format!("{caption}: {} of {}", all.len().min(TOP), all.len());
    let mut table = Table::new(name, &caption, &["Operation", "Table", unit, share, calls], 2);
    let total: f64 = all.iter().filter_map(|op| value(op)).sum();
    for op in all.iter().take(TOP) {
        let cells = vec![
            Cell::text(&op.name),
            Cell::text(&op.table),
            Cell::number(value(op).map(|value| value / 1e6), 3, false),
            Cell::number(value(op).map(|value| 100.0 * value / total), 1, false),
            Cell::number(op.count, 0, false),
        ];
        table.push(cells, false);
    }
    Part::Table(table)
}
