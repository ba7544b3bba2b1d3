/*!
The doctor's lines for people and for programs.
*/

use comfy_table::{ContentArrangement, LineStyle, Table, presets};
use serde_json::{Value, json};

use super::check::Check;
use super::verdict::Verdict;

/// Width where there is no terminal to ask.
const USUAL_WIDTH: u16 = 120;

/// A table and the verdict.
pub fn text(checks: &[Check], verdict: &Verdict) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        table.set_width(USUAL_WIDTH);
    }
    table.set_header(["", "what", "found, and what to do"]);
    for check in checks {
        let advice =
            check.advice.as_ref().map_or_else(String::new, |advice| format!("\n→ {advice}"));
        table.add_row([
            check.state.word().to_owned(),
            check.name.clone(),
            format!("{}{advice}", check.found),
        ]);
    }
    format!("{table}\n{}", verdict.sentence())
}

/// The same as a JSON document.
pub fn json(checks: &[Check], verdict: &Verdict) -> Value {
    json!({"can_run": verdict.can_run(), "cpu": verdict.cpu, "gpu": verdict.gpu, "checks": checks})
}
