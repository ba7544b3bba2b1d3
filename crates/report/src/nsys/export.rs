/*!
Finds the SQLite export of a report: the file next to it, or a temporary one from `nsys export`.
*/

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::database::Database;
use super::inputs::{EXPORT, is_report};
use super::load;
use super::program::Nsys;
use super::trace::Trace;

/// A database to read; a temporary one is deleted with this value.
#[derive(Debug)]
struct Export {
    /// The file.
    path: PathBuf,
    _folder: Option<TempDir>,
}

/// The export of `file`, which is a report or an export already.
///
/// # Errors
/// There is no nsys to export with, or it cannot export the report.
fn export(file: &Path) -> Result<Export> {
    if !is_report(file) {
        return Ok(Export { path: file.to_owned(), _folder: None });
    }
    let beside = file.with_extension(EXPORT);
    if is_fresh(&beside, file) {
        return Ok(Export { path: beside, _folder: None });
    }
    let nsys = Nsys::find().with_context(|| {
        format!("{} must be exported to SQLite by nsys before it can be read", file.display())
    })?;
    let folder = tempfile::Builder::new().prefix("segtrt-nsys-").tempdir()?;
    let path = folder.path().join("report.sqlite");
    let mut command = Command::new(&nsys.path);
    command.args(["export", "--type", "sqlite", "--quiet", "true", "--force-overwrite", "true"]);
    command.arg("--output").arg(&path).arg(file).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("cannot run {}", nsys.path.display()))?;
    if !output.status.success() || !path.is_file() {
        let output_text = [&output.stderr[..], &output.stdout[..]].concat();
        let output_text = String::from_utf8_lossy(&output_text);
        let lines: Vec<&str> =
            output_text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        bail!(
            "nsys {} cannot export {} ({}): {}; it may be truncated, or recorded by a newer nsys; \
             export it with the nsys that recorded it",
            nsys.version,
            file.display(),
            output.status,
            if lines.is_empty() { "it printed nothing".to_owned() } else { lines.join("; ") }
        );
    }
    Ok(Export { path, _folder: Some(folder) })
}

/// Reads a report or an export.
///
/// # Errors
/// As [`super::analyse`], except for missing data.
pub fn read(file: &Path) -> Result<Trace> {
    let export = export(file)?;
    load::load(&Database::open(&export.path)?)
}

/// The export exists and is not older than its report.
fn is_fresh(export: &Path, report: &Path) -> bool {
    let modified = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified());
    matches!((modified(export), modified(report)), (Ok(export), Ok(report)) if export >= report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn an_export_beside_its_report_is_taken_unless_it_is_older() {
        let dir = tempfile::tempdir().unwrap();
        let (report, beside) = (dir.path().join("a.nsys-rep"), dir.path().join("a.sqlite"));
        std::fs::write(&report, "").unwrap();
        std::fs::write(&beside, "").unwrap();
        assert_eq!(export(&report).unwrap().path, beside);
        assert_eq!(export(&beside).unwrap().path, beside);
        let old = SystemTime::now() - Duration::from_secs(3600);
        std::fs::File::options().write(true).open(&beside).unwrap().set_modified(old).unwrap();
        assert!(!is_fresh(&beside, &report));
    }
}
