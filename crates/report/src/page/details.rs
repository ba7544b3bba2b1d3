/*!
Accuracy, latency, stages and memory: plots with their numbers.
*/

use maud::html;

use super::memory;
use super::part::Part;
use super::plots::{figures as draw, or_not_measured};
use crate::content::Report;
use crate::data::{Frames, Group, StageTable};
use crate::figures::Figures;
use crate::table::{Cell, Table, in_text};

/// Speed against accuracy.
pub fn accuracy(_: &Report, figures: &Figures) -> Vec<Part> {
    vec![Part::Html(or_not_measured(&figures.speed, "both a speed and J&F"))]
}

/// The first cells of a group's row.
pub fn named(group: &Group) -> [Cell; 2] {
    [Cell::text(&group.name), Cell { series: Some(group.series), ..Cell::text(&group.platform) }]
}

/// Percentiles over all frames, distributions, time series.
pub fn latency(report: &Report, figures: &Figures) -> Vec<Part> {
    let shown: Vec<(&Group, &Frames)> =
        report.groups.iter().filter_map(|group| Some((group, group.frames.as_ref()?))).collect();
    if shown.is_empty() {
        let words = "Not measured: no run has a sidecar with frame times.";
        return vec![Part::Html(html! { p.none { (words) } })];
    }
    let heads = [
        "Model",
        report.platforms.kind.word(),
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
    ];
    let caption = "All frames after the prompted one of every valid pass. P99.9 needs a thousand \
                   frames.";
    let mut table = Table::new("latency", caption, &heads, 3);
    for (group, frames) in &shown {
        let kind = if frames.kind == "latency" { "latencies" } else { "intervals" };
        let mut cells = named(group).to_vec();
        cells.push(Cell::text(kind));
        cells.push(Cell::number(Some(frames.passes as f64), 0, false));
        cells.push(Cell::number(Some(frames.frames as f64), 0, false));
        let values = [
            Some(frames.mean_ms),
            Some(frames.std_ms),
            Some(frames.min_ms),
            Some(frames.p50_ms),
            Some(frames.p90_ms),
            Some(frames.p95_ms),
            Some(frames.p99_ms),
            frames.p999_ms,
            Some(frames.max_ms),
        ];
        cells.extend(values.map(|value| Cell::number(value, 3, group.invalid)));
        table.push(cells, group.invalid);
    }
    vec![Part::Html(draw(&figures.latency)), Part::Table(table)]
}

/// The breakdown of every group.
pub fn stages(report: &Report, figures: &Figures) -> Vec<Part> {
    let shown: Vec<(usize, &Group, &StageTable)> = report
        .groups
        .iter()
        .enumerate()
        .filter_map(|(at, group)| Some((at, group, group.stages.as_ref()?)))
        .collect();
    if shown.is_empty() {
        return vec![Part::Html(html! { p.none { "Not measured: no row has stage times." } })];
    }
    let mut parts = vec![Part::Html(draw(&figures.stages))];
    parts.extend(enqueued(report));
    for (at, group, stages) in shown {
        let frame = in_text(Some(stages.frame_ms), 2, "ms a frame");
        let summary = html! { (group.full_name()) ": " (frame) };
        let name = format!("stages_{}", at + 1);
        let mut tables = vec![Part::Table(breakdown(&name, group, stages))];
        tables.extend(profiled(&format!("{name}_profiled"), group, stages).map(Part::Table));
        parts.push(Part::fold(summary, false, "small", tables));
    }
    parts
}

