/*!
Tables on the screen, and as CSV and JSON files.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::analysis::Analysis;
use super::findings::{Findings, Ranking, StageFindings};
use super::platforms::platforms;
use super::table::{Cell, Table, Unit};
use host::screen_table;
use vos::files::atomic;

/// Longest kernel name on the screen.
const LONGEST: usize = 64;

/// A table for the screen: its first `top` rows, and the number of further ones.
pub fn text(table: &Table, top: usize) -> String {
    let header = table.columns.iter().map(|column| match column.unit {
        Unit::Percent => format!("{} %", column.title),
        _ => shortened(&column.title),
    });
    let numbers = table.columns.iter().enumerate().filter(|(_, column)| column.unit != Unit::Text);
    let mut screen = screen_table::dense(header, numbers.map(|(at, _)| at));
    for row in table.rows.iter().take(top) {
        let cells = table.columns.iter().zip(row);
        screen.add_row(cells.map(|(column, cell)| for_people(cell, column.unit)));
    }
    let more = match table.rows.len().saturating_sub(top) {
        0 => String::new(),
        more => format!("\n… and {more} more (--top)"),
    };
    match table.rows.is_empty() {
        true => format!("{}: none\n", table.title),
        false => format!("{}\n{screen}{more}\n", table.title),
    }
}

fn for_people(cell: &Cell, unit: Unit) -> String {
    match (cell, unit) {
        (Cell::Text(text), _) => shortened(text),
        (Cell::Missing, _) => "-".to_owned(),
        (Cell::Bins(values), Unit::Shares) => bars(values, 100.0),
        (Cell::Bins(values), _) => bars(values, values.iter().copied().fold(0.0, f64::max)),
        (_, Unit::Time) => time(cell.number().unwrap_or_default()),
        (_, Unit::Bytes) => bytes(cell.number().unwrap_or_default()),
        (Cell::Real(value), Unit::Percent) => format!("{value:.1}"),
        (Cell::Real(value), _) => format!("{value:.1}"),
        (Cell::Whole(value), _) => value.to_string(),
    }
}

/// A bar of up to eight eighths for each number, a dot for zero.
fn bars(values: &[f64], most: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |value: &f64| match (value / most * BARS.len() as f64).ceil() {
        height if height >= 1.0 => BARS[(height as usize).min(BARS.len()) - 1],
        _ => '·',
    };
    values.iter().map(bar).collect()
}

/// Nanoseconds with a suitable unit.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        size if size < 1e3 => return format!("{ns:.0} ns"),
        size if size < 1e6 => (ns / 1e3, "µs"),
        size if size < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// Bytes in powers of a thousand, as nsys counts them.
fn bytes(count: f64) -> String {
    let (value, unit) = match count.abs() {
        size if size < 1e3 => return format!("{count:.0} B"),
        size if size < 1e6 => (count / 1e3, "kB"),
        size if size < 1e9 => (count / 1e6, "MB"),
        _ => (count / 1e9, "GB"),
    };
    format!("{} {unit}", digits(value))
}

/// Four digits of a number below 1000.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size < 10.0 => format!("{value:.3}"),
        size if size < 100.0 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

/// Shortens long names in the middle: names of templates begin alike and differ at the end.
fn shortened(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= LONGEST {
        return text.to_owned();
    }
    let half = (LONGEST - 1) / 2;
    let (head, tail) = (&letters[..LONGEST - 1 - half], &letters[letters.len() - half..]);
    head.iter().chain(&['…']).chain(tail).collect()
}

/// The findings of a report, one sentence a line.
pub fn findings(found: &Findings) -> Vec<String> {
    let sides = [("on the GPU", &found.gpu), ("on the CPU", &found.cpu)];
    sides
        .iter()
        .filter_map(|(place, side)| side.as_ref().map(|side| sentence(place, side)))
        .collect()
}

fn sentence(place: &str, side: &StageFindings) -> String {
    let stage = &side.slowest;
    let Some(outer) = &side.outer else {
        return format!(
            "longest range {place}: {}, {} on average",
            stage.name,
            time(stage.mean_ns)
        );
    };
    let share = stage.percent.map_or_else(String::new, |percent| format!("{percent:.0} % of "));
    let odd = match outer.odd {
        0 => String::new(),
        odd => {
            format!("; {odd} outliers, up to {}", time(outer.max_ns as f64))
        }
    };
    format!(
        "slowest stage {place}: {}, {} on average, {share}{} ({} of them, {} on average{odd})",
        stage.name,
        time(stage.mean_ns),
        outer.name,
        outer.instances,
        time(outer.mean_ns)
    )
}

/// The fastest report, as a sentence.
pub fn comparison(found: &Ranking) -> Option<String> {
    let (first, last) = found.order.first().zip(found.order.last())?;
    let place = if found.by == "gpu" { "GPU" } else { "CPU" };
    let ratio = last.1 / first.1;
    Some(format!(
        "fastest configuration on the {place}: {} ({} {} on average), {ratio:.2} times as fast as \
         {} ({})",
        first.0,
        found.range,
        time(first.1),
        last.0,
        time(last.1)
    ))
}

/// Reports as one JSON document.
pub fn json(
    reports: &[Analysis],
    failed: &[(PathBuf, String)],
    compared: Option<&Ranking>,
    changes: &[Table],
    top: Option<usize>,
) -> Value {
    let tables = |tables: &[Table]| -> Value {
        let named = tables.iter().map(|table| {
            let mut table = table.clone();
            table.cut(top);
            (table.name.to_owned(), table.json())
        });
        Value::Object(named.collect())
    };
    let report = |one: &Analysis| {
        json!({
            "label": one.label, "platform": one.platform, "file": one.path,
            "exported_by": one.exporter, "notes": one.notes, "faults": one.faults,
            "findings": one.findings, "tables": tables(&one.tables),
        })
    };
    let failures = failed.iter().map(|(file, error)| json!({"file": file, "error": error}));
    let platform = |one: &super::Platform| json!({"platform": one.name, "reports": one.reports, "tables": tables(&one.tables)});
    let mut document = json!({
        "reports": reports.iter().map(report).collect::<Value>(),
        "platforms": platforms(reports).iter().map(platform).collect::<Value>(),
        "failed": failures.collect::<Value>(),
        "fastest": compared,
    });
    if !changes.is_empty() {
        document["difference"] = tables(changes);
    }
    document
}

/// Writes each table of some reports to `<folder>/<table>.csv`, with a first column `Report` if
/// there are several. Returns the files.
pub fn csv(folder: &Path, reports: &[Analysis], top: Option<usize>) -> Result<Vec<PathBuf>> {
    let mut names: Vec<&str> = Vec::new();
    for table in reports.iter().flat_map(|report| &report.tables) {
        if !names.contains(&table.name) {
            names.push(table.name);
        }
    }
    let labelled = reports.len() > 1;
    let of = |name: &str| -> Vec<(&str, &Table)> {
        let tables = reports
            .iter()
            .flat_map(|report| report.tables.iter().map(|t| (report.label.as_str(), t)));
        tables.filter(|(_, table)| table.name == name).collect()
    };
    names.into_iter().map(|name| write_csv(folder, name, labelled, &of(name), top)).collect()
}

/// Writes tables that belong to no single report, one file each.
pub fn csv_of(folder: &Path, tables: &[Table], top: Option<usize>) -> Result<Vec<PathBuf>> {
    tables.iter().map(|table| write_csv(folder, table.name, false, &[("", table)], top)).collect()
}

fn write_csv(
    folder: &Path,
    name: &str,
    labelled: bool,
    tables: &[(&str, &Table)],
    top: Option<usize>,
) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}; choose a writable --csv", folder.display()))?;
    let path = folder.join(format!("{name}.csv"));
    atomic::write(&path, |out| {
        let mut out = csv::Writer::from_writer(out);
        let label = |text: &str| labelled.then(|| text.to_owned());
        let filled = tables.iter().find(|(_, table)| !table.rows.is_empty());
        if let Some((_, table)) = filled.or(tables.first()) {
            out.write_record(label("Report").into_iter().chain(table.headers()))?;
        }
        for (report, table) in tables {
            for row in table.rows.iter().take(top.unwrap_or(usize::MAX)) {
                let cells = table.columns.iter().zip(row);
                let cells = cells.flat_map(|(column, cell)| cell.columns(column.unit));
                out.write_record(label(report).into_iter().chain(cells))?;
            }
        }
        Ok(out.flush()?)
    })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_the_unit_that_suits_them() {
        assert_eq!(time(12.0), "12 ns");
        assert_eq!(time(1234.0), "1.234 µs");
        assert_eq!(time(22_785_586.1), "22.79 ms");
        assert_eq!(time(-2.5e9), "-2.500 s");
        assert_eq!(bytes(999.0), "999 B");
        assert_eq!(bytes(3_145_728.0), "3.146 MB");
    }

    #[test]
    fn long_names_lose_their_middle() {
        let name = format!("void gemm<{}>(int)", "x".repeat(200));
        let short = shortened(&name);
        assert_eq!(short.chars().count(), LONGEST);
        assert!(
            short.starts_with("void gemm<xxx")
                && short.contains('…')
                && short.ends_with("xx>(int)")
        );
        assert_eq!(shortened("short"), "short");
    }
}
