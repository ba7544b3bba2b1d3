/*!
Paths of reports: `<folder>/<video>_obj<object>_<tag>_run<n>.nsys-rep`, as in the predecessor.
*/

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use vos::record::ObjectKey;

/// Suffix of reports.
const SUFFIX: &str = "nsys-rep";
/// Suffix of nsys's recording, which remains if no report can be made.
const RECORDING: &str = "qdstrm";

/// The path of one report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportName {
    folder: PathBuf,
    /// The user's prefix of the name, which may have nsys's patterns (%p, %h, %q{…}).
    prefix: Option<String>,
    stem: String,
}

impl ReportName {
    /// Path for one recorded pass.
    pub fn new(folder: &Path, prefix: Option<&str>, key: &ObjectKey, run: usize) -> Self {
        let ObjectKey { video, object, tag: model } = key;
        Self {
            folder: folder.to_owned(),
            prefix: prefix.map(str::to_owned),
            stem: format!("{video}_obj{object}_{model}_run{run}"),
        }
    }

    /// A report that has this name, which no prefix goes before.
    pub fn plain(folder: &Path, stem: String) -> Self {
        Self { folder: folder.to_owned(), prefix: None, stem }
    }

    /// nsys's output argument. A percent sign outside the user's patterns is doubled, so that nsys
    /// does not treat it as one.
    pub fn pattern(&self) -> PathBuf {
        let escaped = |text: &str| text.replace('%', "%%");
        let prefix = self.prefix.as_ref().map_or_else(String::new, |prefix| format!("{prefix}_"));
        let name = format!("{prefix}{}.{SUFFIX}", escaped(&self.stem));
        match self.folder.to_str() {
            Some(folder) => Path::new(&escaped(folder)).join(name),
            None => self.folder.join(name),
        }
    }

    /// The report; if the user's prefix has patterns, the newest matching one.
    pub fn find(&self) -> Option<PathBuf> {
        self.find_with(SUFFIX)
    }

    fn find_with(&self, suffix: &str) -> Option<PathBuf> {
        let plain = match &self.prefix {
            Some(prefix) => match prefix.split_once('%') {
                Some((literal, _)) => return self.newest(literal, suffix),
                None => format!("{prefix}_{}", self.stem),
            },
            None => self.stem.clone(),
        };
        let path = self.folder.join(format!("{plain}.{suffix}"));
        holds_something(&path).then_some(path)
    }

    /// The report, if it was written after `moment`.
    pub fn find_since(&self, moment: SystemTime) -> Option<PathBuf> {
        self.find().filter(|path| is_since(path, moment))
    }

    /// The recording without a report that was written after `moment`.
    pub(super) fn recording_since(&self, moment: SystemTime) -> Option<PathBuf> {
        self.find_with(RECORDING).filter(|path| is_since(path, moment))
    }

    /// The file for nsys's messages if there is no report.
    pub(super) fn words(&self) -> PathBuf {
        let prefix = self.prefix.as_ref().map(|prefix| prefix.replace('%', "_") + "_");
        self.folder.join(format!("{}{}.nsys.txt", prefix.unwrap_or_default(), self.stem))
    }

    fn newest(&self, literal: &str, suffix: &str) -> Option<PathBuf> {
        let end = format!("_{}.{suffix}", self.stem);
        let entries = std::fs::read_dir(&self.folder).ok()?.flatten();
        let is_ours = |name: &str| name.starts_with(literal) && name.ends_with(&end);
        let ours = entries
            .filter(|entry| entry.file_name().to_str().is_some_and(is_ours))
            .map(|entry| entry.path())
            .filter(|path| holds_something(path));
        ours.max_by_key(|path| modified(path))
    }

    /// Removes an earlier report of this name, which would be taken for a new one that failed. A
    /// name with patterns is unique, so nothing is removed.
    ///
    /// # Errors
    /// The system does not permit removing it.
    pub fn clear(&self) -> Result<()> {
        // Messages of an earlier attempt would be misleading.
        let _ = std::fs::remove_file(self.words());
        let has_patterns = self.prefix.as_ref().is_some_and(|prefix| prefix.contains('%'));
        match self.find().filter(|_| !has_patterns) {
            Some(old) => std::fs::remove_file(&old)
                .with_context(|| format!("cannot remove the old {}", old.display())),
            None => Ok(()),
        }
    }
}

/// Renames the report of a failed pass to `….failed.nsys-rep` and returns the new path.
///
/// # Errors
/// It cannot be renamed.
pub fn set_aside(report: &Path) -> Result<PathBuf> {
    let aside = report.with_extension(format!("failed.{SUFFIX}"));
    std::fs::rename(report, &aside)
        .with_context(|| format!("cannot rename {}", report.display()))?;
    Ok(aside)
}

fn modified(path: &Path) -> SystemTime {
    let meta = std::fs::metadata(path).and_then(|meta| meta.modified());
    meta.unwrap_or(SystemTime::UNIX_EPOCH)
}

fn is_since(path: &Path, moment: SystemTime) -> bool {
    // Clocks of file systems are coarser than the system's.
    modified(path) + Duration::from_secs(2) >= moment
}

fn holds_something(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(folder: &Path, prefix: Option<&str>) -> ReportName {
        let key = ObjectKey {
            video: "sav_1%p".into(),
            object: "000".into(),
            tag: "edgetam_points".into(),
        };
        ReportName::new(folder, prefix, &key, 2)
    }

    #[test]
    fn the_name_is_the_predecessors_and_percent_signs_stay() {
        let name = name(Path::new("out/100%/nsight_reports"), None);
        let pattern = name.pattern();
        assert_eq!(
            pattern,
            Path::new("out/100%%/nsight_reports/sav_1%%p_obj000_edgetam_points_run2.nsys-rep")
        );
        assert_eq!(name.find(), None);
    }

    #[test]
    fn a_report_is_found_cleared_and_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let name = name(dir.path(), None);
        let path = dir.path().join("sav_1%p_obj000_edgetam_points_run2.nsys-rep");
        std::fs::write(&path, "").unwrap();
        assert_eq!(name.find(), None, "an empty file is no report");
        std::fs::write(&path, "report").unwrap();
        assert_eq!(name.find(), Some(path.clone()));
        let aside = set_aside(&path).unwrap();
        assert!(aside.ends_with("sav_1%p_obj000_edgetam_points_run2.failed.nsys-rep"));
        assert!(aside.is_file() && name.find().is_none());
        std::fs::write(&path, "report").unwrap();
        name.clear().unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "report").unwrap();
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(name.find_since(later), None, "an old report is not the new one");
        assert_eq!(name.find_since(SystemTime::now()), Some(path));
    }

    #[test]
    fn a_name_with_nsyss_own_patterns_is_found_by_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let name = name(dir.path(), Some("mine_%p_%h"));
        assert!(
            name.pattern().ends_with("mine_%p_%h_sav_1%%p_obj000_edgetam_points_run2.nsys-rep")
        );
        let path = dir.path().join("mine_77_board_sav_1%p_obj000_edgetam_points_run2.nsys-rep");
        std::fs::write(&path, "report").unwrap();
        std::fs::write(
            dir.path().join("mine_77_board_sav_1%p_obj000_edgetam_points_run1.nsys-rep"),
            "x",
        )
        .unwrap();
        std::fs::write(
            dir.path().join("yours_78_sav_1%p_obj000_edgetam_points_run2.nsys-rep"),
            "x",
        )
        .unwrap();
        assert_eq!(name.find(), Some(path.clone()));
        name.clear().unwrap();
        assert!(path.is_file(), "no two reports have one name: none is in the way");
    }
}
