/*!
What comparisons proved: FPS of every side with its 95 % interval, one plot for each input size.
*/

use super::{BAR_GROUPS, listed, part_name, part_title};
use crate::chart::{Forest, ForestGroup, ForestRow, Head, Plot, Style, forest, thousands};
use crate::compare::iou_format;
use crate::content::Report;
use crate::data::{ComparedModel, ComparedSide};
use vos::record::Judgement;

/// Most rows in one plot, about a page.
const ROWS: usize = 4 * BAR_GROUPS;

/// A plot for each input size.
pub fn plots(report: &Report, style: Style) -> Vec<Plot> {
    let mut sizes: Vec<&str> = Vec::new();
    for model in &report.compared {
        if !sizes.contains(&model.imgsz.as_str()) {
            sizes.push(&model.imgsz);
        }
    }
    let mut plots = Vec::new();
    for size in &sizes {
        let mut parts: Vec<Vec<&ComparedModel>> = vec![Vec::new()];
        let mut rows = 0;
        for model in report.compared.iter().filter(|model| model.imgsz == *size) {
            if rows > 0 && rows + model.sides.len() > ROWS {
                parts.push(Vec::new());
                rows = 0;
            }
            rows += model.sides.len();
            if let Some(part) = parts.last_mut() {
                part.push(model);
            }
        }
        let name = if sizes.len() > 1 { format!("fps_{size}") } else { "fps".to_owned() };
        for (at, models) in parts.iter().enumerate() {
            let title = part_title(&format!("FPS at {size} pixels"), at, parts.len());
            plots.extend(draw(report, models, &part_name(&name, at), &title, style));
        }
    }
    plots
}

/// The same plots as narrow as those of a paper.
pub fn narrow(report: &Report) -> Vec<Plot> {
    let mut plots = plots(report, Style::Paper);
    for plot in &mut plots {
        plot.name += "_narrow";
    }
    plots
}

fn draw(
    report: &Report,
    models: &[&ComparedModel],
    name: &str,
    title: &str,
    style: Style,
) -> Option<Plot> {
    let groups: Vec<ForestGroup> = models
        .iter()
        .map(|model| ForestGroup {
            label: model.title(&report.compared),
            rows: model.sides.iter().map(|side| row(model, side)).collect(),
        })
        .collect();
    let descriptions = groups.iter().map(|group| {
        let rows = group.rows.iter().map(|row| row.label.clone());
        format!("{}: {}", group.label, rows.collect::<Vec<_>>().join(", "))
    });
    let alt = format!("Frames per second of each side on each model. {}.", listed(descriptions));
    let subjects: Vec<&str> = models.iter().map(|model| model.subject.as_str()).collect();
    let subject = match subjects.as_slice() {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => (*first).to_owned(),
        _ => "the first side".to_owned(),
    };
    let title = format!("{title}; ratio: {subject} is … × as fast");
    let data = Forest {
        unit: "FPS".to_owned(),
        heads: ["FPS", "ratio", "lowest IoU", "verdict"].map(str::to_owned),
        notes: notes(models, &subject),
        groups,
    };
    forest(&Head { style, name, title: &title, alt: &alt }, data)
}

fn notes(models: &[&ComparedModel], subject: &str) -> Vec<String> {
    let sides = || models.iter().flat_map(|model| &model.sides);
    let mut notes = vec![format!(
        "Ratio: {subject} is … times as fast as the side. Lowest IoU: of any frame, with the \
         reference {}.",
        models.first().map_or("", |model| model.reference.as_str())
    )];
    let of_rounds = |side: &ComparedSide| {
        side.fps_interval.is_some()
            && side.speed.as_ref().is_some_and(|speed| speed.fps_interval.is_none())
    };
    let own = sides().any(|side| side.speed.as_ref().is_some_and(|s| s.fps_interval.is_some()));
    match (own, sides().any(of_rounds)) {
        (true, false) => notes.push("Whiskers: 95 % interval over rounds and clips.".to_owned()),
        (true, true) => notes.push(
            "Whiskers: 95 % interval over rounds and clips; of earlier comparisons Student's \
             interval over rounds."
                .to_owned(),
        ),
        (false, true) => {
            notes.push("Whiskers: Student's 95 % interval over the rounds.".to_owned());
        }
        (false, false) => {}
    }
    if sides().any(|side| side.verdict == Judgement::Invalid && side.speed.is_some()) {
        notes.push("Hollow: the verdict is INVALID.".to_owned());
    }
    if sides().any(|side| side.times.is_some() && side.verdict == Judgement::Invalid) {
        notes.push(
            "In brackets: the ratio is INVALID. ≥: a bound that holds though passes were disturbed."
                .to_owned(),
        );
    }
    if sides().any(is_valid_at_limit) {
        notes.push("*: of a side at its power limit, and at this limit only.".to_owned());
    }
    notes
}

fn is_valid_at_limit(side: &ComparedSide) -> bool {
    side.power_limited && side.verdict == Judgement::Valid && side.speed.is_some()
}

fn row(model: &ComparedModel, side: &ComparedSide) -> ForestRow {
    let fps = side.speed.as_ref().map(|speed| speed.fps);
    let range = side.fps_interval.map(|interval| (interval.low, interval.high));
    let number = match (fps, range) {
        (Some(fps), Some((low, high))) => {
            let half = (high - fps).max(fps - low);
            // Slow sides need a digit more, and a wide interval needs none.
            let digits = if fps < 10.0 { 2 } else { 1 };
            let of_half = if half < 9.95 { digits } else { 0 };
            format!("{} ± {}", thousands(fps, digits), thousands(half, of_half))
        }
        (Some(fps), None) => thousands(fps, 1),
        (None, _) => String::new(),
    };
    let iou = side.min_iou.filter(|_| side.name != model.reference).map(iou_format::frame);
    let mut columns = [number, side.ratio_text(), iou.unwrap_or_default(), side.verdict_text()];
    let told = ["FPS", "times", "lowest IoU", ""].iter().zip(&columns);
    let told = told.filter(|(_, text)| !text.is_empty());
    let told: Vec<String> =
        told.map(|(unit, text)| format!("{unit} {text}").trim().to_owned()).collect();
    if is_valid_at_limit(side) {
        // The column is narrow.
        columns[3] = format!("{} *", side.verdict.as_str());
    }
    ForestRow {
        name: side.name.clone(),
        series: side.series,
        value: fps,
        short: fps.map_or(String::new(), |fps| thousands(fps, 1)),
        range: range.filter(|_| fps.is_some()),
        invalid: side.verdict == Judgement::Invalid,
        label: format!("{}: {}", side.name, told.join(", ")),
        columns,
    }
}
