/*!
Energy of a frame and power of the board.
*/

use super::{BAR_GROUPS, invalid_note, label, listed, part_name, part_title};
use crate::chart::{Bar, BarGroup, Plot, bars, thousands};
use crate::content::Report;
use crate::data::Group;

/// Energy per frame and mean power, each if a sensor reported it.
pub fn plots(report: &Report) -> Vec<Plot> {
    let mut plots =
        columns(report, "energy_per_frame", "Energy per frame", "energy_j_per_frame", ("J", 3));
    plots.extend(columns(report, "power", "Mean power", "power_w", ("W", 1)));
    plots
}

fn columns(
    report: &Report,
    name: &str,
    title: &str,
    column: &str,
    (unit, digits): (&str, usize),
) -> Vec<Plot> {
    let shown: Vec<&Group> =
        report.groups.iter().filter(|group| group.counts.measured > 0).collect();
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
                let bar = Bar { series: 0, value, text, invalid: group.invalid };
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
            (&part_name(name, part), &part_title(title, part, parts.len()), &alt),
            &format!("{unit} (mean over objects)"),
            &[],
            &groups,
            invalid_note(parts[part].iter().copied()),
        )
    };
    (0..parts.len()).filter_map(draw).collect()
}
