/*!
From a report to its SQLite export: the one that lies beside it, or one that `nsys export` makes for
the occasion.
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

/// A database to read; one that was made for the occasion vanishes with this.
#[derive(Debug)]
struct Export {
    /// The file.
    path: PathBuf,
    _folder: Option<TempDir>,
}

/// The export of `file`, which is a report or an export already.
///
/// # Errors
/// No nsys to export with, or a report that it cannot export.
fn export(file: &Path) -> Result<Export> {
    if !is_report(file) {
        return Ok(Export { path: file.to_owned(), _folder: None });
    }
    let beside = file.with_extension(EXPORT);
    if is_fresh(&beside, file) {
        return Ok(Export { path: beside, _folder: None });
    }
    let nsys = Nsys::find().with_context(|| {
        format!("{} must be exported to SQLite before it can be read", file.display())
    })?;
    let folder = tempfile::Builder::new().prefix("segtrt-nsys-").tempdir()?;
    let path = folder.path().join("report.sqlite");
    let mut command = Command::new(&nsys.path);
    command.args(["export", "--type", "sqlite", "--quiet", "true", "--force-overwrite", "true"]);
    command.arg("--output").arg(&path).arg(file).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("cannot run {}", nsys.path.display()))?;
    if !output.status.success() || !path.is_file() {
        let said = [&output.stderr[..], &output.stdout[..]].concat();
        let said = String::from_utf8_lossy(&said);
        let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        bail!(
            "nsys {} cannot export {} ({}): {}; it may be cut off, or recorded by a newer nsys: export it with the nsys \
             that recorded it",
            nsys.version,
            file.display(),
            output.status,
            if said.is_empty() { "it printed nothing".to_owned() } else { said.join("; ") }
        );
    }
    Ok(Export { path, _folder: Some(folder) })
}

/// Reads a report or an export.
///
/// # Errors
/// As [`super::analyse`] has them, but for what was recorded.
pub fn read(file: &Path) -> Result<Trace> {
    let export = export(file)?;
    load::load(&Database::open(&export.path)?)
}

/// The export is there and not older than its report.
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
