/*!
The rows as a table for people, with what failed spelled out below it.
*/

use std::ops::Range;

use super::mib;
use crate::selftest::{EngineRow, Timing, Verdict};
use host::screen_table;

const HEADER: [&str; 12] = [
    "model",
    "plan",
    "case",
    "output",
    "rel error",
    "max abs",
    "mask IoU",
    "bad values",
    "median ms",
    "graph ms",
    "memory MiB",
    "verdict",
];

/// Columns of numbers; the others are words.
const NUMBERS: Range<usize> = 4..11;

/// Renders the rows in their order, then the reasons of failures and of missing graphs, each once.
pub fn render(rows: &[EngineRow]) -> String {
    // Four rows a case, up to sixteen cases a plan.
    let mut table = screen_table::dense(HEADER, NUMBERS).optional([7, 10, 5, 8]);
    for row in rows {
        table.add_row(cells(row));
    }
    let mut text = table.to_string();
    for line in remarks(rows) {
        text.push('\n');
        text.push_str(&line);
    }
    text
}

fn cells(row: &EngineRow) -> [String; 12] {
    let judged = row.output.as_ref();
    let number = |value: Option<f64>| value.map_or_else(dash, |v| format!("{v:.1e}"));
    let difference = judged.and_then(|judged| judged.difference);
    let ms = |timing: Option<Timing>| timing.map_or_else(dash, |t| format!("{:.3}", t.median_ms));
    [
        name(row),
        row.plan_name().map_or_else(dash, str::to_owned),
        row.case.clone(),
        judged.map_or_else(dash, |judged| judged.output.clone()),
        number(difference.and_then(|d| d.relative)),
        number(difference.and_then(|d| d.max_abs)),
        judged.and_then(|judged| judged.mask_iou).map_or_else(dash, |iou| format!("{iou:.4}")),
        judged.map_or_else(dash, |judged| (judged.non_finite + judged.unwritten).to_string()),
        ms(row.cost.enqueue),
        ms(row.cost.graph),
        row.cost.context_bytes.map_or_else(dash, |bytes| format!("{:.1}", mib(bytes))),
        row.verdict.word().to_owned(),
    ]
}

fn dash() -> String {
    "-".to_owned()
}

fn name(row: &EngineRow) -> String {
    format!("{}_{}_{}", row.engine.model, row.engine.imgsz, row.engine.precision)
}

/// One line for each reason of failure, and for each engine that cannot be recorded.
fn remarks(rows: &[EngineRow]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut add = |line: String| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    for row in rows {
        let plan = row.plan_name().unwrap_or("engines");
        let case = if row.case.is_empty() { String::new() } else { format!(" ({})", row.case) };
        if row.verdict == Verdict::Failed {
            let output = row.output.as_ref().map_or_else(String::new, |o| format!(" {}", o.output));
            let reason = row.reason.as_deref().unwrap_or("no reason was given");
            add(format!("FAILED {} {plan}{case}{output}: {reason}", name(row)));
        }
        if let Some(problem) = &row.cost.graph_problem {
            add(format!("{} {plan} has no CUDA graph: {problem}", name(row)));
        }
    }
    lines
}
