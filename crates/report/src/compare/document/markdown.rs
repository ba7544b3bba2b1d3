/*!
`comparison.md`: hardware, versions, date, command, the table, and remarks.
*/

use super::cells;
use super::remarks::remarks;
use super::selections;
use crate::compare::iou_format;
use crate::compare::judge::{Comparison, SideFacts, SideReport};

/// The whole file.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut lines = head(comparison);
    let (header, rows) = cells::cells(comparison);
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
        format!("| {} |", cells.join(" | "))
    };
    lines.push(line(&header));
    let rule: Vec<&str> = (0..header.len()).map(|at| if at < 2 { "---" } else { "--:" }).collect();
    lines.push(format!("|{}|", rule.join("|")));
    lines.extend(rows.iter().map(|row| line(row)));
    lines.push(String::new());
    lines.extend(remarks(comparison).iter().map(|remark| format!("- {}", escape(remark))));
    lines.push(String::new());
    let flips = selections::table(comparison);
    if !flips.is_empty() {
        lines.extend(flips);
        lines.push(String::new());
    }
    lines.push(
        "The worst frame of each side. Panels: frame, reference, side, difference (orange: \
                only the reference, blue: only the side)."
            .to_owned(),
    );
    lines.push(String::new());
    lines.extend(pictures(comparison));
    lines.push(String::new());
    lines.join("\n")
}

fn head(comparison: &Comparison) -> Vec<String> {
    let first = comparison.sides.get(&comparison.subject);
    let days = match comparison.measured_on.as_slice() {
        [] => "on an unknown date".to_owned(),
        days => days.join(", "),
    };
    let turn = if comparison.interleaved { "in turn" } else { "possibly not in turn" };
    let mut lines = vec![
        format!("Measured {days}, sides {turn}, judged by segtrt {}.", comparison.segtrt),
        String::new(),
        format!("Machine: {}.", machine(comparison, first)),
        String::new(),
        format!("Sides: {}.", sides(comparison)),
        String::new(),
        format!(
            "Masks are compared with {}; J and F by the official rules, points of 100; intervals \
             95 %, bootstrap over rounds and clips (docs/explanation/how-we-compare.md).",
            comparison.reference
        ),
        String::new(),
    ];
    lines.push(format!("    {}", comparison.command));
    lines.push(String::new());
    lines
}

fn machine(comparison: &Comparison, facts: Option<&SideFacts>) -> String {
    let known = |name: &str| {
        let value = facts?.environment.get(name)?;
        value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|n| n.to_string()))
    };
    let reports = comparison.models.iter().flat_map(|model| &model.sides);
    let device = reports.map(|side| side.device.as_str()).find(|device| !device.is_empty());
    let processors = known("processors").map(|count| format!("{count} processors"));
    let mut parts: Vec<String> = device.map(str::to_owned).into_iter().collect();
    for part in [known("processor"), processors, known("memory"), known("system"), known("kernel")]
    {
        parts.extend(part.filter(|part| !parts.iter().any(|known| known.contains(part))));
    }
    if parts.is_empty() { "unknown".to_owned() } else { parts.join(", ") }
}

/// The backend of each side, as in its rows, and its commit.
fn sides(comparison: &Comparison) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (name, facts) in &comparison.sides {
        let reports = comparison.models.iter().flat_map(|model| &model.sides);
        let backend = reports
            .filter(|side| side.side == *name)
            .map(|side| side.backend.as_str())
            .find(|backend| !backend.is_empty());
        let commit = facts.environment.get("commit").and_then(serde_json::Value::as_str);
        let commit = commit.map_or_else(String::new, |commit| format!(" at {commit}"));
        let backend = backend.map_or_else(String::new, |backend| format!(" ({backend}{commit})"));
        parts.push(format!("{name}{backend}"));
    }
    parts.join("; ")
}

fn pictures(comparison: &Comparison) -> Vec<String> {
    let of = |model: &str, side: &SideReport| {
        let worst = side.equality.as_ref()?.worst.as_ref()?;
        let path = worst.picture.as_ref()?;
        Some(format!(
            "- [{model} {}]({path}): {} object {} frame {}, IoU {}",
            side.side,
            worst.video,
            worst.object,
            worst.frame,
            iou_format::frame(worst.iou)
        ))
    };
    let sides = comparison.models.iter().flat_map(|m| m.sides.iter().map(move |s| (&m.model, s)));
    let lines: Vec<String> = sides.filter_map(|(model, side)| of(model, side)).collect();
    if lines.is_empty() { vec!["- no picture was drawn".to_owned()] } else { lines }
}

/// Replaces characters in clip names that Markdown would read as a column or as HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_stays_one_cell() {
        assert_eq!(escape("a|b\n<c>"), "a\\|b &lt;c>");
    }
}
