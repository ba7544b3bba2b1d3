/*!
Speed against accuracy, and platforms side by side.
*/

use super::{BAR_GROUPS, invalid_note, label, listed, part_name, part_title};
use crate::chart::{Bar, BarGroup, Dot, Plot, Scatter, bars, scatter, thousands};
use crate::content::Report;
use crate::data::{Group, PlatformLine};

/// The predecessor's plot `fps_vs_jandf`.
pub fn plots(report: &Report) -> Vec<Plot> {
    let both = |group: &&Group| group.mean("fps").is_some() && group.mean("JandF").is_some();
    let shown: Vec<&Group> = report.groups.iter().filter(both).collect();
    let left_out =
        report.groups.iter().filter(|group| group.mean("fps").is_some()).count() - shown.len();
    let mut data = points(report, &shown, "fps", "JandF", |group, x, y| {
        format!("{}: {} FPS, J&F {}", label(report, group), thousands(x, 1), thousands(y, 4))
    });
    data.name = "fps_vs_jandf".to_owned();
    data.title = "Throughput vs accuracy".to_owned();
    data.alt = format!("Speed against accuracy, means over objects. {}.", alt(&data));
    data.x = "FPS (mean over objects)".to_owned();
    data.y = "J&F (mean over objects)".to_owned();
    data.y_linear = true;
    data.notes = invalid_note(shown.into_iter());
    if left_out > 0 {
        data.notes.push(format!("{left_out} groups with a speed have no J&F and are not drawn."));
    }
    scatter(data).into_iter().collect()
}

/// A point for each group, its colour by model and its marker by platform.
pub fn points(
    report: &Report,
    groups: &[&Group],
    x: &str,
    y: &str,
    say: impl Fn(&Group, f64, f64) -> String,
) -> Scatter {
    let mut data = Scatter::default();
    // Models of the whole report, so that a colour has the same meaning in every scatter plot.
    for group in &report.groups {
        if !data.series.contains(&group.model) {
            data.series.push(group.model.clone());
        }
    }
    data.classes.clone_from(&report.platforms.platforms);
    for group in groups {
        let (Some(x), Some(y)) = (group.mean(x), group.mean(y)) else { continue };
        let place = |names: &[String], name: &str| {
            names.iter().position(|known| known == name).unwrap_or(0)
        };
        data.dots.push(Dot {
            x,
            y,
            series: place(&data.series, &group.model),
            class: place(&data.classes, &group.platform),
            label: say(group, x, y),
            invalid: group.invalid,
        });
    }
    data
}

/// The labels of all points.
pub fn alt(data: &Scatter) -> String {
    listed(data.dots.iter().map(|dot| dot.label.clone()))
}

/// FPS of every line of the platform table with measurements on two or more platforms.
pub fn platforms(report: &Report) -> Vec<Plot> {
    let table = &report.platforms;
    let compared: Vec<&PlatformLine> =
        table.lines.iter().filter(|line| line.measured() > 1).collect();
    let parts: Vec<_> = compared.chunks(BAR_GROUPS).collect();
    let draw = |part: usize| {
        let groups: Vec<BarGroup> = parts[part]
            .iter()
            .map(|line| {
                let cells = line.cells.iter().enumerate();
                let bar = |series: usize, fps: Option<f64>, invalid: bool| Bar {
                    series,
                    value: fps,
                    text: fps.map_or(String::new(), |fps| format!("{} FPS", thousands(fps, 1))),
                    invalid,
                };
                let bars = cells.flat_map(|(series, cells)| match cells.is_empty() {
                    true => vec![bar(series, None, false)],
                    false => cells
                        .iter()
                        .map(|cell| bar(series, cell.fps, report.groups[cell.group].invalid))
                        .collect(),
                });
                BarGroup { label: line.name.clone(), bars: bars.collect() }
            })
            .collect();
        let descriptions = parts[part].iter().map(|line| {
            let cells = line.cells.iter().zip(&table.platforms).map(|(cells, platform)| {
                let fps = cells.iter().find_map(|cell| cell.fps);
                format!(
                    "{platform} {}",
                    fps.map_or("not measured".to_owned(), |fps| format!(
                        "{} FPS",
                        thousands(fps, 1)
                    ))
                )
            });
            format!("{}: {}", line.name, cells.collect::<Vec<_>>().join(", "))
        });
        let alt = format!(
            "Frames per second of each model on each platform. \
                           {}.",
            listed(descriptions)
        );
        let in_part = parts[part]
            .iter()
            .flat_map(|line| line.cells.iter().flatten())
            .map(|cell| &report.groups[cell.group]);
        bars(
            (
                &part_name("platform_fps", part),
                &part_title("Platform against platform", part, parts.len()),
                &alt,
            ),
            "FPS (mean over objects)",
            &table.platforms,
            &groups,
            invalid_note(in_part),
        )
    };
    (0..parts.len()).filter_map(draw).collect()
}
