/*!
The page: one self-contained HTML file.

The page fetches no font, script or picture, and a content security policy enforces that. The policy
names the one script by its hash, so even a value that was not escaped could not run. Without the
script everything is readable, and tables cannot be sorted.
*/

mod best;
mod cells;
mod comparisons;
mod details;
mod environment;
mod frame;
mod plots;
mod rows;
mod summary;
mod targets;

use maud::{Markup, html};

use super::content::Report;
use super::figures::Figures;

/// The page as text.
pub fn render(report: &Report, figures: &Figures, title: &str) -> String {
    let sections = sections(report, figures);
    let contents: Vec<(&str, &str)> = sections
        .iter()
        .filter(|section| section.body.is_some())
        .map(|section| (section.id, section.title))
        .collect();
    let body = html! {
        @for section in &sections {
            @if let Some(body) = &section.body {
                section id=(section.id) aria-labelledby=(format!("{}-heading", section.id)) {
                    h2 id=(format!("{}-heading", section.id)) { (section.title) }
                    (body)
                }
            }
        }
    };
    frame::page(report, title, &contents, &body)
}

/// One section; without a body it is omitted.
struct Section {
    id: &'static str,
    title: &'static str,
    body: Option<Markup>,
}

fn sections(report: &Report, figures: &Figures) -> Vec<Section> {
    let has_rows = !report.groups.is_empty();
    let section = |id, title, body: Option<Markup>| Section { id, title, body };
    let with_rows = |body: fn(&Report, &Figures) -> Markup| has_rows.then(|| body(report, figures));
    vec![
        section("notes", "Before you read", best::notes(report)),
        section("best", "At a glance", best::cards(report)),
        section("summary", "Summary", with_rows(|report, _| summary::table(report))),
        section(
            "targets",
            "Targets",
            report.targets.as_ref().map(|verdicts| targets::table(report, verdicts)),
        ),
        section("hints", "What limits the speed", with_rows(|report, _| targets::hints(report))),
        section(
            "accuracy",
            "Speed against accuracy",
            with_rows(|_, figures| plots::or_not_measured(&figures.speed, "both a speed and J&F")),
        ),
        section("platforms", "Platform against platform", comparisons::platforms(report, figures)),
        section("latency", "Latency", with_rows(details::latency)),
        section("stages", "Operation breakdown", with_rows(details::stages)),
        section("memory", "Memory", with_rows(details::memory)),
        section("power", "Power, clocks, temperature", with_rows(details::power)),
        section("drift", "Drift", comparisons::drift(report, figures)),
        section("profiles", "Profiles of the GPU", comparisons::profiles(report)),
        section("rows", "Every row", with_rows(|report, _| rows::table(report))),
        section("environment", "Environment", has_rows.then(|| environment::sources(report))),
        section("reading", "How to read this", Some(environment::reading())),
    ]
}
