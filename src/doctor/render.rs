/*!
The doctor's lines for people and for programs.
*/

use serde_json::{Value, json};

use super::check::{Check, Group};
use super::verdict::Verdict;
use host::screen_table::{SEPARATORS, broken, screen_width};

/// Width where there is no terminal to ask.
const USUAL_WIDTH: usize = 120;
/// Narrower text is no easier to read.
const LEAST_TEXT: usize = 30;

/// The checks by group, and the verdict.
pub fn text(checks: &[Check], verdict: &Verdict) -> String {
    at_width(checks, verdict, screen_width().unwrap_or(USUAL_WIDTH))
}

fn at_width(checks: &[Check], verdict: &Verdict, width: usize) -> String {
    let names = checks.iter().map(|check| check.name.chars().count().min(LEAST_TEXT));
    let words = checks.iter().map(|check| check.word().len());
    let (names, words) = (names.max().unwrap_or(0), words.max().unwrap_or(0));
    // Two blanks each in front of the word, the name and the text.
    let indent = 6 + words + names;
    let room = width.saturating_sub(indent).max(LEAST_TEXT);
    let mut lines = Vec::new();
    for group in Group::ALL {
        let mut of_group = checks.iter().filter(|check| check.group == group).peekable();
        if of_group.peek().is_some() {
            lines.push(group.heading().to_owned());
        }
        for check in of_group {
            let mut text = broken(&check.found, room, SEPARATORS);
            if let Some(advice) = &check.advice {
                text += &format!("\n{}", broken(&format!("→ {advice}"), room, SEPARATORS));
            }
            // A long name takes lines beside the text.
            let name = broken(&check.name, names, SEPARATORS);
            let (name, text): (Vec<&str>, Vec<&str>) =
                (name.lines().collect(), text.lines().collect());
            for row in 0..name.len().max(text.len()) {
                let word = if row == 0 { check.word() } else { "" };
                let [name, text] =
                    [&name, &text].map(|lines| lines.get(row).copied().unwrap_or(""));
                let line = format!("  {word:words$}  {name:names$}  {text}");
                lines.push(line.trim_end().to_owned());
            }
        }
    }
    lines.push(String::new());
    lines.push(broken(&verdict.sentence(), width, SEPARATORS));
    lines.join("\n")
}

/// The same as a JSON document.
pub fn json(checks: &[Check], verdict: &Verdict) -> Value {
    json!({"can_run": verdict.can_run(), "cpu": verdict.cpu, "gpu": verdict.gpu, "checks": checks})
}

#[cfg(test)]
mod tests {
    use super::super::verdict::Ability;
    use super::*;

    #[test]
    fn checks_stand_in_groups_and_fit_80_columns() {
        let able =
            |can_run| Ability { can_run, lacks: if can_run { vec![] } else { vec!["a GPU"] } };
        let verdict = Verdict { cpu: able(true), gpu: able(false) };
        let library = "/opt/onnxruntime/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.23.2";
        let checks = [
            Check::ok("machine", "a system"),
            Check::ok("ONNX Runtime", library).of(Group::Needed),
            Check::missing("GPU", "no driver", "install NVIDIA's driver").of(Group::Gpu),
            Check::missing("nsys", "not on PATH", "install it").of(Group::Optional),
        ];
        let text = at_width(&checks, &verdict, 80);
        let expected = "\
Machine
  ok       machine       a system
Needed (ONNX Runtime: for the CPU)
  ok       ONNX Runtime  /opt/onnxruntime/lib/python3.12/site-packages/
                         onnxruntime/capi/libonnxruntime.so.1.23.2
For a GPU
  missing  GPU           no driver
                         → install NVIDIA's driver
Optional
  absent   nsys          not on PATH
                         → install it

a bench can run here (CPU: ready; GPU: lacks a GPU)";
        assert_eq!(text, expected);
    }
}
