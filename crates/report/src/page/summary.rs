/*!
The main table: a line for each model under one set of conditions on one platform.
*/

use maud::html;

use super::details::{named, not_measured};
use super::part::{Part, badge_cell};
use crate::content::Report;
use crate::data::{CONDITIONS, Group};
use crate::table::{Cell, Table, shown};

/// Column, heading, decimals.
type Number = (&'static str, &'static str, usize);

const NUMBERS: [Number; 14] = [
    ("fps", "FPS", 1),
    ("latency_p50_ms", "P50 ms", 2),
    ("latency_p95_ms", "P95 ms", 2),
    ("latency_p99_ms", "P99 ms", 2),
    ("first_frame_ms", "First frame ms", 1),
    ("setup_ms", "Set-up ms", 0),
    ("J", "J, %", 2),
    ("F", "F, %", 2),
    ("JandF", "J&F, %", 2),
    ("gpu_peak_alloc_MiB", "GPU allocated MiB", 0),
    ("gpu_peak_reserved_MiB", "GPU process MiB", 0),
    ("cpu_peak_rss_MiB", "Host MiB", 0),
    ("power_w", "Power W", 1),
    ("energy_j_per_frame", "J per frame", 3),
];
/// Columns before the numbers.
const FIRST: usize = 4;

/// The table and its conditions.
pub fn parts(report: &Report) -> Vec<Part> {
    let mut heads = vec!["Model", report.platforms.kind.word(), "Verdicts", "Objects"];
    heads.extend(NUMBERS.iter().map(|(_, name, _)| *name));
    heads.push("Device");
    let caption = format!(
        "FPS: frames over the sum of their times, with half its 95 % interval over rows. Latencies \
         are means of each row's percentile. Objects: measured of all.{}",
        metrics(report)
    );
    let mut table = Table::new("summary", &caption, &heads, FIRST - 1);
    if let Some(device) = table.heads.last_mut() {
        device.1 = false;
    }
    for group in &report.groups {
        table.push(line(group), group.invalid);
    }
    // Columns without any number would push the others off the screen, so they are named below.
    let missing = table.drop_empty(FIRST);
    vec![Part::Table(table), not_measured(&missing), conditions(report)]
}

/// The rules of J&F, as the runs name them.
fn metrics(report: &Report) -> String {
    let mut rules: Vec<&str> = report
        .groups
        .iter()
        .filter(|group| group.mean("JandF").is_some())
        .map(|group| group.conditions.get("metrics").unwrap_or("rules not named"))
        .collect();
    rules.sort_unstable();
    rules.dedup();
    match rules.as_slice() {
        [] => String::new(),
        rules => format!(" J, F and J&F: {}.", rules.join(", ")),
    }
}

fn line(group: &Group) -> Vec<Cell> {
    let objects = group.counts.objects_measured;
    let mut cells = named(group).to_vec();
    cells.push(badge_cell(group));
    cells.push(Cell::right(format!("{objects}/{}", group.counts.objects), Some(objects as f64)));
    for (column, _, digits) in NUMBERS {
        // A verdict concerns speed, so quality is not struck through.
        let quality = matches!(column, "J" | "F" | "JandF");
        let mean = group.mean(column).map(|mean| if quality { 100.0 * mean } else { mean });
        let cell = Cell::number(mean, digits, group.invalid && !quality);
        let half = group.stats.get(column).and_then(|stat| stat.half_interval());
        cells.push(match half.filter(|_| column == "fps") {
            Some(half) => cell.with(format!("± {}", shown(half, digits))),
            None => cell,
        });
    }
    cells.push(Cell::known(group.conditions.get("device")));
    cells
}

/// The conditions of each line. They have a table of their own because it is wide.
fn conditions(report: &Report) -> Part {
    let is_known =
        |column: &str| report.groups.iter().any(|group| group.conditions.get(column).is_some());
    let columns: Vec<&str> = CONDITIONS.into_iter().filter(|column| is_known(column)).collect();
    let words: Vec<String> = columns.iter().map(|column| column.replace('_', " ")).collect();
    let mut heads = vec!["Model", report.platforms.kind.word()];
    heads.extend(words.iter().map(String::as_str));
    let weights = report.groups.iter().any(|group| group.weights.is_some());
    if weights {
        heads.push("weights");
    }
    let caption = "Shared conditions of a line's rows";
    let mut table = Table::new("conditions", caption, &heads, usize::MAX);
    for group in &report.groups {
        let mut cells = named(group).to_vec();
        cells.extend(columns.iter().map(|column| Cell::known(group.conditions.get(column))));
        if weights {
            cells.push(Cell::known(group.weights.as_deref()));
        }
        table.push(cells, false);
    }
    let summary = html! { "Conditions of each line" };
    Part::fold(summary, false, "", vec![Part::Table(table)])
}
