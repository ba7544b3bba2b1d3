/*!
The files of a command line: reports, exports, folders of them; each with a short label.
*/

use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Suffixes of reports that must be exported first; the second one is from before 2021.
pub const REPORTS: [&str; 2] = ["nsys-rep", "qdrep"];
/// Suffix of exports.
pub const EXPORT: &str = "sqlite";

/// One report to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The file.
    pub path: PathBuf,
    /// Its name in tables, without its suffix; with its folder's name if two reports have the same
    /// name.
    pub label: String,
    /// The platform that the user named before the path.
    pub platform: Option<String>,
}

/// The reports in `paths`, in the order of their labels, with numbers sorted as numbers. A report
/// and its export count once; a folder stands for the reports in it, or else the exports.
///
/// # Errors
/// A path that does not exist, or a folder without any report.
pub fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>> {
    let mut files: Vec<(PathBuf, Option<String>)> = Vec::new();
    for given in paths {
        let (platform, path) = named(given);
        if path.is_dir() {
            let found = in_folder(&path)?;
            files.extend(found.into_iter().map(|file| (file, platform.clone())));
        } else if path.exists() {
            files.push((path, platform));
        } else {
            bail!(
                "{} does not exist; name a report (.nsys-rep), its export (.sqlite) or a folder of \
                 them",
                path.display()
            );
        }
    }
    let mut kept: Vec<(PathBuf, Option<String>)> = Vec::new();
    for (file, platform) in files {
        match kept.iter_mut().find(|(other, _)| stem(other) == stem(&file)) {
            // The report is the original: its export may be of an earlier version.
            Some((other, _)) if is_report(&file) => *other = file,
            Some(_) => {}
            None => kept.push((file, platform)),
        }
    }
    let mut found = labelled(kept);
    found.sort_by(|a, b| natural(&a.label, &b.label));
    Ok(found)
}

/// A path and the platform before it, as in `RTX 3090=reports`.
fn named(given: &Path) -> (Option<String>, PathBuf) {
    match given.to_str().and_then(|text| text.split_once('=')) {
        // A path may contain an equals sign.
        Some((platform, path)) if !given.exists() && !platform.is_empty() => {
            (Some(platform.to_owned()), PathBuf::from(path))
        }
        _ => (None, given.to_owned()),
    }
}

/// Whether the file is a report that must be exported.
pub fn is_report(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| REPORTS.iter().any(|known| suffix == *known))
}

/// The path without the suffix of a report or an export.
fn stem(path: &Path) -> PathBuf {
    let known = is_report(path) || path.extension().is_some_and(|suffix| suffix == EXPORT);
    if known { path.with_extension("") } else { path.to_owned() }
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot list {}", folder.display()))?
        .flatten()
        .map(|entry| entry.path());
    let (reports, others): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| is_report(path));
    let exports = others.into_iter().filter(|path| path.extension().is_some_and(|s| s == EXPORT));
    let mut found: Vec<PathBuf> = if reports.is_empty() { exports.collect() } else { reports };
    found.sort();
    if found.is_empty() {
        bail!(
            "{} has no report; expected files that end in .nsys-rep or \
               .sqlite",
            folder.display()
        );
    }
    Ok(found)
}

fn labelled(files: Vec<(PathBuf, Option<String>)>) -> Vec<Input> {
    let name =
        |file: &Path| stem(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut count: HashMap<String, usize> = HashMap::new();
    for (file, _) in &files {
        *count.entry(name(file)).or_default() += 1;
    }
    let label = |file: &Path| match count.get(&name(file)) {
        Some(1) => name(file),
        _ => stem(file).display().to_string(),
    };
    let input =
        |(path, platform): (PathBuf, Option<String>)| Input { label: label(&path), path, platform };
    files.into_iter().map(input).collect()
}

/// Compares texts with numbers as numbers: `bs2` before `bs16`.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let digits =
            |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (m, n) = (digits(left), digits(right));
        let order = if m > 0 && n > 0 {
            let (x, y) = (&left[..m], &right[..n]);
            let value = |text: &str| text.trim_start_matches('0').to_owned();
            (left, right) = (&left[m..], &right[n..]);
            let (x, y) = (value(x), value(y));
            x.len().cmp(&y.len()).then_with(|| x.cmp(&y))
        } else {
            let (mut rest_left, mut rest_right) = (left.chars(), right.chars());
            let order = rest_left.next().cmp(&rest_right.next());
            (left, right) = (rest_left.as_str(), rest_right.as_str());
            order
        };
        match order {
            Ordering::Equal if left.is_empty() && right.is_empty() => return a.cmp(b),
            Ordering::Equal => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(paths: &[PathBuf]) -> Vec<String> {
        inputs(paths).unwrap().into_iter().map(|input| input.label).collect()
    }

    #[test]
    fn numbers_sort_as_numbers_padded_or_not() {
        let mut names = ["b16", "b2", "b1", "a", "b02", "b", "é2"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "b", "b1", "b02", "b2", "b16", "é2"]);
    }

    #[test]
    fn reports_are_found_once_and_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        };
        let (export, report) = (file("x/bs10.sqlite"), file("x/bs10.nsys-rep"));
        let (small, other) = (file("x/bs2.sqlite"), file("y/bs10.sqlite"));
        file("x/notes.txt");
        assert_eq!(labels(&[export.clone(), report.clone(), small.clone()]), ["bs2", "bs10"]);
        let both = inputs(&[export.clone(), report.clone()]).unwrap();
        assert_eq!(both[0].path, report, "the report is the original");
        let found = labels(&[export, other]);
        assert!(found[0].ends_with("x/bs10") && found[1].ends_with("y/bs10"), "{found:?}");
        assert_eq!(labels(&[dir.path().join("x")]), ["bs10"], "reports before exports");
        assert_eq!(labels(&[dir.path().join("y")]), ["bs10"]);
        let empty = inputs(&[dir.path().to_owned()]).unwrap_err().to_string();
        assert!(empty.contains("has no report"), "{empty}");
        let both = [format!("Orin={}", both[0].path.display()).into(), dir.path().join("y")];
        let platforms: Vec<_> =
            inputs(&both).unwrap().into_iter().map(|one| one.platform).collect();
        assert!(platforms.contains(&Some("Orin".to_owned())) && platforms.contains(&None));
        let missing = inputs(&[dir.path().join("no.nsys-rep")]).unwrap_err().to_string();
        assert!(missing.contains("no.nsys-rep does not exist"), "{missing}");
    }
}
