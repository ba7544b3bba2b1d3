/*!
The operation breakdown as bars.
*/

use super::{BAR_GROUPS, OfSize, by_size, invalid_note, label, listed, part_name, part_title};
use crate::chart::{Head, Plot, REST, StackRow, Style, stacked, thousands};
use crate::content::Report;
use crate::data::{Group, StageTable};

/// The frame's time by stage.
pub fn plots(report: &Report, style: Style) -> Vec<Plot> {
    by_size(report, &report.groups).iter().flat_map(|size| of_size(report, style, size)).collect()
}

fn of_size(report: &Report, style: Style, size: &OfSize<'_>) -> Vec<Plot> {
    let shown: Vec<(&Group, &StageTable)> =
        size.groups.iter().filter_map(|group| Some((*group, group.stages.as_ref()?))).collect();
    // A server's stages would be invisible on a board's axis.
    let mut parts: Vec<Vec<(&Group, &StageTable)>> = Vec::new();
    let mut sorted = shown;
    sorted.sort_by_key(|a| a.1.overlapping);
    for entry in sorted {
        let fits = |part: &Vec<(&Group, &StageTable)>| {
            part.len() < BAR_GROUPS
                && part[0].1.overlapping == entry.1.overlapping
                && (0.1..=10.0).contains(&(part[0].1.frame_ms / entry.1.frame_ms))
        };
        match parts.iter_mut().find(|part| fits(part)) {
            Some(part) => part.push(entry),
            None => parts.push(vec![entry]),
        }
    }
    let count = parts.len();
    parts
        .iter()
        .enumerate()
        .filter_map(|(part, groups)| draw(report, (style, size), groups, (part, count)))
        .collect()
}

fn draw(
    report: &Report,
    (style, size): (Style, &OfSize<'_>),
    groups: &[(&Group, &StageTable)],
    (part, parts): (usize, usize),
) -> Option<Plot> {
    let overlapping = groups[0].1.overlapping;
    let rows: Vec<StackRow> = groups
        .iter()
        .map(|(group, table)| {
            // Decoding, the first line, is outside the frame's time, and encoding may be.
            let inside = table.lines.iter().enumerate().skip(1);
            let inside = inside.filter(|(_, line)| line.percent_of_frame.is_some());
            let mut parts: Vec<(usize, f64)> =
                inside.filter_map(|(at, line)| Some((at - 1, line.per_frame_ms?))).collect();
            parts.extend(table.unexplained_ms.filter(|rest| *rest > 0.0).map(|rest| (REST, rest)));
            StackRow { label: label(report, group), parts, invalid: group.invalid }
        })
        .collect();
    let present =
        |series: usize| rows.iter().any(|row| row.parts.iter().any(|(at, _)| *at == series));
    let all = groups.iter().map(|(_, table)| &table.lines).max_by_key(|lines| lines.len())?;
    let labels = all.iter().skip(1).map(|line| line.label).enumerate();
    let series: Vec<(usize, &str)> =
        labels.chain([(REST, "Outside all stages")]).filter(|(at, _)| present(*at)).collect();
    let descriptions = groups.iter().map(|(group, table)| {
        let slowest =
            table.lines.iter().skip(1).max_by(|a, b| {
                a.per_frame_ms.unwrap_or(0.0).total_cmp(&b.per_frame_ms.unwrap_or(0.0))
            });
        let slowest = slowest.map_or("", |line| line.label);
        format!(
            "{}: {} ms a frame, most of it {slowest}",
            label(report, group),
            thousands(table.frame_ms, 2)
        )
    });
    let mut notes = invalid_note(groups.iter().map(|(group, _)| *group));
    let unit = match overlapping {
        true => {
            notes.push(
                "Frames overlap: stages of several frames run at once, so their sum exceeds \
                        the time between two masks."
                    .to_owned(),
            );
            "ms of stages per frame"
        }
        false => "ms per frame",
    };
    let title =
        if overlapping { "Operation breakdown, frames overlapping" } else { "Operation breakdown" };
    let alt = format!("Time of a frame by stage, decoding apart. {}.", listed(descriptions));
    stacked(
        &Head {
            style,
            name: &part_name(&format!("stage_breakdown{}", size.name), part),
            title: &part_title(&format!("{title}{}", size.title), part, parts),
            alt: &alt,
        },
        unit,
        &series,
        &rows,
        notes,
    )
}
