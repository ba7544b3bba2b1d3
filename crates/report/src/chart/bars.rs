/*!
Horizontal bars in groups, each with its number, so that no reader has to measure a bar.
*/

use maud::html;

use super::axes::below;
use super::legend::{Sign, legend};
use super::scale::Scale;
use super::words::fit;
use super::{Head, Plot, fill, hollow, px};

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its series, which sets its colour.
    pub series: usize,
    /// Its length; a bar without one is listed as not measured.
    pub value: Option<f64>,
    /// The number as text.
    pub text: String,
    /// Its rows are INVALID, so it is drawn hollow.
    pub invalid: bool,
}

/// Bars under one label.
#[derive(Clone, Debug)]
pub struct BarGroup {
    /// Label above the bars.
    pub label: String,
    /// The bars from top to bottom.
    pub bars: Vec<Bar>,
}

const LEFT: f64 = 16.0;
/// Room for the number right of the longest bar.
const NUMBER: f64 = 100.0;
const BAR: f64 = 13.0;

/// Draws groups of bars from zero on one axis in `unit`; `None` if no bar has a value.
pub fn bars(
    head: &Head<'_>,
    unit: &str,
    series: &[String],
    groups: &[BarGroup],
    notes: Vec<String>,
) -> Option<Plot> {
    let values = groups.iter().flat_map(|group| &group.bars).filter_map(|bar| bar.value);
    values.clone().next()?;
    let (width, right) = (head.style.width(), head.style.width() - NUMBER);
    let scale = Scale::from_zero(values, LEFT, right);
    let mut y = 8.0;
    let mut tops = Vec::new();
    for group in groups {
        tops.push(y);
        let missing = group.bars.iter().any(|bar| bar.value.is_none());
        let lines =
            group.bars.iter().filter(|bar| bar.value.is_some()).count() + usize::from(missing);
        y += 20.0 + lines as f64 * (BAR + 3.0) + 8.0;
    }
    let bottom = y;
    let entries: Vec<(Sign, String)> = match series.len() {
        0 | 1 => Vec::new(),
        _ => series.iter().enumerate().map(|(at, name)| (Sign::Block(at), name.clone())).collect(),
    };
    let (legend, legend_height) = legend(head.style, &entries, LEFT, bottom + 40.0);
    let class = |bar: &Bar| match bar.invalid {
        true => hollow(bar.series),
        false => fill(bar.series),
    };
    let body = html! {
        (below(&scale, (LEFT, right), (6.0, bottom), unit))
        @for (group, top) in groups.iter().zip(&tops) {
            text x=(px(LEFT)) y=(px(top + 14.0)) { (fit(&group.label, width - 2.0 * LEFT, 12.0)) }
            @for (at, bar) in group.bars.iter().filter(|bar| bar.value.is_some()).enumerate() {
                @let y = top + 20.0 + at as f64 * (BAR + 3.0);
                @let end = scale.at(bar.value.unwrap_or(0.0));
                rect class=(class(bar)) x=(px(LEFT)) y=(px(y)) height=(px(BAR)) width=(px((end - LEFT).max(0.5))) rx="1.5" {
                    title { (group.label) ": " (bar.text) @if let Some(name) = series.get(bar.series) { ", " (name) } }
                }
                text.small x=(px(end + 6.0)) y=(px(y + 10.5)) { (bar.text) }
            }
            @if let Some(missing) = missing(group, series) {
                @let measured = group.bars.iter().filter(|bar| bar.value.is_some()).count();
                text.small.muted x=(px(LEFT + 4.0)) y=(px(top + 30.5 + measured as f64 * (BAR + 3.0))) {
                    (fit(&missing, width - 2.0 * LEFT, 11.0))
                }
            }
        }
        path.axis d=(format!("M{} 6V{}", px(LEFT), px(bottom))) {}
        (legend)
    };
    Some(head.plot(notes, bottom + 40.0 + legend_height, body))
}

/// The bars without a value in one line, so that they take no space as gaps.
fn missing(group: &BarGroup, series: &[String]) -> Option<String> {
    let gaps: Vec<&Bar> = group.bars.iter().filter(|bar| bar.value.is_none()).collect();
    if gaps.is_empty() {
        return None;
    }
    let names: Vec<&str> =
        gaps.iter().filter_map(|bar| series.get(bar.series)).map(String::as_str).collect();
    Some(if names.len() < 2 && group.bars.len() < 2 {
        "not measured".to_owned()
    } else {
        format!("not measured: {}", names.join(", "))
    })
}
