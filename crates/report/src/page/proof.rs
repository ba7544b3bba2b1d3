/*!
What comparisons proved: the plot of speeds, a table for each comparison, and why something is
INVALID.
*/

use maud::html;

use super::part::Part;
use super::plots::figures as draw;
use crate::chart::thousands;
use crate::compare::iou_format;
use crate::content::Report;
use crate::data::{ComparedModel, ComparedSide};
use crate::figures::Figures;
use crate::table::{Cell, Table, Tone};
use vos::record::Judgement;

/// The parts; none without a comparison.
pub fn parts(report: &Report, figures: &Figures) -> Vec<Part> {
    if report.compared.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![Part::Html(html! {
        p {
            "A speed is only shown if the side's masks are the reference's within the limits of its \
             precision. A ratio is only VALID if nothing disturbed either side."
        }
        div.wide { (draw(&figures.proof)) }
        div.narrow { (draw(&figures.narrow)) }
    })];
    let mut table = table(&report.compared);
    table.drop_empty(2);
    parts.push(Part::Table(table));
    parts.extend(faults(&report.compared));
    parts.push(conditions(&report.compared));
    parts
}

fn table(models: &[ComparedModel]) -> Table {
    let heads = [
        "Model",
        "Side",
        "FPS",
        "95 % interval",
        "Ratio",
        "Lowest IoU",
        "Masks",
        "Verdict",
        "Mean IoU",
        "J&F, %",
        "P50 ms",
        "P95 ms",
        "P99 ms",
        "First frame ms",
        "J per frame",
        "GPU MiB",
    ];
    let caption = "Ratio: the first side of a model is … times as fast. FPS: frames over the sum of \
                   their times, all rounds. J&F by the official rules, with the difference to the \
                   reference in points.";
    let mut table = Table::new("comparison", caption, &heads, 2);
    for at in [6, 7] {
        table.heads[at].1 = false;
    }
    for model in models {
        for side in &model.sides {
            let title = model.title(models);
            table.push(row(title, model, side), side.own == Judgement::Invalid);
        }
    }
    table
}

fn row(title: String, model: &ComparedModel, side: &ComparedSide) -> Vec<Cell> {
    let speed = side.speed.as_ref();
    let struck = side.own == Judgement::Invalid;
    let number = |value: Option<f64>, digits: usize| Cell::number(value, digits, struck);
    let interval = side.fps_interval.filter(|_| speed.is_some()).map(|interval| {
        format!("{} to {}", thousands(interval.low, 1), thousands(interval.high, 1))
    });
    let text = |text: Option<String>, value: Option<f64>| match text {
        Some(text) if !text.is_empty() => Cell::right(text, value),
        _ => Cell::missing("–"),
    };
    let times = side.times.map(|times| times.ratio).or(side.at_least);
    let is_reference = side.name == model.reference;
    let quality = side.jf.map(|jf| {
        let difference = side.jf_difference.unwrap_or(0.0);
        match is_reference {
            true => format!("{jf:.2}"),
            false => format!("{jf:.2} ({difference:+.3})"),
        }
    });
    let subject = model.sides.first().is_some_and(|first| first.side == side.side);
    let ratio_text = if subject { "1 ×".to_owned() } else { side.ratio_text() };
    vec![
        Cell::text(title),
        Cell { series: Some(side.series), ..Cell::text(&side.name) },
        match speed {
            Some(speed) => number(Some(speed.fps), 1),
            None => Cell::missing("not shown"),
        },
        Cell { struck, ..text(interval, None) },
        text(Some(ratio_text), times),
        text(side.min_iou.map(iou_format::frame), side.min_iou),
        outcome(side),
        verdict_cell(side),
        text(side.mean_iou.map(iou_format::mean), side.mean_iou),
        text(quality, side.jf),
        number(speed.and_then(|speed| speed.p50_ms), 2),
        number(speed.and_then(|speed| speed.p95_ms), 2),
        number(speed.and_then(|speed| speed.p99_ms), 2),
        number(speed.map(|speed| speed.first_frame_ms), 1),
        number(speed.and_then(|speed| speed.energy_j_per_frame), 3),
        number(speed.and_then(|speed| speed.gpu_process_mib), 0),
    ]
}

fn outcome(side: &ComparedSide) -> Cell {
    let words = side.outcome.as_str();
    match side.outcome.is_proven() {
        true => Cell::badge(Tone::Good, format!("✓ {words}")),
        false => Cell::badge(Tone::Bad, format!("✗ {words}")),
    }
}

fn verdict_cell(side: &ComparedSide) -> Cell {
    let words = side.verdict_text();
    match side.verdict {
        _ if side.speed.is_none() => Cell::missing("–"),
        Judgement::Valid => Cell::badge(Tone::Good, format!("✓ {words}")),
        Judgement::Invalid => {
            let codes: Vec<&str> = side.faults.iter().map(|fault| fault.code.as_str()).collect();
            let mut unique: Vec<String> = Vec::new();
            for code in codes {
                let code = code.replace('_', " ");
                if !unique.contains(&code) {
                    unique.push(code);
                }
            }
            Cell::badge(Tone::Bad, format!("✗ {words}")).with(unique.join(", ")).wrapped()
        }
        Judgement::Unjudged => Cell::badge(Tone::Warn, format!("? {words}")),
    }
}

/// Why sides are not proven and ratios INVALID, folded.
fn faults(models: &[ComparedModel]) -> Option<Part> {
    let mut sentences: Vec<(String, String)> = Vec::new();
    for model in models {
        for side in &model.sides {
            let unproven = side.why.iter().filter(|_| !side.outcome.is_proven());
            let unproven =
                unproven.map(|why| format!("{}: {}: {why}", side.name, side.outcome.as_str()));
            let faults = side.faults.iter().map(|fault| fault.sentence.clone());
            for sentence in unproven.chain(faults) {
                let entry = (model.title(models), sentence);
                if !sentences.contains(&entry) {
                    sentences.push(entry);
                }
            }
        }
    }
    if sentences.is_empty() {
        return None;
    }
    let summary = html! { (sentences.len()) " reasons for INVALID ratios and sides without proof" };
    let list = html! {
        ul.notes { @for (model, sentence) in &sentences { li { strong { (model) } " · " (sentence) } } }
    };
    Some(Part::fold(summary, false, "", vec![Part::Html(list)]))
}

/// Machine, clips and command of each comparison.
fn conditions(models: &[ComparedModel]) -> Part {
    let mut shown: Vec<&str> = Vec::new();
    let mut lists = Vec::new();
    for model in models {
        if shown.contains(&model.path.as_str()) {
            continue;
        }
        shown.push(&model.path);
        let members = models.iter().filter(|other| other.path == model.path);
        let clips = members.map(|other| {
            format!("{}: {} clips, {} objects", other.model, other.clips, other.objects)
        });
        let clips = clips.collect::<Vec<_>>().join("; ");
        lists.push(html! {
            h3 { (model.comparison) " " span.path { (model.path) } }
            dl {
                dt { "device" } dd { (model.device) }
                dt { "measured" } dd { (model.measured_on.join(", ")) }
                dt { "masks compared with" } dd { (model.reference) }
                dt { "clips" } dd { (clips) }
                dt { "command" } dd { code { (model.command) } }
            }
        });
    }
    let summary = html! { "Machine, clips and command of " (lists.len()) " comparison"
    @if lists.len() != 1 { "s" } };
    Part::fold(summary, false, "", vec![Part::Html(html! { @for list in &lists { (list) } })])
}
