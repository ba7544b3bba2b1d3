/*!
Memory: the predecessor's plot `gpu_vs_cpu`, and peaks as bars.
*/

use super::speed::{alt, points};
use super::{BAR_GROUPS, OfSize, by_size, invalid_note, label, listed, part_name, part_title};
use crate::chart::{Bar, BarGroup, Head, Plot, Style, bars, scatter, thousands};
use crate::content::Report;
use crate::data::Group;

/// Names and sources of the bars.
const PEAKS: [(&str, Peak); 4] = [
    ("GPU allocated", Peak::Column("gpu_peak_alloc_MiB")),
    ("GPU process", Peak::Column("gpu_peak_reserved_MiB")),
    ("GPU whole device", Peak::Sensor("device_memory_mib")),
    ("Host resident", Peak::Column("cpu_peak_rss_MiB")),
];

#[derive(Clone, Copy)]
enum Peak {
    Column(&'static str),
    Sensor(&'static str),
}

/// Both plots.
pub fn plots(report: &Report, style: Style) -> Vec<Plot> {
    by_size(report, &report.groups).iter().flat_map(|size| of_size(report, style, size)).collect()
}

fn of_size(report: &Report, style: Style, size: &OfSize<'_>) -> Vec<Plot> {
    let mut plots = Vec::new();
    let both = |group: &&Group| {
        group.mean("gpu_peak_alloc_MiB").is_some() && group.mean("cpu_peak_rss_MiB").is_some()
    };
    let shown: Vec<&Group> = size.groups.iter().copied().filter(both).collect();
    let mut data =
        points(report, style, &shown, "gpu_peak_alloc_MiB", "cpu_peak_rss_MiB", |group, x, y| {
            format!(
                "{}: GPU {} MiB, host {} MiB",
                label(report, group),
                thousands(x, 0),
                thousands(y, 0)
            )
        });
    data.name = format!("gpu_vs_cpu{}", size.name);
    data.title = format!("GPU memory vs host memory{}", size.title);
    data.alt =
        format!("Peak GPU memory against peak host memory, means over objects. {}.", alt(&data));
    data.x = "GPU peak alloc (MiB, mean over objects)".to_owned();
    data.y = "CPU peak RSS (MiB, mean over objects)".to_owned();
    data.notes = invalid_note(shown.into_iter());
    plots.extend(scatter(data));
    plots.extend(peaks(report, style, size));
    plots
}

fn peak(group: &Group, peak: Peak) -> Option<f64> {
    match peak {
        Peak::Column(column) => group.max(column),
        Peak::Sensor(name) => group.observed_max.get(name).copied(),
    }
}

fn peaks(report: &Report, style: Style, size: &OfSize<'_>) -> Vec<Plot> {
    let any = |group: &&Group| PEAKS.iter().any(|(_, kind)| peak(group, *kind).is_some());
    let shown: Vec<&Group> = size.groups.iter().copied().filter(any).collect();
    let series = PEAKS.map(|(name, _)| name.to_owned());
    let parts: Vec<_> = shown.chunks(BAR_GROUPS).collect();
    let draw = |part: usize| {
        let bar = |group: &Group, at: usize| {
            let value = peak(group, PEAKS[at].1);
            let text = value.map_or(String::new(), |value| format!("{} MiB", thousands(value, 0)));
            Bar { series: at, value, text, invalid: group.invalid }
        };
        let groups: Vec<BarGroup> = parts[part]
            .iter()
            .map(|group| BarGroup {
                label: label(report, group),
                bars: (0..PEAKS.len()).map(|at| bar(group, at)).collect(),
            })
            .collect();
        let descriptions = groups.iter().map(|group| {
            let bars = group.bars.iter().map(|bar| {
                let text = if bar.value.is_some() { &bar.text } else { "not measured" };
                format!("{} {text}", series[bar.series])
            });
            format!("{}: {}", group.label, bars.collect::<Vec<_>>().join(", "))
        });
        let alt = format!("Maximum memory over objects. {}.", listed(descriptions));
        let mut notes = vec!["Maximum over all objects.".to_owned()];
        notes.extend(invalid_note(parts[part].iter().copied()));
        bars(
            &Head {
                style,
                name: &part_name(&format!("memory_peaks{}", size.name), part),
                title: &part_title(&format!("Memory peaks{}", size.title), part, parts.len()),
                alt: &alt,
            },
            "MiB",
            &series,
            &groups,
            notes,
        )
    };
    (0..parts.len()).filter_map(draw).collect()
}
