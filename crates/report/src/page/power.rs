/*!
Power, clocks and temperature.
*/

use maud::html;

use super::details::{named, not_measured};
use super::part::Part;
use super::plots::figures as draw;
use crate::content::Report;
use crate::data::Group;
use crate::figures::Figures;
use crate::table::{Cell, Table};
use vos::record::Limit;

/// Columns that a sensor filled.
const SENSORS: [&str; 6] = [
    "power_w",
    "energy_j_per_frame",
    "sm_clock_mhz_min",
    "sm_clock_mhz_mean",
    "temperature_c_max",
    "gpu_util",
];

/// Sensors.
pub fn parts(report: &Report, figures: &Figures) -> Vec<Part> {
    let watched = |group: &&Group| {
        SENSORS.iter().any(|column| group.mean(column).is_some()) || !group.observed_max.is_empty()
    };
    if !report.groups.iter().any(|group| watched(&group)) {
        let words = "Not measured: these runs have no sensor readings of a GPU.";
        return vec![Part::Html(html! { p.none { (words) } })];
    }
    let heads = [
        "Model",
        report.platforms.kind.word(),
        "Throttled",
        "Mean W",
        "Max W",
        "J per frame",
        "SM clock min MHz",
        "SM clock mean MHz",
        "Memory clock MHz",
        "Max °C",
        "GPU busy %",
    ];
    let caption = "From the GPU's sensors, over the valid passes";
    let mut table = Table::new("power", caption, &heads, 3);
    for group in report.groups.iter().filter(|group| group.counts.measured > 0) {
        let number = |value: Option<f64>, digits| Cell::number(value, digits, group.invalid);
        let mut cells = named(group).to_vec();
        cells.extend([
            throttled(group),
            number(group.mean("power_w"), 1),
            number(group.observed_max.get("power_max_w").copied(), 1),
            number(group.mean("energy_j_per_frame"), 4),
            number(group.stats.get("sm_clock_mhz_min").map(|stat| stat.min), 0),
            number(group.mean("sm_clock_mhz_mean"), 0),
            number(group.observed_max.get("memory_clock_mhz").copied(), 0),
            number(group.max("temperature_c_max"), 0),
            number(group.mean("gpu_util"), 1),
        ]);
        table.push(cells, group.invalid);
    }
    let missing = table.drop_empty(3);
    vec![Part::Html(draw(&figures.power)), Part::Table(table), not_measured(&missing)]
}

fn throttled(group: &Group) -> Cell {
    let words = group.throttle.iter().map(|(word, rows)| match group.power_limited {
        own if own > 0 && word == Limit::PowerCap.word() => {
            format!("{word} in {rows} rows ({own} sustained)")
        }
        _ => format!("{word} in {rows} rows"),
    });
    let words: Vec<String> = words.collect();
    match (words.is_empty(), group.throttle_rows) {
        (false, _) => Cell::text(words.join(", ")),
        (true, 0) => Cell::known(None),
        (true, rows) if rows < group.counts.measured => {
            Cell::text(format!("none seen in {rows} rows"))
        }
        (true, _) => Cell::text("none seen"),
    }
}
