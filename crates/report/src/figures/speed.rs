/*!
Speed against accuracy, and platforms side by side.
*/

use std::collections::BTreeSet;

use super::{BAR_GROUPS, OfSize, by_size, invalid_note, label, listed, part_name, part_title};
use crate::chart::{Bar, BarGroup, Dot, Head, Plot, Scatter, Style, bars, scatter, thousands};
use crate::content::Report;
use crate::data::{Group, PlatformLine, Stat};

/// Clips and objects of a group.
type Objects = BTreeSet<(String, String)>;

/// The predecessor's plot `fps_vs_jandf`, one for each input size and set of objects.
pub fn plots(report: &Report, style: Style) -> Vec<Plot> {
    let mut plots = Vec::new();
    for size in by_size(report, &report.groups) {
        let both = |group: &&Group| group.mean("fps").is_some() && group.mean("JandF").is_some();
        let mut sets: Vec<(&Objects, Vec<&Group>)> = Vec::new();
        for group in size.groups.iter().copied().filter(both) {
            match sets.iter_mut().find(|(objects, _)| **objects == group.objects) {
                Some((_, groups)) => groups.push(group),
                None => sets.push((&group.objects, vec![group])),
            }
        }
        let count = sets.len();
        for (part, (objects, groups)) in sets.iter().enumerate() {
            let mut plot = one(report, style, &size, groups, part, count);
            if count > 1 {
                plot.notes
                    .push(format!("These {} objects were not in the other plots.", objects.len()));
            }
            plots.extend(scatter(plot));
        }
    }
    plots
}

fn one(
    report: &Report,
    style: Style,
    size: &OfSize<'_>,
    groups: &[&Group],
    part: usize,
    parts: usize,
) -> Scatter {
    let mut data = points(report, style, groups, "fps", "JandF", |group, x, y| {
        let (fps, quality) = (thousands(x, 1), thousands(y, 2));
        format!("{}: {fps} FPS, J&F {quality} %", label(report, group))
    });
    data.name = part_name(&format!("fps_vs_jandf{}", size.name), part);
    let title = format!("Throughput vs accuracy{}", size.title);
    data.title = part_title(&title, part, parts);
    data.alt = format!("Speed against accuracy, means over objects. {}.", alt(&data));
    data.x = "FPS".to_owned();
    data.y = "J&F, % (mean over objects)".to_owned();
    data.front = true;
    data.notes = invalid_note(groups.iter().copied());
    if data.dots.iter().any(|dot| dot.x_range.is_some()) {
        data.notes.push("Whiskers: 95 % interval of the mean over the rows.".to_owned());
    }
    let left_out = size
        .groups
        .iter()
        .filter(|group| group.mean("fps").is_some() && group.mean("JandF").is_none())
        .count();
    if left_out > 0 {
        data.notes.push(format!("{left_out} groups with a speed have no J&F and are not drawn."));
    }
    data
}

/// A point for each group. Its colour is the model and its marker the platform; if the report has
/// sides of comparisons, which have their colours on the whole page, it is the other way round.
pub fn points(
    report: &Report,
    style: Style,
    groups: &[&Group],
    x: &str,
    y: &str,
    say: impl Fn(&Group, f64, f64) -> String,
) -> Scatter {
    let mut data = Scatter { style, ..Scatter::default() };
    let sides = report.groups.iter().any(|group| group.side);
    // Models of the whole report, so that a colour has the same meaning in every scatter plot.
    let models = unique(report.groups.iter().map(|group| group.model.as_str()));
    let platforms = unique(groups.iter().map(|group| group.platform.as_str()));
    let place =
        |names: &[String], name: &str| names.iter().position(|known| known == name).unwrap_or(0);
    // Shares are shown as percent.
    let scale = if y == "JandF" { 100.0 } else { 1.0 };
    for group in groups {
        let (Some(gx), Some(gy)) = (group.mean(x), group.mean(y)) else { continue };
        let model = place(&models, &group.model);
        let (series, named, class) = match sides {
            true => (group.series, &group.platform, model),
            false => (model, &group.model, place(&platforms, &group.platform)),
        };
        if data.series.iter().all(|(known, _)| *known != series) {
            data.series.push((series, named.clone()));
        }
        let range = |column: &str, scale: f64| {
            let (low, high) = group.stats.get(column).and_then(interval)?;
            // No share exceeds 100 %.
            Some((scale * low, if scale > 1.0 { (scale * high).min(100.0) } else { high }))
        };
        data.dots.push(Dot {
            x: gx,
            y: scale * gy,
            x_range: range(x, 1.0),
            y_range: range(y, scale),
            series,
            class,
            name: if sides || platforms.len() < 2 {
                group.name.clone()
            } else {
                label(report, group)
            },
            label: say(group, gx, scale * gy),
            invalid: group.invalid,
        });
    }
    data.classes = if sides { models } else { platforms };
    data
}

