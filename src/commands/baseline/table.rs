/*!
The tables of `segtrt baseline`.
*/

use host::screen_table;
use report::regression::{Baseline, ChangeVerdict, Metric, MetricChange, Range, RunSummary};

/// What moved, number by number.
pub fn comparisons(comparisons: &[MetricChange]) -> String {
    let mut table = screen_table::table(
        ["model", "number", "baseline", "now", "change", "allowed", "verdict"],
        2..6,
    );
    let mut last = None;
    for comparison in comparisons {
        let model = (&comparison.model, &comparison.configuration);
        let name = match last == Some(model) {
            true => String::new(),
            false => format!("{} {}", comparison.model, comparison.configuration),
        };
        last = Some(model);
        let metric = comparison.metric;
        table.add_row([
            name,
            metric.name().to_owned(),
            range(metric, &comparison.was),
            comparison.is.map_or_else(|| "-".to_owned(), |is| range(metric, &is)),
            comparison.change.map_or_else(|| "-".to_owned(), |change| amount(metric, change, true)),
            amount(metric, comparison.limit, false),
            word(comparison.judgement).to_owned(),
        ]);
    }
    table.to_string()
}

/// Why these numbers are shown and not judged.
pub fn too_short(metrics: &[Metric]) -> String {
    let needs = |metric: &Metric| {
        format!("{} takes {} frames of every clip", metric.name(), metric.least_frames() + 1)
    };
    let needs: Vec<String> = metrics.iter().map(needs).collect();
    format!(
        "too short to judge: no frame lies beyond the percentile; {}: measure longer clips, in the \
         baseline too, or raise bench's --max-clip-frames",
        needs.join(", ")
    )
}

/// The numbers of a run.
pub fn show(run: &RunSummary) -> String {
    let mut table = screen_table::table(
        [
            "model",
            "precision",
            "objects",
            "passes",
            "fps",
            "p50 ms",
            "p95 ms",
            Metric::JandF.name(),
            "weights",
        ],
        2..8,
    )
    .optional([8, 1, 3]);
    for model in &run.models {
        let objects: Vec<_> =
            model.objects.iter().filter(|object| !object.passes.is_empty()).collect();
        let number = |metric: Metric| {
            metric.range_of(&objects).map_or_else(|| "-".to_owned(), |found| range(metric, &found))
        };
        let passes = objects.iter().map(|object| object.passes.len()).min().unwrap_or(0);
        table.add_row([
            model.model.clone(),
            model.conditions.get("precision").cloned().unwrap_or_default(),
            format!("{}/{}", objects.len(), model.objects.len()),
            passes.to_string(),
            number(Metric::Fps),
            number(Metric::P50Ms),
            number(Metric::P95Ms),
            number(Metric::JandF),
            model.weights.clone().unwrap_or_default(),
        ]);
    }
    table.to_string()
}

/// All baselines.
pub fn list(baselines: &[Baseline]) -> String {
    let mut table = screen_table::table(["name", "saved", "on", "models"], 0..0);
    for baseline in baselines {
        let machine = &baseline.run.machine;
        let on = machine
            .get("gpu")
            .or_else(|| machine.get("board"))
            .or_else(|| machine.get("processor"));
        let models: Vec<_> = baseline.run.models.iter().map(|model| model.model.as_str()).collect();
        table.add_row([
            baseline.name.clone(),
            baseline.saved.clone(),
            on.cloned().unwrap_or_default(),
            models.join(", "),
        ]);
    }
    table.to_string()
}

/// The median, and the spread of several passes.
pub fn range(metric: Metric, range: &Range) -> String {
    let scale = if metric.is_in_points() { 100.0 } else { 1.0 };
    let [middle, low, high] = [range.middle, range.low, range.high].map(|value| scale * value);
    let digits = digits(metric.digits(), high - low);
    match range.passes {
        0 | 1 => format!("{middle:.digits$}"),
        _ => format!("{middle:.digits$} ({low:.digits$} to {high:.digits$})"),
    }
}

/// Decimals that show two digits of a spread, and no more: those after them are noise.
fn digits(most: usize, spread: f64) -> usize {
    (0..most).find(|digits| spread * 10_f64.powi(*digits as i32) >= 10.0).unwrap_or(most)
}

/// A change or a limit in its unit.
pub fn amount(metric: Metric, amount: f64, signed: bool) -> String {
    let (value, unit) = match metric.is_in_points() {
        true => (amount, "pt"),
        false => (100.0 * amount, "%"),
    };
    let digits = if signed || metric.is_in_points() { 2 } else { 1 };
    match signed {
        true => format!("{value:+.digits$} {unit}"),
        false => format!("{value:.digits$} {unit}"),
    }
}

pub fn word(judgement: ChangeVerdict) -> &'static str {
    match judgement {
        ChangeVerdict::Same => "same",
        ChangeVerdict::Better => "better",
        ChangeVerdict::Unclear => "unclear",
        ChangeVerdict::Worse => "WORSE",
        ChangeVerdict::Missing => "MISSING",
        ChangeVerdict::NotJudged => "too short to judge",
    }
}
