/*!
The files of a bench: a measured row for each object.
*/

use std::path::Path;

use anyhow::{Context, Result, ensure};

use vos::files::summary_csv;
use vos::stats;

/// Reads the summary of a bench over `objects` objects.
///
/// # Errors
/// A file that is not there, rows too few or too many, or a row without a number; the sentence says
/// which.
pub fn measured(out_dir: &Path, objects: usize) -> Result<String> {
    let path = out_dir.join(summary_csv::FILE_NAME);
    let mut reader = csv::Reader::from_path(&path)
        .with_context(|| format!("the bench left no {}", path.display()))?;
    let header = reader.headers()?.clone();
    let at = |name: &str| {
        let found = header.iter().position(|column| column == name);
        found.with_context(|| format!("{} has no column {name}", path.display()))
    };
    let (status, reason, fps, quality) = (at("status")?, at("reason")?, at("fps")?, at("JandF")?);
    let (mut speeds, mut qualities) = (Vec::new(), Vec::new());
    for row in reader.records() {
        let row = row?;
        ensure!(&row[status] == "ok", "a row is {}: {}", &row[status], &row[reason]);
        let number = |at: usize| {
            let value: Option<f64> = row[at].parse().ok();
            let sound = value.filter(|value| value.is_finite() && *value >= 0.0);
            sound.with_context(|| format!("{} of a row is {:?}", &header[at], &row[at]))
        };
        speeds.push(number(fps)?);
        qualities.push(number(quality)?);
    }
    ensure!(speeds.len() == objects, "{} rows found, {objects} expected", speeds.len());
    ensure!(speeds.iter().all(|fps| *fps > 0.0), "a row has 0 fps");
    let mean = |values: &[f64]| stats::mean(values).unwrap_or_default();
    Ok(format!(
        "{}, {:.1} fps, J&F {:.1} %",
        host::counted(objects, "object"),
        mean(&speeds),
        100.0 * mean(&qualities)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_without_a_row_for_every_object_is_no_success() {
        let dir = tempfile::tempdir().unwrap();
        let write = |rows: &str| {
            let text = format!("video,fps,JandF,status,reason\r\n{rows}");
            std::fs::write(dir.path().join(summary_csv::FILE_NAME), text).unwrap();
            measured(dir.path(), 2).map_err(|error| format!("{error:#}"))
        };
        assert!(measured(dir.path(), 2).unwrap_err().to_string().contains("left no"));
        let good = write("a,10.0,0.5,ok,\r\nb,30.0,0.7,ok,\r\n");
        assert_eq!(good.unwrap(), "2 objects, 20.0 fps, J&F 60.0 %");
        assert_eq!(write("a,10.0,0.5,ok,\r\n").unwrap_err(), "1 rows found, 2 expected");
        let failed = write("a,10.0,0.5,ok,\r\nb,,,failed,inference: no\r\n");
        assert_eq!(failed.unwrap_err(), "a row is failed: inference: no");
        assert!(write("a,10.0,0.5,ok,\r\nb,0.0,0.5,ok,\r\n").unwrap_err().contains("0 fps"));
        assert!(
            write("a,10.0,,ok,\r\nb,1.0,0.5,ok,\r\n")
                .unwrap_err()
                .contains("JandF of a row is \"\"")
        );
    }
}