/// Each name once, in order of first appearance.
fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        if !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}

/// The 95 % interval of a mean; none with fewer than three values.
fn interval(stat: &Stat) -> Option<(f64, f64)> {
    let half = stat.half_interval()?;
    Some(((stat.mean - half).max(0.0), stat.mean + half))
}

/// The labels of all points.
pub fn alt(data: &Scatter) -> String {
    listed(data.dots.iter().map(|dot| dot.label.clone()))
}

/// FPS of every line of the platform table with measurements on two or more platforms.
pub fn platforms(report: &Report, style: Style) -> Vec<Plot> {
    let table = &report.platforms;
    let mut plots = Vec::new();
    let mut sizes: Vec<&str> = table.lines.iter().map(|line| line.imgsz.as_str()).collect();
    sizes.dedup();
    let several = sizes.iter().any(|size| *size != sizes[0]);
    let mut done: Vec<&str> = Vec::new();
    for size in sizes {
        if done.contains(&size) {
            continue;
        }
        done.push(size);
        let compared: Vec<&PlatformLine> = table
            .lines
            .iter()
            .filter(|line| line.measured() > 1 && line.same_objects && line.imgsz == size)
            .collect();
        let parts: Vec<_> = compared.chunks(BAR_GROUPS).collect();
        let name = if several { format!("platform_fps_{size}") } else { "platform_fps".to_owned() };
        for (part, lines) in parts.iter().enumerate() {
            let title = format!("{0} against {1}", table.kind.word(), table.kind.lower());
            let title = if several { format!("{title}, {size} pixels") } else { title };
            let title = part_title(&title, part, parts.len());
            plots.extend(bars_of(report, style, &part_name(&name, part), &title, lines));
        }
    }
    plots
}

fn bars_of(
    report: &Report,
    style: Style,
    name: &str,
    title: &str,
    lines: &[&PlatformLine],
) -> Option<Plot> {
    let table = &report.platforms;
    let bar = |series: usize, fps: Option<f64>, invalid: bool| Bar {
        series,
        value: fps,
        text: fps.map_or(String::new(), |fps| format!("{} FPS", thousands(fps, 1))),
        invalid,
    };
    let groups: Vec<BarGroup> = lines
        .iter()
        .map(|line| {
            let bars =
                line.cells.iter().enumerate().flat_map(|(series, cells)| match cells.is_empty() {
                    true => vec![bar(series, None, false)],
                    false => cells
                        .iter()
                        .map(|cell| bar(series, cell.fps, report.groups[cell.group].invalid))
                        .collect(),
                });
            BarGroup { label: line.name.clone(), bars: bars.collect() }
        })
        .collect();
    let descriptions = lines.iter().map(|line| {
        let cells = line.cells.iter().zip(&table.platforms).map(|(cells, platform)| {
            let fps = cells.iter().find_map(|cell| cell.fps);
            let fps =
                fps.map_or("not measured".to_owned(), |fps| format!("{} FPS", thousands(fps, 1)));
            format!("{platform} {fps}")
        });
        format!("{}: {}", line.name, cells.collect::<Vec<_>>().join(", "))
    });
    let alt = format!(
        "Frames per second of each model on each {}. {}.",
        table.kind.lower(),
        listed(descriptions)
    );
    let shown = lines.iter().flat_map(|line| line.cells.iter().flatten());
    let shown = shown.map(|cell| &report.groups[cell.group]);
    let head = Head { style, name, title, alt: &alt };
    bars(&head, "FPS", &table.platforms, &groups, invalid_note(shown))
}
