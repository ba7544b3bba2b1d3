/*!
The main table: a line for each model under one set of conditions on one platform.
*/

use maud::{Markup, html};

use super::cells::{badge, badges, number, table as cells_table, text};
use crate::content::Report;
use crate::data::{CONDITIONS, Group};

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
    ("gpu_peak_alloc_MiB", "GPU allocated MiB", 0),
    ("gpu_peak_reserved_MiB", "GPU process MiB", 0),
    ("cpu_peak_rss_MiB", "Host MiB", 0),
    ("power_w", "Power W", 1),
    ("energy_j_per_frame", "J per frame", 3),
];

fn lines(report: &Report) -> Markup {
    // Columns without any number would push the others off the screen, so they are named below the
    // table.
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
        "Means over objects, or over passes if a table has a row for each; latencies are means of \
         each row's percentile. Objects: measured of all.",
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

/// A verdict concerns speed, so quality is not struck through.
fn is_quality(column: &str) -> bool {
    matches!(column, "J" | "F" | "JandF")
}

/// The table, and the reasons of rows that do not count.
pub fn table(report: &Report) -> Markup {
    let rejected: Vec<&Group> =
        report.groups.iter().filter(|group| !group.reasons.is_empty()).collect();
    html! {
        (lines(report))
        (conditions(report))
        @if !rejected.is_empty() {
            h3 { "Why rows are INVALID or have no numbers" }
            @for group in rejected {
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

/// The conditions of each line. They have a table of their own because it is wide.
fn conditions(report: &Report) -> Markup {
    let is_known =
        |column: &str| report.groups.iter().any(|group| group.conditions.get(column).is_some());
    let columns: Vec<&str> = CONDITIONS.into_iter().filter(|column| is_known(column)).collect();
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
            (cells_table("Shared conditions of a line's rows", true, &head, &body))
        }
    }
}
