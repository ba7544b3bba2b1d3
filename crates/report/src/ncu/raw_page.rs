/*!
The raw page of ncu as CSV: messages of ncu, a header with a column for each metric, a row of units,
a row for each launch.
*/

use std::collections::HashMap;

use anyhow::{Result, bail};

use super::Launch;

/// Columns that are no metric.
const KERNEL: &str = "Kernel Name";
const ID: &str = "ID";

/// The launches of an output; `from` names it in errors.
///
/// # Errors
/// It has no header of the raw page, or a row that does not fit the header.
pub fn parse(text: &str, from: &str) -> Result<Vec<Launch>> {
    let Some(start) = header(text) else {
        let errors = errors(text);
        bail!(
            "{from} has no table of ncu{}; expected the output of: ncu --csv --page raw",
            match errors.is_empty() {
                true => String::new(),
                false => format!(" (it has: {})", errors.join("; ")),
            }
        );
    };
    let mut reader =
        csv::ReaderBuilder::new().flexible(true).from_reader(&text.as_bytes()[start..]);
    let names: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
    let place = |name: &str| names.iter().position(|own| own == name);
    let (Some(id), Some(kernel)) = (place(ID), place(KERNEL)) else {
        bail!("{from}: the table has no columns {ID} and {KERNEL}; expected the raw page of ncu");
    };
    if place("Metric Name").is_some() {
        bail!("{from} is the details page of ncu; write it again with: ncu --csv --page raw");
    }
    let mut units: Vec<String> = Vec::new();
    let mut launches = Vec::new();
    for row in reader.records() {
        let Ok(row) = row else { continue };
        // Messages of ncu may follow the table.
        if row.len() == 1 {
            continue;
        }
        if row.len() != names.len() {
            bail!(
                "{from}: a row has {} fields, the header {}; the file is truncated or damaged",
                row.len(),
                names.len()
            );
        }
        if row.get(id).is_some_and(str::is_empty) {
            units = row.iter().map(str::to_owned).collect();
            continue;
        }
        let mut metrics = HashMap::new();
        for (at, (name, value)) in names.iter().zip(&row).enumerate() {
            let scale = units.get(at).map_or(1.0, |unit| scale(unit));
            if let Some(number) = number(value).filter(|_| name.contains("__")) {
                metrics.insert(name.clone(), number * scale);
            }
        }
        launches.push(Launch { kernel: row.get(kernel).unwrap_or_default().to_owned(), metrics });
    }
    Ok(launches)
}

/// Where the header's line begins.
fn header(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with("\"ID\",") || line.starts_with("ID,") {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// The errors among ncu's messages.
pub fn errors(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("==ERROR==")).map(str::trim).collect()
}

/// A number, perhaps with commas between thousands; none for `n/a` and words.
fn number(text: &str) -> Option<f64> {
    text.replace(',', "").parse().ok().filter(|value: &f64| value.is_finite())
}

/// Factor to the base unit: nanoseconds and bytes.
fn scale(unit: &str) -> f64 {
    let unit = unit.split('/').next().unwrap_or(unit);
    match unit {
        "usecond" | "us" => 1e3,
        "msecond" | "ms" => 1e6,
        "second" | "s" => 1e9,
        "Kbyte" => 1e3,
        "Mbyte" => 1e6,
        "Gbyte" => 1e9,
        _ => 1.0,
    }
}
