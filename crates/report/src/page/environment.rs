/*!
Machines and settings of the runs, and the meaning of the words on the page.
*/

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::part::Part;
use crate::content::Report;
use crate::data::SourceInfo;

/// Every run with its machine.
pub fn sources(report: &Report) -> Vec<Part> {
    vec![Part::Html(html! {
        @for source in &report.sources { (one(source, report.sources.len())) }
    })]
}

fn one(source: &SourceInfo, of: usize) -> Markup {
    html! {
        // Many runs would print as a book.
        details open[of == 1] class=[(of > 2).then_some("bulk")] {
            summary { (source.label) " " span.path { (source.path) } }
            dl {
                dt { "table" } dd { code { (source.path) } }
                dt { "rows" } dd { (source.rows) ", " (source.passes) " passes with frame times" }
                dt { "written by" }
                dd { @if source.predecessor { "the Python predecessor" } @else { "segtrt" } }
                @for (name, value) in &source.experiment { dt { (name) } dd { (value) } }
            }
            @if source.environment.is_empty() {
                p.none { "The machine is unknown: the table has no sidecar.json." }
            } @else {
                h3 { "Machine and versions" }
                (pairs(&source.environment))
            }
            @if !source.configuration.is_empty() {
                h3 { "Settings" }
                (pairs(&source.configuration))
            }
            @if let Some(region) = &source.timed_region {
                h3 { "Timed region" }
                p { (region) }
            }
            @if !source.hashes.is_empty() {
                details {
                    summary { "SHA-256 of " (source.hashes.len()) " graphs and inputs" }
                    dl { @for (file, hash) in &source.hashes { dt { (file) } dd { code { (hash) } } } }
                }
            }
        }
    }
}

/// Members of an object; members of inner objects become pairs too.
fn pairs(members: &Map<String, Value>) -> Markup {
    html! {
        dl {
            @for (name, value) in members {
                @match value {
                    Value::Null => { dt { (name) } dd.none { "unknown" } }
                    Value::Object(inner) => { @for (inside, value) in inner { dt { (name) " " (inside) } dd { (plain(value)) } } }
                    value => { dt { (name) } dd { (plain(value)) } }
                }
            }
        }
    }
}

/// A value in one line: members of objects as `name value`, hashes shortened.
fn plain(value: &Value) -> String {
    const HASH: usize = 64;
    match value {
        Value::String(text)
            if text.len() == HASH && text.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            format!("{}…", &text[..12])
        }
        Value::String(text) => text.clone(),
        Value::Null => "unknown".to_owned(),
        Value::Array(items) => {
            let separator = if items.iter().any(Value::is_object) { "; " } else { ", " };
            items.iter().map(plain).collect::<Vec<_>>().join(separator)
        }
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| format!("{name} {}", plain(value)));
            members.collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}

/// The words.
pub fn reading() -> Part {
    let words = [
        (
            "FPS",
            "Frames over the sum of their times, the prompted frame included, all objects together.",
        ),
        (
            "P50, P95, P99",
            "Percentiles of the frames after the prompted one: 50 %, 95 % and 99 % of them took at \
             most this long.",
        ),
        (
            "J, F, J&F",
            "Overlap of the mask's area, agreement of its outline, and their mean, in percent. The \
             conditions name the rules (metrics).",
        ),
        (
            "GPU allocated, process, whole device",
            "Peaks of device memory: allocations of the program; memory of its process; everything \
             in use on the board.",
        ),
        (
            "VALID, INVALID",
            "Validity of the speed: throttling, changing clocks, other programs or unsteady frames \
             make it INVALID. Such rows are struck through and never compared. A long steady pass \
             at the power limit is VALID, at this limit only.",
        ),
        (
            "Masks same, as eager, MISMATCH",
            "Equal to the reference's within the limits of the precision; equal to those of PyTorch \
             eager at that precision; neither. Only proven sides show a speed.",
        ),
        (
            "Ratio, 95 % interval",
            "Speed of a comparison's first side over the speed of another side. The interval is a \
             bootstrap over rounds and clips.",
        ),
        ("not judged", "Too few frames came after the memory was full."),
        ("not measured", "There is no measurement. It is not zero."),
        (
            "Frames overlap",
            "Mode throughput: several frames are in flight. There is no latency then, only the \
             interval between two masks.",
        ),
    ];
    Part::Html(html! {
        dl { @for (word, meaning) in words { dt { (word) } dd { (meaning) } } }
    })
}
