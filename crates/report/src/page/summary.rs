/*!
The table that most readers came for: one line for each model under one set of conditions on one
platform.
*/

use maud::{Markup, html};

use super::cells::{badge, badges, number, table as cells_table, text};
use crate::data::{CONDITIONS, Group, Report};

/// Column, heading, decimals.
type Number = (&'static str, &'static str, usize);

const NUMBERS: [Number; 14] = [
    ("fps", "FPS", 1),
    ("latency_p50_ms", "P50 ms", 2),
    ("latency_p95_ms", "P95 ms", 2),
    ("latency_p99_ms", "P99 ms", 2),
    ("first_frame_ms", "First frame ms", 1),
    ("setup_ms", "Set-up ms", 0),
    ("J", "J", 4),
    ("F", "F", 4),
    ("JandF", "J&F", 4),
    ("gpu_peak_alloc_MiB", "GPU own MiB", 0),
    ("gpu_peak_reserved_MiB", "GPU process MiB", 0),
    ("cpu_peak_rss_MiB", "Host MiB", 0),
    ("power_w", "Power W", 1),
    ("energy_j_per_frame", "J per frame", 3),
];

fn lines(report: &Report) -> Markup {
    // Columns of nothing but "not measured" push those with numbers off a screen: they are named
    // below instead.
    let has_numbers =
        |(column, _, _): &Number| report.groups.iter().any(|group| group.mean(column).is_some());
    let (shown, unmeasured): (Vec<Number>, Vec<Number>) =
        NUMBERS.into_iter().partition(|number| number.0 == "fps" || has_numbers(number));
    let unmeasured: Vec<&str> = unmeasured.into_iter().map(|(_, name, _)| name).collect();
    let head = html! {
        th scope="col" { "Model" }
        th scope="col" { "Platform" }
        th scope="col" { "Verdicts" }
        th scope="col" class="n" { "Objects" }
        @for (_, name, _) in &shown { th scope="col" class="n" { (name) } }
        th scope="col" { "Device" }
    };
    let body = html! { @for group in &report.groups { (line(group, &shown)) } };
    let table = cells_table(
        "Means over objects, or over passes where a table has a row for each; latencies are means of each row's percentile. Objects: measured of all.",
        true,
        &head,
        &body,
    );
    html! {
        (table)
        @if !unmeasured.is_empty() {
            p.muted { "Not measured in any line: " (unmeasured.join(", ")) "." }
        }
    }
}

fn line(group: &Group, shown: &[Number]) -> Markup {
    let struck = group.invalid;
    html! {
        tr class=[struck.then_some("invalid")] {
            th scope="row" { @if struck { s { (group.name) } } @else { (group.name) } }
            td { (group.platform) }
            td { (badges(group)) }
            td.n data-v=(group.counts.objects_measured) { (group.counts.objects_measured) "/" (group.counts.objects) }
            @for (column, _, digits) in shown { (number(group.mean(column), *digits, struck && !is_quality(column))) }
            (text(group.conditions.get("device")))
        }
    }
}

/// The verdict speaks of speed: quality is not struck.
fn is_quality(column: &str) -> bool {
    matches!(column, "J" | "F" | "JandF")
}

/// The table, and the reasons of rows that do not count.
pub fn table(report: &Report) -> Markup {
    let doubted: Vec<&Group> =
        report.groups.iter().filter(|group| !group.reasons.is_empty()).collect();
    html! {
        (lines(report))
        (conditions(report))
        @if !doubted.is_empty() {
            h3 { "Why rows are INVALID or have no numbers" }
            @for group in doubted {
                details open[group.invalid] {
                    summary { (group.full_name()) " " (badges(group)) }
                    ul.notes {
                        @for reason in &group.reasons {
                            li { (reason.rows) " × " (badge(reason.state)) ": " (reason.text) }
                        }
                    }
                }
            }
        }
    }
}

/// What each line was measured under, apart from the numbers: a table of its own, because it is
/// wide.
fn conditions(report: &Report) -> Markup {
    let said =
        |column: &str| report.groups.iter().any(|group| group.conditions.get(column).is_some());
    let columns: Vec<&str> = CONDITIONS.into_iter().filter(|column| said(column)).collect();
    let weights = report.groups.iter().any(|group| group.weights.is_some());
    let head = html! {
        th scope="col" { "Model" }
        th scope="col" { "Platform" }
        @for column in &columns { th scope="col" { (column.replace('_', " ")) } }
        @if weights { th scope="col" { "weights" } }
    };
    let body = html! {
        @for group in &report.groups {
            tr {
                th scope="row" { (group.name) }
                td { (group.platform) }
                @for column in &columns { (text(group.conditions.get(column))) }
                @if weights { (text(group.weights.as_deref())) }
            }
        }
    };
    html! {
        details {
            summary { "Conditions of each line" }
            (cells_table("What rows of a line have in common", true, &head, &body))
        }
    }
}