/// The host's calls for a frame and the kernels that they enqueue; nothing if no run has either.
fn enqueued(report: &Report) -> Vec<Part> {
    let columns: [(&str, &str, usize); 4] = [
        ("enqueue_ms", "Enqueue ms", 3),
        ("enqueue_p99_ms", "Enqueue P99 ms", 3),
        ("launches", "Kernel launches", 0),
        ("graph_launches", "Graph launches", 0),
    ];
    let mut heads = vec!["Model", report.platforms.kind.word()];
    heads.extend(columns.iter().map(|(_, head, _)| *head));
    let caption = "Of a tracked frame, means of the rows. Enqueue: the host's time from the first \
                   call to the GPU to the end of the last one. Kernels inside CUDA graphs count.";
    let mut table = Table::new("enqueued", caption, &heads, 2);
    let known = |group: &&Group| columns.iter().any(|(column, ..)| group.mean(column).is_some());
    for group in report.groups.iter().filter(known) {
        let mut cells = named(group).to_vec();
        cells.extend(
            columns.iter().map(|(column, _, digits)| {
                Cell::number(group.mean(column), *digits, group.invalid)
            }),
        );
        table.push(cells, group.invalid);
    }
    if table.rows.is_empty() {
        return Vec::new();
    }
    let missing = table.drop_empty(2);
    vec![
        Part::Html(html! { h3 { "Enqueue time and launches" } }),
        Part::Table(table),
        not_measured(&missing),
    ]
}

/// The first column of a breakdown that a run may lack: medians of stages.
const LACKING: usize = 3;

fn breakdown(name: &str, group: &Group, stages: &StageTable) -> Table {
    let struck = group.invalid;
    let whole = if stages.overlapping { "% of all stages" } else { "% of the frame" };
    let from = match stages.from {
        "frames" => format!("Sums over {} frames.", stages.frames),
        _ => format!(
            "From the stage columns of the table, weighted by {} frames, because there is no \
             sidecar.",
            stages.frames
        ),
    };
    let caption = format!("{}. {from}", group.full_name());
    let heads = [
        "Stage",
        "Time ms per frame",
        "ms of frames with it",
        "p50 ms",
        "p99 ms",
        whole,
        "% with decoding",
        "% of roofline",
    ];
    let mut table = Table { sortable: false, ..Table::new(name, &caption, &heads, 1) };
    let number = |value: Option<f64>, digits: usize| Cell::number(value, digits, struck);
    let empty = || Cell { number: true, ..Cell::default() };
    let total = stages.lines[0].per_frame_ms.map(|decode| decode + stages.frame_ms);
    for line in &stages.lines {
        let share = match line.column {
            "decode_ms" => Cell::missing("outside"),
            "encode_ms" if line.percent_of_frame.is_none() => Cell::missing("outside"),
            _ => number(line.percent_of_frame, 1),
        };
        let cells = vec![
            Cell::text(line.label),
            number(line.per_frame_ms, 3),
            number(line.where_it_ran_ms, 3),
            number(line.p50_ms, 3),
            number(line.p99_ms, 3),
            share,
            number(line.percent_of_all, 1),
            number(line.percent_of_roofline, 1),
        ];
        table.push(cells, false);
    }
    if let Some(rest) = stages.unexplained_ms {
        let cells = vec![
            Cell::text("Outside all stages"),
            number(Some(rest), 3),
            empty(),
            empty(),
            empty(),
            number(Some(100.0 * rest / stages.frame_ms), 1),
            number(total.map(|total| 100.0 * rest / total), 1),
            empty(),
        ];
        table.push(cells, false);
    }
    let sum = if stages.overlapping { "Between two masks" } else { "Total of a frame" };
    let mut sums = vec![(sum, Some(stages.frame_ms))];
    if !stages.overlapping {
        sums.push(("Total with decoding", total));
    }
    for (label, value) in sums {
        let mut cells = vec![Cell::text(label), number(value, 3)];
        cells.resize_with(heads.len(), empty);
        table.push(cells, false);
    }
    // Older tables have no percentiles of stages. Runs without peaks or the bundle's work have no
    // share of a roofline.
    table.drop_empty(LACKING);
    table
}

