/*!
Energy of a frame and power of the board.
*/

use super::{BAR_GROUPS, OfSize, by_size, invalid_note, label, listed, part_name, part_title};
use crate::chart::{Bar, BarGroup, Head, Plot, Style, bars, thousands};
use crate::content::Report;
use crate::data::Group;

/// Energy per frame and mean power, each if a sensor reported it.
pub fn plots(report: &Report, style: Style) -> Vec<Plot> {
    let mut plots = Vec::new();
    for size in by_size(report, &report.groups) {
        let words = ("energy_per_frame", "Energy per frame");
        plots.extend(columns(report, (style, &size), words, "energy_j_per_frame", ("J", 3)));
        let words = ("power", "Mean power");
        plots.extend(columns(report, (style, &size), words, "power_w", ("W", 1)));
    }
    plots
}

fn columns(
    report: &Report,
    (style, size): (Style, &OfSize<'_>),
    (name, title): (&str, &str),
    column: &str,
    (unit, digits): (&str, usize),
) -> Vec<Plot> {
    let measured = |group: &&Group| group.counts.measured > 0;
    let shown: Vec<&Group> = size.groups.iter().copied().filter(measured).collect();
    if shown.iter().all(|group| group.mean(column).is_none()) {
        return Vec::new();
    }
    let parts: Vec<_> = shown.chunks(BAR_GROUPS).collect();
    let draw = |part: usize| {
        let groups: Vec<BarGroup> = parts[part]
            .iter()
            .map(|group| {
                let value = group.mean(column);
                let text = value
                    .map_or(String::new(), |value| format!("{} {unit}", thousands(value, digits)));
                let bar = Bar { series: group.series, value, text, invalid: group.invalid };
                BarGroup { label: label(report, group), bars: vec![bar] }
            })
            .collect();
        let descriptions = groups.iter().map(|group| {
            let bar = &group.bars[0];
            format!(
                "{}: {}",
                group.label,
                if bar.value.is_some() { &bar.text } else { "not measured" }
            )
        });
        let alt = format!("{title}, means over objects. {}.", listed(descriptions));
        bars(
            &Head {
                style,
                name: &part_name(&format!("{name}{}", size.name), part),
                title: &part_title(&format!("{title}{}", size.title), part, parts.len()),
                alt: &alt,
            },
            &format!("{unit} (mean over objects)"),
            &[],
            &groups,
            invalid_note(parts[part].iter().copied()),
        )
    };
    (0..parts.len()).filter_map(draw).collect()
}
