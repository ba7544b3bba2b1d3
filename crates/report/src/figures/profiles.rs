/*!
Profiles of Nsight Systems: ranges as boxes, utilisation over time, histograms of kernels.
*/

use super::{BAR_GROUPS, listed};
use crate::chart::{BoxGroup, BoxRow, Cells, Head, Plot, Strip, Style, boxes, strips, thousands};
use crate::content::Report;
use crate::input::{NsysPlatform, NsysReport, NsysRow};
use crate::nsys::render::time;

/// Kernels of one figure.
const KERNELS: usize = 8;

/// The plots of all profiles.
pub fn plots(report: &Report, style: Style) -> Vec<Plot> {
    let mut plots: Vec<Plot> = Vec::new();
    for on in ["GPU", "CPU"] {
        plots.extend(ranges(&report.nsys_platforms, on, style));
    }
    plots.extend(map(&report.nsys, style));
    for (at, profile) in report.nsys.iter().enumerate() {
        let name = |word: &str| match at {
            0 => word.to_owned(),
            at => format!("{word}_{}", at + 1),
        };
        plots.extend(histograms(
            profile,
            "cuda_gpu_kern_hist",
            &Head {
                style,
                name: &name("kernel_durations"),
                title: "Durations of kernels",
                alt: "",
            },
            "Instances",
        ));
        plots.extend(histograms(
            profile,
            "cuda_gpu_kern_pace",
            &Head {
                style,
                name: &name("kernel_pace"),
                title: "Intervals between starts of a kernel",
                alt: "",
            },
            "Intervals",
        ));
    }
    plots
}

/// Boxes of every range on GPU or CPU, those of the platforms below each other.
fn ranges(platforms: &[NsysPlatform], on: &str, style: Style) -> Option<Plot> {
    let rows_of = |platform: &'_ NsysPlatform, table: &str| -> Vec<NsysRow> {
        let rows = platform.tables.get(table).map(Vec::as_slice).unwrap_or_default();
        rows.iter().filter(|row| row.text("On") == Some(on)).cloned().collect()
    };
    let mut groups: Vec<(f64, BoxGroup)> = Vec::new();
    for (at, platform) in platforms.iter().enumerate() {
        let outliers = rows_of(platform, "nvtx_outliers");
        for row in rows_of(platform, "nvtx_box") {
            let (Some(range), Some(five)) = (row.text("Range"), five(&row)) else { continue };
            let of = outliers.iter().filter(|one| one.text("Range") == Some(range));
            let several = platform.reports.len() > 1;
            let dots = of.filter_map(|one| {
                Some((one.number("Duration (ns)")? / 1e6, outlier_name(one, several)))
            });
            let instances = row.number("Instances").unwrap_or_default();
            let median = time(five[2] * 1e6);
            let one = BoxRow {
                name: if platforms.len() > 1 { platform.name.clone() } else { String::new() },
                series: at,
                five,
                outliers: dots.collect(),
                label: format!("{}, {range}: median {median} of {instances}", platform.name),
                text: median,
            };
            let weight = five[2];
            match groups.iter_mut().find(|(_, group)| group.label == range) {
                Some((most, group)) => {
                    *most = most.max(weight);
                    group.rows.push(one);
                }
                None => {
                    groups.push((weight, BoxGroup { label: range.to_owned(), rows: vec![one] }));
                }
            }
        }
    }
    groups.sort_by(|a, b| b.0.total_cmp(&a.0));
    groups.truncate(BAR_GROUPS);
    let mut groups: Vec<BoxGroup> = groups.into_iter().map(|(_, group)| group).collect();
    for group in &mut groups {
        with_ratios(group);
    }
    let words = groups.iter().map(|group| {
        let medians = group.rows.iter().map(|row| format!("{} {}", row.name, row.text));
        format!("{}: {}", group.label, medians.collect::<Vec<_>>().join(", "))
    });
    let alt = format!("Time of each range on the {on}, medians. {}.", listed(words));
    let (name, title) = match on {
        "GPU" => ("ranges_gpu", "Ranges projected onto the GPU"),
        _ => ("ranges_cpu", "Ranges on the CPU"),
    };
    let notes = vec![
        "A box reaches from the first to the third quartile, whiskers to the last instance within 1.5 \
         boxes. Points are outliers; the name is that of the largest."
            .to_owned(),
    ];
    boxes(&Head { style, name, title, alt: &alt }, "ms", &groups, notes)
}

/// Adds the ratio of each median to the one of the first platform.
fn with_ratios(group: &mut BoxGroup) {
    let Some(first) = group.rows.first().filter(|row| row.series == 0).map(|row| row.five[2])
    else {
        return;
    };
    for row in group.rows.iter_mut().skip(1).filter(|_| first > 0.0) {
        row.text += &format!(" · {} ×", thousands(row.five[2] / first, 2));
    }
}

