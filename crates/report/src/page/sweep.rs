/*!
Sweeps: the reading in sentences, the plots, and a table of all points.
*/

use maud::html;

use super::part::Part;
use super::plots::figures as draw;
use crate::chart::thousands;
use crate::compare::document::sweep::{fastest_of, slowest_stages};
use crate::compare::judge::{Fastest, Gain, SweepRow, fastest};
use crate::content::Report;
use crate::figures::Figures;
use crate::input::ReadSweep;
use crate::table::{Cell, Table, Tone};
use vos::record::Judgement;
use vos::verdict::POWER_LIMITED;

/// The parts; none without a sweep.
pub fn parts(report: &Report, figures: &Figures) -> Vec<Part> {
    if report.sweeps.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![Part::Html(html! {
        @for sweep in &report.sweeps {
            @for (model, rows) in sweep.result.models() {
                p { strong { (model) } ": " (fastest_of(&sweep.result.rows, model)) "." }
                @for line in slowest_stages(&sweep.result.axes, &rows) {
                    p { (model) ": " (line) "." }
                }
            }
        }
        (draw(&figures.sweep))
    })];
    for (number, sweep) in report.sweeps.iter().enumerate() {
        parts.push(Part::Table(table(number, sweep)));
        parts.extend(missing(sweep));
        let days = sweep.result.measured_on.join(", ");
        parts.push(Part::Html(html! {
            p { "Measured " (days) ": " code { (sweep.result.command) } }
        }));
    }
    parts
}

fn table(number: usize, sweep: &ReadSweep) -> Table {
    let heads = [
        "Model",
        "Point",
        "FPS",
        "95 % interval",
        "To the point before",
        "To the first",
        "Slowest stage",
        "Verdict",
        "P50 ms",
        "P99 ms",
        "GPU MiB",
        "Lowest IoU",
        "J&F, %",
        "Masks",
        "nsys report",
    ];
    let caption = "Every point of the sweep. FPS: frames of single objects over the time of all \
                   objects, all rounds. The point before differs in one setting.";
    let name = if number == 0 { "sweep".to_owned() } else { format!("sweep_{}", number + 1) };
    let mut table = Table::new(&name, caption, &heads, 2);
    for at in [6, 7, 13, 14] {
        table.heads[at].1 = false;
    }
    for row in &sweep.result.rows {
        let best = match fastest(&sweep.result.rows, &row.model) {
            Fastest::Of(best) => best.combination == row.combination,
            _ => false,
        };
        table.push(cells(row, best), row.verdict.judgement == Judgement::Invalid);
    }
    table.drop_empty(2);
    table
}

fn cells(row: &SweepRow, best: bool) -> Vec<Cell> {
    let struck = row.verdict.judgement == Judgement::Invalid;
    let speed = row.speed.as_ref();
    let number = |value: Option<f64>, digits: usize| Cell::number(value, digits, struck);
    let gain = |gain: &Option<Gain>| match gain {
        Some(gain) => Cell::right(gain.text(), Some(gain.times.ratio)),
        None => Cell::missing("–"),
    };
    let interval = row.object_fps_interval.filter(|_| speed.is_some());
    let interval = interval.map_or_else(
        || Cell::missing("not measured"),
        |ends| {
            let text = format!("{} to {}", thousands(ends.low, 1), thousands(ends.high, 1));
            Cell { struck, ..Cell::right(text, Some(ends.low)) }
        },
    );
    let mut point = Cell::text(&row.combination);
    if best {
        point.badges.push((Tone::Good, "fastest".to_owned()));
    }
    let stage = match &row.slowest_stage {
        Some((stage, ms)) => Cell::text(format!("{stage} {} ms", thousands(*ms, 2))),
        None => Cell { none: true, ..Cell::text("not measured") },
    };
    let (tone, verdict) = match (speed, row.verdict.judgement) {
        (None, _) => (Tone::Bad, row.outcome.as_str()),
        (_, Judgement::Valid) if row.verdict.find(POWER_LIMITED).is_some() => {
            (Tone::Good, "VALID (power limit)")
        }
        (_, Judgement::Valid) => (Tone::Good, "VALID"),
        (_, Judgement::Invalid) => (Tone::Bad, "INVALID"),
        (_, Judgement::Unjudged) => (Tone::Warn, "not judged"),
    };
    let report = match (&row.nsys_report, &row.no_nsys_report) {
        (Some(path), _) => Cell::text(path).wrapped(),
        (None, Some(why)) => Cell::badge(Tone::Bad, "failed").with(why),
        (None, None) => Cell { none: true, ..Cell::text("none") },
    };
    let equality = row.equality.as_ref();
    // A row that is its own reference has no comparison.
    let compared = equality.filter(|_| row.reference != row.combination);
    vec![
        Cell::text(&row.model),
        point,
        number(row.object_fps, 2),
        interval,
        gain(&row.gain_to_previous),
        gain(&row.gain_to_first),
        stage,
        Cell::badge(tone, verdict),
        number(speed.and_then(|speed| speed.p50_ms), 2),
        number(speed.and_then(|speed| speed.p99_ms), 2),
        number(speed.and_then(|speed| speed.gpu_alloc_mib), 0),
        match compared {
            Some(equality) => Cell::number(Some(equality.min_iou), 4, false),
            None => Cell::missing("–"),
        },
        Cell::number(equality.and_then(|found| Some(found.scores?.jf)), 2, false),
        Cell::text(row.outcome.as_str()),
        report,
    ]
}

/// Why points have no speed, or an INVALID one.
fn missing(sweep: &ReadSweep) -> Option<Part> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for row in &sweep.result.rows {
        let name = format!("{} {}", row.model, row.combination);
        if !row.outcome.is_proven() {
            let why = row.why.as_deref().unwrap_or("no reason given");
            lines.push((name.clone(), format!("{}: {why}", row.outcome.as_str())));
        }
        lines.extend(row.stopped_early.iter().map(|why| (name.clone(), why.clone())));
        let faults = row.verdict.findings.iter().filter(|_| row.speed.is_some());
        lines.extend(
            faults.map(|found| (name.clone(), format!("{}: {}", found.code, found.sentence))),
        );
    }
    if lines.is_empty() {
        return None;
    }
    let body = Part::Html(html! {
        ul { @for (name, why) in &lines { li { strong { (name) } ": " (why) } } }
    });
    let open = sweep.result.rows.iter().any(|row| row.speed.is_none());
    Some(Part::fold(html! { "Points with a finding: " (lines.len()) }, open, "small", vec![body]))
}
