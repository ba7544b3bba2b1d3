/*!
Latency, stages, memory and power: plots with their numbers.
*/

use maud::{Markup, html};

use super::cells::{heads, in_text, number, table, text};
use super::plots::{figures as draw, or_not_measured};
use crate::content::Report;
use crate::data::{Frames, Group, StageTable};
use crate::figures::Figures;

/// Percentiles over all frames, distributions, time series.
pub fn latency(report: &Report, figures: &Figures) -> Markup {
    let shown: Vec<(&Group, &Frames)> =
        report.groups.iter().filter_map(|group| Some((group, group.frames.as_ref()?))).collect();
    if shown.is_empty() {
        return html! { p.none { "Not measured: no run has a sidecar with frame times." } };
    }
    let head = heads(
        &[
            "Model",
            "Platform",
            "Times are",
            "Passes",
            "Frames",
            "Mean ms",
            "SD",
            "Min",
            "P50",
            "P90",
            "P95",
            "P99",
            "P99.9",
            "Max",
        ],
        3,
    );
    let body = html! {
        @for (group, frames) in &shown {
            @let struck = group.invalid;
            tr class=[struck.then_some("invalid")] {
                th scope="row" { (group.name) }
                td { (group.platform) }
                td { @if frames.kind == "latency" { "latencies" } @else { "intervals" } }
                (number(Some(frames.passes as f64), 0, false))
                (number(Some(frames.frames as f64), 0, false))
                @for value in [Some(frames.mean_ms), Some(frames.std_ms), Some(frames.min_ms), Some(frames.p50_ms), Some(frames.p90_ms),
                    Some(frames.p95_ms), Some(frames.p99_ms), frames.p999_ms, Some(frames.max_ms)] {
                    (number(value, 3, struck))
                }
            }
        }
    };
    html! {
        (draw(&figures.latency))
        (table("All frames after the prompted one of every valid pass. P99.9 needs a thousand \
                frames.", true, &head, &body))
    }
}

/// The breakdown of every group.
pub fn stages(report: &Report, figures: &Figures) -> Markup {
    let shown: Vec<(&Group, &StageTable)> =
        report.groups.iter().filter_map(|group| Some((group, group.stages.as_ref()?))).collect();
    if shown.is_empty() {
        return html! { p.none { "Not measured: no row has stage times." } };
    }
    html! {
        (draw(&figures.stages))
        @for (group, stages) in shown {
            details.small {
                summary { (group.full_name()) ": " (in_text(Some(stages.frame_ms), 2, "ms a \
                    frame")) }
                (breakdown(group, stages))
            }
        }
    }
}

fn breakdown(group: &Group, stages: &StageTable) -> Markup {
    let struck = group.invalid;
    let whole = if stages.overlapping { "% of all stages" } else { "% of the frame" };
    let head =
        heads(&["Stage", "Time ms per frame", "ms of frames with it", whole, "% with decoding"], 1);
    let total = stages.lines[0].per_frame_ms.map(|decode| decode + stages.frame_ms);
    let body = html! {
        @for line in &stages.lines {
            tr {
                th scope="row" { (line.label) }
                (number(line.per_frame_ms, 3, struck))
                (number(line.where_it_ran_ms, 3, struck))
                @if line.column == "decode_ms" { td.n.none { "outside" } } @else { (number(line.percent_of_frame, 1, struck)) }
                (number(line.percent_of_all, 1, struck))
            }
        }
        tr {
            th scope="row" { "Encode (video)" }
            td.n.none colspan="4" { "not measured: bench writes no video" }
        }
        @if let Some(rest) = stages.unexplained_ms {
            tr {
                th scope="row" { "Outside all stages" }
                (number(Some(rest), 3, struck))
                td.n {}
                (number(Some(100.0 * rest / stages.frame_ms), 1, struck))
                (number(total.map(|total| 100.0 * rest / total), 1, struck))
            }
        }
        tr {
            th scope="row" { @if stages.overlapping { "Between two \
                masks" } @else { "Total of a \
                frame" } }
            (number(Some(stages.frame_ms), 3, struck))
            td.n {} td.n {} td.n {}
        }
        @if !stages.overlapping {
            tr {
                th scope="row" { "Total with decoding" }
                (number(total, 3, struck))
                td.n {} td.n {} td.n {}
            }
        }
    };
    let from = match stages.from {
        "frames" => format!("Sums over {} frames.", stages.frames),
        _ => format!(
            "From the stage columns of the table, weighted by {} frames, because there is no \
             sidecar.",
            stages.frames
        ),
    };
    table(&from, false, &head, &body)
}