/// Stages of the profiled passes: by events, and projected onto the GPU.
fn profiled(name: &str, group: &Group, stages: &StageTable) -> Option<Table> {
    let caption = format!(
        "{}. The passes under nsys: stages by CUDA events, and from first to last GPU work of their \
         ranges. The difference is event time without that work.",
        group.full_name()
    );
    let heads = ["Stage", "Event ms", "Projected ms", "Difference ms", "Difference %"];
    let mut table = Table { sortable: false, ..Table::new(name, &caption, &heads, 1) };
    for line in &stages.profiled {
        let number = |value: Option<f64>, digits| Cell::number(value, digits, group.invalid);
        let cells = vec![
            Cell::text(line.label),
            number(Some(line.event_ms), 3),
            number(Some(line.projected_ms), 3),
            number(Some(line.difference_ms), 3),
            number(line.difference_percent, 1),
        ];
        table.push(cells, false);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Peaks.
pub fn memory(report: &Report, figures: &Figures) -> Vec<Part> {
    let heads = [
        "Model",
        report.platforms.kind.word(),
        "GPU allocated MiB",
        "GPU process MiB",
        "GPU process (driver) MiB",
        "Whole device MiB",
        "Device size MiB",
        "% of device",
        "Host MiB",
    ];
    let mut table = Table::new("memory", "Maximum over all objects", &heads, 2);
    for group in report.groups.iter().filter(|group| group.counts.measured > 0) {
        let struck = group.invalid;
        let device = group.device_memory.as_ref();
        let mut cells = named(group).to_vec();
        cells.extend([
            Cell::number(group.max("gpu_peak_alloc_MiB"), 1, struck),
            Cell::number(group.max("gpu_peak_reserved_MiB"), 1, struck),
            Cell::number(group.observed_max.get("process_memory_mib").copied(), 1, struck),
            Cell::number(group.observed_max.get("device_memory_mib").copied(), 1, struck),
            Cell::number(device.map(|memory| memory.total_mib), 0, false),
            Cell::number(device.map(|memory| memory.percent), 1, struck),
            Cell::number(group.max("cpu_peak_rss_MiB"), 1, struck),
        ]);
        table.push(cells, struck);
    }
    let missing = table.drop_empty(2);
    let mut parts = vec![
        Part::Html(or_not_measured(&figures.memory, "a memory peak")),
        Part::Table(table),
        not_measured(&missing),
    ];
    parts.extend(memory::by_use(report));
    parts.extend(bandwidth(report));
    parts.push(Part::Html(html! {
        @for group in report.groups.iter() {
            @if let Some(memory) = &group.device_memory {
                p.muted { (group.full_name()) ": % of device is the peak of " (memory.peak_of) "; \
                    the size is from " (memory.total_from) "." }
            }
        }
    }));
    parts
}

/// The names of columns without a number in any line.
pub fn not_measured(columns: &[String]) -> Part {
    Part::Html(html! {
        @if !columns.is_empty() {
            p.muted { "Not measured in any line: " (columns.join(", ")) "." }
        }
    })
}

/// The link and the device's memory against their peaks; nothing if no run has either.
fn bandwidth(report: &Report) -> Vec<Part> {
    let known = |group: &&Group| {
        let found = &group.bandwidth;
        found.upload_gb_per_s.is_some() || found.memory_gb_per_s.is_some()
    };
    let heads = [
        "Model",
        report.platforms.kind.word(),
        "Upload GB/s",
        "Link peak GB/s",
        "% of link",
        "Device memory peak GB/s",
    ];
    let caption = "Frames over the link, three bytes a pixel. Only a profiler measures the kernels' \
                   memory bandwidth (--nsys).";
    let mut table = Table::new("bandwidth", caption, &heads, 2);
    for group in report.groups.iter().filter(known) {
        let (found, struck) = (&group.bandwidth, group.invalid);
        let mut cells = named(group).to_vec();
        cells.extend([
            Cell::number(found.upload_gb_per_s, 1, struck),
            Cell::number(found.link_gb_per_s, 1, false),
            Cell::number(found.link_percent, 1, struck),
            Cell::number(found.memory_gb_per_s, 0, false),
        ]);
        table.push(cells, struck);
    }
    match table.rows.is_empty() {
        true => Vec::new(),
        false => vec![Part::Html(html! { h3 { "Bandwidth" } }), Part::Table(table)],
    }
}
