/*!
Several reports next to each other: a column for each report, or two reports and their difference.
*/

use std::collections::BTreeMap;

use super::analysis::Analysis;
use super::table::{Cell, Column, Table, Unit};

/// For each comparable table its measure in every report, with a row for each key of any report,
/// the largest first.
pub fn side_by_side(reports: &[Analysis]) -> Vec<Table> {
    names(reports).into_iter().filter_map(|name| wide(name, reports)).collect()
}

/// For each table that both reports have, the change from the first to the second, the largest
/// first.
pub fn difference(first: &Analysis, second: &Analysis) -> Vec<Table> {
    let reports = [first.clone(), second.clone()];
    names(&reports).into_iter().filter_map(|name| change(name, &reports)).collect()
}

/// Names of the tables with keys, in order of first appearance.
fn names(reports: &[Analysis]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    let tables = reports.iter().flat_map(|report| &report.tables);
    for table in tables.filter(|table| !table.keys.is_empty()) {
        if !names.contains(&table.name) {
            names.push(table.name);
        }
    }
    names
}

fn tables<'a>(name: &str, reports: &'a [Analysis]) -> Vec<Option<&'a Table>> {
    let of = |report: &'a Analysis| report.tables.iter().find(|table| table.name == name);
    reports.iter().map(of).collect()
}

/// Every key with its row in each report.
fn rows<'a>(tables: &[Option<&'a Table>]) -> BTreeMap<String, Vec<Option<&'a Vec<Cell>>>> {
    let mut rows: BTreeMap<String, Vec<Option<&Vec<Cell>>>> = BTreeMap::new();
    for (at, table) in tables.iter().enumerate() {
        for row in table.iter().flat_map(|table| &table.rows) {
            let key = table.map(|table| table.key(row)).unwrap_or_default();
            rows.entry(key).or_insert_with(|| vec![None; tables.len()])[at] = Some(row);
        }
    }
    rows
}

fn cell(row: Option<&Vec<Cell>>, at: usize) -> Cell {
    row.and_then(|row| row.get(at)).cloned().unwrap_or(Cell::Missing)
}

fn key_title(table: &Table) -> String {
    let titles = table.keys.iter().filter_map(|&at| table.columns.get(at));
    titles.map(|column| column.title.as_ref()).collect::<Vec<_>>().join(", ")
}

fn wide(name: &str, reports: &[Analysis]) -> Option<Table> {
    let tables = tables(name, reports);
    let model = tables.iter().flatten().next().copied()?;
    let measure = model.columns.get(model.measure)?;
    let key = Column { title: key_title(model).into(), unit: Unit::Text };
    let several = reports.windows(2).any(|pair| pair[0].platform != pair[1].platform);
    let label = |report: &Analysis| {
        let above = match several && report.platform != report.label {
            true => format!("{}\n", report.platform),
            false => String::new(),
        };
        Column { title: format!("{above}{}", report.label).into(), unit: measure.unit }
    };
    let mut wide: Vec<Vec<Cell>> = rows(&tables)
        .into_iter()
        .map(|(key, rows)| {
            let values = rows.into_iter().map(|row| cell(row, model.measure));
            [Cell::Text(key)].into_iter().chain(values).collect()
        })
        .collect();
    let weight = |row: &Vec<Cell>| row.iter().filter_map(Cell::number).fold(0.0, f64::max);
    wide.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    Some(Table {
        name: model.name,
        title: format!("{}: {}", model.title, measure.title).into(),
        columns: [key].into_iter().chain(reports.iter().map(label)).collect(),
        keys: &[0],
        measure: 1,
        count: None,
        rows: wide,
    })
}

fn change(name: &str, reports: &[Analysis; 2]) -> Option<Table> {
    let tables = tables(name, reports);
    let model = tables.iter().flatten().next().copied()?;
    let measure = model.columns.get(model.measure)?;
    let titled = |title: String, unit| Column { title: title.into(), unit };
    let mut columns = vec![titled(key_title(model), Unit::Text)];
    for report in reports {
        columns.push(titled(format!("{} {}", report.label, measure.title), measure.unit));
    }
    columns.push(titled("Change".to_owned(), measure.unit));
    columns.push(titled("Relative Change".to_owned(), Unit::Percent));
    if let Some(count) = model.count.and_then(|at| model.columns.get(at)) {
        for report in reports {
            columns.push(titled(format!("{} {}", report.label, count.title), Unit::Count));
        }
    }
    let mut rows: Vec<Vec<Cell>> = rows(&tables)
        .into_iter()
        .map(|(key, rows)| {
            let [a, b] = [0, 1].map(|at| cell(rows[at], model.measure));
            let (change, relative) = match (a.number(), b.number()) {
                (Some(a), Some(b)) if a != 0.0 => {
                    (Cell::Real(b - a), Cell::Real(100.0 * (b - a) / a))
                }
                (Some(a), Some(b)) => (Cell::Real(b - a), Cell::Missing),
                _ => (Cell::Missing, Cell::Missing),
            };
            let counts = model.count.map(|at| [0, 1].map(|report| cell(rows[report], at)));
            let numbers = [Cell::Text(key), a, b, change, relative];
            numbers.into_iter().chain(counts.into_iter().flatten()).collect()
        })
        .collect();
    // A row of only one report has no change. It is sorted by its value, because it may be large.
    let weight = |row: &Vec<Cell>| {
        let number = |at: usize| row.get(at).and_then(Cell::number);
        number(3).or(number(1)).or(number(2)).unwrap_or(0.0).abs()
    };
    rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    Some(Table {
        name: model.name,
        title: format!("{}: change", model.title).into(),
        columns,
        keys: &[0],
        measure: 3,
        count: None,
        rows,
    })
}
