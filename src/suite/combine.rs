/*!
The tables of a suite's experiments as one, with the experiment in every row.

Its two columns come where the predecessor had them, after its own last column and before ours.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::Experiment;
use vos::files::atomic;
use vos::files::python_format::write_csv_row;

/// The predecessor's last column; its suites put theirs after it.
const LAST: &str = "setup_ms";
/// The column with a path below the table's folder.
const OVERLAY: &str = "overlay";

/// An experiment and its table.
#[derive(Clone, Debug)]
pub struct ExperimentTable<'a> {
    /// What its rows are of.
    pub experiment: &'a Experiment,
    /// Its `sav_benchmark_summary.csv`.
    pub table: PathBuf,
}

/// Writes the rows of all `parts` to `path`; how many there are.
///
/// # Errors
/// A table that cannot be read, or that has other columns than the first.
pub fn combine(path: &Path, parts: &[ExperimentTable<'_>]) -> Result<usize> {
    let mut header: Vec<String> = Vec::new();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for part in parts {
        let said = || format!("cannot read {}", part.table.display());
        let mut reader = csv::Reader::from_path(&part.table).with_context(said)?;
        let names: Vec<String> =
            reader.headers().with_context(said)?.iter().map(str::to_owned).collect();
        if header.is_empty() {
            header = names;
        } else if header != names {
            bail!(
                "{} has other columns than {}; run the suite again without --resume, or into \
                 another --out-root",
                part.table.display(),
                parts[0].table.display()
            );
        }
        // An overlay is named below its table's folder, here below that of the combined one.
        let folder = part.table.parent().unwrap_or(&part.table);
        let folder = path.parent().and_then(|all| folder.strip_prefix(all).ok()).unwrap_or(folder);
        for row in reader.records() {
            let mut row: Vec<String> = row.with_context(said)?.iter().map(str::to_owned).collect();
            let Experiment { name, description, .. } = part.experiment;
            if let Some(overlay) = header.iter().position(|column| column == OVERLAY)
                && let Some(path) = row.get_mut(overlay).filter(|path| !path.is_empty())
            {
                *path = folder.join(&*path).display().to_string();
            }
            row.splice(place(&header)..place(&header), [name.clone(), description.clone()]);
            rows.push(row);
        }
    }
    let at = place(&header);
    header.splice(at..at, ["experiment_name", "experiment_description"].map(str::to_owned));
    atomic::write(path, |out| {
        write_csv_row(out, &header)?;
        rows.iter().try_for_each(|row| write_csv_row(out, row))?;
        Ok(())
    })?;
    Ok(rows.len())
}

/// Where the experiment's columns go.
fn place(header: &[String]) -> usize {
    header.iter().position(|name| name == LAST).map_or(header.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::strides::Strides;

    fn experiment(name: &str) -> Experiment {
        Experiment {
            name: name.into(),
            description: format!("{name}, and a comma"),
            imgsz: None,
            strides: Strides::default(),
        }
    }

    #[test]
    fn rows_follow_one_another_with_their_experiment() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (experiment("a"), experiment("b"));
        let part = |experiment, name: &str, text: &str| {
            let table = dir.path().join(name);
            std::fs::create_dir_all(table.parent().unwrap()).unwrap();
            std::fs::write(&table, text).unwrap();
            ExperimentTable { experiment, table }
        };
        let first = part(&a, "a.csv", "video,setup_ms,status\r\nv0,1.5,ok\r\n");
        let second = part(&b, "b.csv", "video,setup_ms,status\r\n\"v,1\",,failed\r\n");
        let out = dir.path().join("all.csv");
        assert_eq!(combine(&out, &[first.clone(), second]).unwrap(), 2);
        assert_eq!(
            std::fs::read_to_string(&out).unwrap(),
            "video,setup_ms,experiment_name,experiment_description,status\r\n\
             v0,1.5,a,\"a, and a comma\",ok\r\n\"v,1\",,b,\"b, and a comma\",failed\r\n"
        );
        let shown = part(&a, "a/t.csv", "overlay,setup_ms\r\no.mp4,1\r\n,2\r\n");
        let pictures = dir.path().join("pictures.csv");
        assert_eq!(combine(&pictures, &[shown]).unwrap(), 2);
        let text = std::fs::read_to_string(&pictures).unwrap();
        assert!(text.contains("\r\na/o.mp4,1,") && text.contains("\r\n,2,"), "{text}");
        let other = part(&b, "c.csv", "video,status\r\nv1,ok\r\n");
        let error = combine(&out, &[first, other]).unwrap_err().to_string();
        assert!(error.contains("c.csv has other columns than"), "{error}");
        assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 3, "left as it was");
    }
}
