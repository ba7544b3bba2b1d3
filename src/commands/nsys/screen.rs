/*!
What `segtrt nsys` says below its tables, and how several reports fit into their columns.
*/

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use host::printable::printable;
use report::nsys::{Analysis, Ranking, render};

/// Reports side by side on the screen; files have all.
const MOST_COLUMNS: usize = 10;
/// Longer labels would make columns too wide.
const LONGEST_LABEL: usize = 24;

/// The reports as columns of a screen: long names give way to letters, and only as many are shown
/// as fit.
pub fn columns(reports: &[Analysis]) -> Vec<Analysis> {
    let lettered = are_lettered(reports);
    let short = |(at, report): (usize, &Analysis)| match lettered {
        true => Analysis { label: letter(at), ..report.clone() },
        false => report.clone(),
    };
    reports.iter().enumerate().take(MOST_COLUMNS).map(short).collect()
}

fn are_lettered(reports: &[Analysis]) -> bool {
    reports.len() > 1 && reports.iter().any(|report| report.label.chars().count() > LONGEST_LABEL)
}

/// A, B, … Z, 27, 28, …
fn letter(at: usize) -> String {
    match u8::try_from(at) {
        Ok(at) if at < 26 => char::from(b'A' + at).to_string(),
        _ => (at + 1).to_string(),
    }
}

/// What was found, and then what is wrong; each report by its name where there are several.
pub fn sentences(
    reports: &[Analysis],
    failed: &[(PathBuf, String)],
    compared: Option<&Result<Ranking, String>>,
) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let (several, lettered) = (reports.len() + failed.len() > 1, are_lettered(reports));
    for (at, report) in reports.iter().enumerate() {
        let name = match (several, lettered) {
            (true, true) => format!("{} {}: ", letter(at), report.label),
            (true, false) => format!("{}: ", report.label),
            (false, _) => String::new(),
        };
        for line in render::findings(&report.findings) {
            writeln!(out, "{}", printable(&format!("{name}{line}")))?;
        }
    }
    notes(&mut out, reports)?;
    if reports.len() > MOST_COLUMNS {
        let all = reports.len();
        writeln!(
            out,
            "the tables show the first {MOST_COLUMNS} of {all} reports; --csv and --json have all"
        )?;
    }
    match compared {
        Some(Ok(found)) => {
            writeln!(out, "{}", printable(&render::comparison(found).unwrap_or_default()))?
        }
        Some(Err(why)) => writeln!(out, "{}", printable(why))?,
        None => {}
    }
    for report in reports {
        for fault in &report.faults {
            eprintln!("Error: {}: {fault}", report.path.display());
        }
    }
    for (_, error) in failed {
        eprintln!("Error: {error}");
    }
    Ok(())
}

/// Facts that all reports share are printed once.
fn notes(out: &mut impl Write, reports: &[Analysis]) -> Result<()> {
    let mut notes: Vec<&String> = reports.iter().flat_map(|report| &report.notes).collect();
    notes.sort();
    notes.dedup();
    for note in notes {
        let of = reports.iter().filter(|report| report.notes.contains(note));
        let of: Vec<&str> = of.map(|report| report.label.as_str()).collect();
        match of.len() == reports.len() {
            true => writeln!(out, "{}", printable(note))?,
            false => writeln!(out, "{}", printable(&format!("{}: {note}", of.join(", "))))?,
        }
    }
    Ok(())
}