/// Whiskers and quartiles, ms.
fn five(row: &NsysRow) -> Option<[f64; 5]> {
    let mut five = [0.0; 5];
    for (place, name) in five.iter_mut().zip(["Low", "Q1", "Med", "Q3", "High"]) {
        *place = row.number(&format!("{name} (ns)"))? / 1e6;
    }
    Some(five)
}

/// The frame of an outlier, and the clip if there are several.
fn outlier_name(row: &NsysRow, several: bool) -> String {
    let frame = row.number("Frame").map_or_else(String::new, |at| format!("frame {at}"));
    match row.text("In") {
        Some(report) if several => format!("{frame}, {}", clip(report)),
        _ => frame,
    }
}

/// The clip of a report's name, which is `VIDEO_objOBJECT_TAG_runN` in a folder of segtrt.
fn clip(report: &str) -> &str {
    let name = report.rsplit('/').next().unwrap_or(report);
    name.split_once("_obj").map_or(name, |(video, _)| video)
}

/// A strip for each kind of work of each GPU of each profile.
fn map(profiles: &[NsysReport], style: Style) -> Option<Plot> {
    let mut rows = Vec::new();
    let mut longest: f64 = 0.0;
    for profile in profiles {
        for row in profile.rows("cuda_gpu_time_util_map") {
            let (Some(bins), Some(width)) = (row.numbers("Bin (%)"), row.number("Bin Width (ns)"))
            else {
                continue;
            };
            longest = longest.max(bins.len() as f64 * width / 1e6);
            let work = row.text("Work").unwrap_or_default();
            let titles = bins.iter().enumerate().map(|(at, share)| {
                let from = at as f64 * width / 1e6;
                format!("{work} {share:.0} % at {} ms", thousands(from, 1))
            });
            let device = row.number("Device ID").unwrap_or_default();
            let gpu = row.text("Name").map_or_else(|| format!("GPU {device}"), str::to_owned);
            rows.push(Strip {
                label: format!("{work} · {gpu} · {}", profile.name),
                text: format!(
                    "{} % of {}",
                    thousands(row.number("Utilisation (%)").unwrap_or_default(), 1),
                    time(bins.len() as f64 * width)
                ),
                series: usize::from(work == "memory"),
                titles: titles.collect(),
                parts: bins.iter().map(|share| share / 100.0).collect(),
            });
        }
    }
    let words = rows.iter().map(|row| format!("{}: {}", row.label, row.text));
    let alt = format!("Share of the time with work on the GPU. {}.", listed(words));
    let head =
        Head { style, name: "gpu_utilisation", title: "GPU utilisation over time", alt: &alt };
    let notes = vec![
        "The fuller a cell, the larger the share of its time in which the GPU worked.".to_owned(),
    ];
    // Recordings of different length have no common axis.
    let alike =
        profiles.iter().flat_map(|profile| profile.rows("cuda_gpu_time_util_map")).all(|row| {
            let bins = row.numbers("Bin (%)").map_or(0, |bins| bins.len());
            let length = row.number("Bin Width (ns)").unwrap_or_default() * bins as f64 / 1e6;
            (length - longest).abs() <= 1e-6 * longest
        });
    let axis = alike.then_some((0.0, longest, "ms since the first work"));
    strips(&head, Cells::Heat, axis, &rows, notes)
}

/// A histogram of each of the first kernels of a table.
fn histograms(profile: &NsysReport, table: &str, head: &Head<'_>, count: &str) -> Option<Plot> {
    let all = profile.rows(table);
    let mut rows = Vec::new();
    for row in all.iter().take(KERNELS) {
        let (Some(bins), Some(min), Some(max)) =
            (row.numbers("Bin"), row.number("Min (ns)"), row.number("Max (ns)"))
        else {
            continue;
        };
        let most = bins.iter().copied().fold(0.0, f64::max);
        let width = row.number("Bin Width (ns)").unwrap_or_default();
        let titles = bins.iter().enumerate().map(|(at, count)| {
            let from = min + at as f64 * width;
            format!("{count} from {} to {}", time(from), time(from + width))
        });
        rows.push(Strip {
            label: row.text("Name").unwrap_or("(unnamed)").to_owned(),
            text: format!(
                "{} … {} · {}",
                time(min),
                time(max),
                row.number(count).unwrap_or_default()
            ),
            series: 0,
            titles: titles.collect(),
            parts: bins.iter().map(|count| if most > 0.0 { count / most } else { 0.0 }).collect(),
        });
    }
    let words = rows.iter().map(|row| format!("{}: {}", row.label, row.text));
    let title = format!("{}: {}", head.title, profile.name);
    let alt = format!("{}. {}.", title, listed(words));
    let mut notes = vec![format!(
        "Each row has its own axis from the shortest to the longest; right: both ends and the number \
         of {}.",
        count.to_lowercase()
    )];
    if all.len() > KERNELS {
        notes.push(format!("The first {KERNELS} of {} kernels by total time.", all.len()));
    }
    strips(&Head { title: &title, alt: &alt, ..*head }, Cells::Bars, None, &rows, notes)
}
