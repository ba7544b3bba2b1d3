/*!
A table as Markdown and as LaTeX.
*/

use super::Table;

impl Table {
    /// The table as Markdown, its caption above it.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("{}\n\n", escape_markdown(&self.caption));
        text += &line(self.headings().iter().map(|head| escape_markdown(head)).collect());
        let rules = self.heads.iter().map(|(_, number, _)| if *number { "--:" } else { "---" });
        text += &format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
        for row in &self.rows {
            text += &line(row.cells.iter().map(|cell| escape_markdown(&cell.plain())).collect());
        }
        text
    }

    /// The table as LaTeX with the rules of the package booktabs.
    pub fn latex(&self) -> String {
        let columns: String =
            self.heads.iter().map(|(_, number, _)| if *number { 'r' } else { 'l' }).collect();
        let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
        let mut text = format!(
            "% \\usepackage{{booktabs}}\n\\begin{{table}}\n\\caption{{{}}}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n",
            escape_latex(&self.caption)
        );
        text += &line(self.headings().iter().map(|head| escape_latex(head)).collect());
        text += "\\midrule\n";
        for row in &self.rows {
            text += &line(row.cells.iter().map(|cell| escape_latex(&cell.plain())).collect());
        }
        text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    }

    fn headings(&self) -> Vec<String> {
        let one = |(name, _, more): &(String, bool, String)| match more.is_empty() {
            true => name.clone(),
            false => format!("{name} {more}"),
        };
        self.heads.iter().map(one).collect()
    }
}

/// Names of clips come from users: a bar would end the cell, and a bracket could begin HTML.
fn escape_markdown(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace(['\n', '\r'], " ")
}

fn escape_latex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '\\' => out += "\\textbackslash{}",
            '<' => out += "\\textless{}",
            '>' => out += "\\textgreater{}",
            '±' => out += "$\\pm$",
            '×' => out += "$\\times$",
            '≥' => out += "$\\geq$",
            '≤' => out += "$\\leq$",
            '−' => out += "$-$",
            '✓' => out += "$\\checkmark$",
            '✗' => out += "$\\times$",
            '–' => out += "--",
            '…' => out += "\\ldots{}",
            '·' => out += "$\\cdot$",
            '°' => out += "$^\\circ$",
            '\u{a0}' => out += "~",
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, Table};

    fn table() -> Table {
        let mut table = Table::new("t", "J&F, %", &["Clip", "FPS"], 1);
        table.push(vec![Cell::text("a|b\n<c>_1"), Cell::number(Some(2.5), 1, true)], true);
        table.push(vec![Cell::text("d"), Cell::number(None, 1, false)], false);
        table
    }

    #[test]
    fn markdown_keeps_a_cell_one_cell() {
        let text = table().markdown();
        assert_eq!(
            text,
            "J&F, %\n\n| Clip | FPS |\n|---|--:|\n| a\\|b &lt;c>_1 | (2.5) |\n| d | not measured |\n"
        );
    }

    #[test]
    fn latex_escapes_its_own_signs() {
        let text = table().latex();
        assert!(text.contains("\\caption{J\\&F, \\%}"), "{text}");
        assert!(text.contains("\\begin{tabular}{lr}"), "{text}");
        assert!(text.contains("a|b \\textless{}c\\textgreater{}\\_1 & (2.5) \\\\"), "{text}");
    }
}