/// Peaks.
pub fn memory(report: &Report, figures: &Figures) -> Markup {
    let head = heads(
        &[
            "Model",
            "Platform",
            "GPU allocated MiB",
            "GPU process MiB",
            "GPU process (driver) MiB",
            "Whole device MiB",
            "Device size MiB",
            "% of device",
            "Host MiB",
        ],
        2,
    );
    let body = html! {
        @for group in report.groups.iter().filter(|group| group.counts.measured > 0) {
            @let struck = group.invalid;
            tr class=[struck.then_some("invalid")] {
                th scope="row" { (group.name) }
                td { (group.platform) }
                (number(group.max("gpu_peak_alloc_MiB"), 1, struck))
                (number(group.max("gpu_peak_reserved_MiB"), 1, struck))
                (number(group.observed_max.get("process_memory_mib").copied(), 1, struck))
                (number(group.observed_max.get("device_memory_mib").copied(), 1, struck))
                (number(group.device_memory.as_ref().map(|memory| memory.total_mib), 0, false))
                (number(group.device_memory.as_ref().map(|memory| memory.percent), 1, struck))
                (number(group.max("cpu_peak_rss_MiB"), 1, struck))
            }
        }
    };
    html! {
        (or_not_measured(&figures.memory, "a memory peak"))
        (table("Maximum over all objects", true, &head, &body))
        (bandwidth(report))
        @for group in report.groups.iter() {
            @if let Some(memory) = &group.device_memory {
                p.muted { (group.full_name()) ": % of device is the peak of " (memory.peak_of) "; \
                    the size is from " (memory.total_from) "." }
            }
        }
    }
}

/// The link and the device's memory against their peaks; nothing if no run has either.
fn bandwidth(report: &Report) -> Markup {
    let known = |group: &&Group| {
        let found = &group.bandwidth;
        found.upload_gb_per_s.is_some() || found.memory_gb_per_s.is_some()
    };
    let head = heads(
        &[
            "Model",
            "Platform",
            "Upload GB/s",
            "Link peak GB/s",
            "% of link",
            "Device memory peak GB/s",
            "% of peak",
        ],
        2,
    );
    let body = html! {
        @for group in report.groups.iter().filter(known) {
            @let (found, struck) = (&group.bandwidth, group.invalid);
            tr class=[struck.then_some("invalid")] {
                th scope="row" { (group.name) }
                td { (group.platform) }
                (number(found.upload_gb_per_s, 1, struck))
                (number(found.link_gb_per_s, 1, false))
                (number(found.link_percent, 1, struck))
                (number(found.memory_gb_per_s, 0, false))
                (number(None, 1, false))
            }
        }
    };
    html! {
        @if report.groups.iter().any(|group| known(&group)) {
            h3 { "Bandwidth" }
            (table("Frames over the link, three bytes a pixel. Only a profiler measures the \
                    kernels' memory bandwidth (--nsys).", true, &head, &body))
        }
    }
}

/// Sensors.
pub fn power(report: &Report, figures: &Figures) -> Markup {
    let sensors = [
        "power_w",
        "energy_j_per_frame",
        "sm_clock_mhz_min",
        "sm_clock_mhz_mean",
        "temperature_c_max",
        "gpu_util",
    ];
    let watched = |group: &&Group| {
        sensors.iter().any(|column| group.mean(column).is_some()) || !group.observed_max.is_empty()
    };
    if !report.groups.iter().any(|group| watched(&group)) {
        return html! { p.none { "Not measured: these runs have no sensor readings of a GPU." } };
    }
    let head = heads(
        &[
            "Model",
            "Platform",
            "Throttled",
            "Mean W",
            "Max W",
            "J per frame",
            "SM clock min MHz",
            "SM clock mean MHz",
            "Memory clock MHz",
            "Max °C",
            "GPU busy %",
        ],
        3,
    );
    let body = html! {
        @for group in report.groups.iter().filter(|group| group.counts.measured > 0) {
            @let struck = group.invalid;
            @let throttle: Vec<String> = group.throttle.iter().map(|(word, rows)| format!("{word} \
                in {rows} rows")).collect();
            tr class=[struck.then_some("invalid")] {
                th scope="row" { (group.name) }
                td { (group.platform) }
                @if !throttle.is_empty() { td { (throttle.join(", ")) } }
                @else if group.throttle_rows == 0 { (text(None)) }
                @else if group.throttle_rows < group.counts.measured { td { "none seen \
                    in " (group.throttle_rows) " \
                    rows" } }
                @else { td { "none seen" } }
                (number(group.mean("power_w"), 1, struck))
                (number(group.observed_max.get("power_max_w").copied(), 1, struck))
                (number(group.mean("energy_j_per_frame"), 4, struck))
                (number(group.stats.get("sm_clock_mhz_min").map(|stat| stat.min), 0, struck))
                (number(group.mean("sm_clock_mhz_mean"), 0, struck))
                (number(group.observed_max.get("memory_clock_mhz").copied(), 0, struck))
                (number(group.max("temperature_c_max"), 0, struck))
                (number(group.mean("gpu_util"), 1, struck))
            }
        }
    };
    html! {
        (draw(&figures.power))
        (table("From the GPU's sensors, over the valid passes", true, &head, &body))
    }
}
