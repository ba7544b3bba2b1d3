/*!
The results of a board that were sent back (`results.tar` of a pack): are the files whole, did every
step succeed, are the rows VALID and those of the original pipeline. Then the rows for a table of
boards.
*/

mod row;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tempfile::TempDir;

pub use row::{Row, markdown, rows};
use vos::files::{sha256_of_file, summary_csv};
use vos::preprocess::pillow;

/// The folder in the archive.
const FOLDER: &str = "results";
/// Sums of all other files of the folder.
const SUMS: &str = "SHA256SUMS";
/// What `run.sh` leaves where the CPU stood in for the GPU.
const REHEARSAL: &str = "REHEARSAL";
/// Steps that a table of boards asks for.
const STEPS: [&str; 3] = ["build-engines", "selftest", "bench"];
/// Tables and logs have kilobytes, masks and overlays megabytes.
const MOST_BYTES: u64 = 4 << 30;
/// Names of files in a sentence.
const SHOWN: usize = 3;

/// Results, unpacked.
#[derive(Debug)]
pub struct Results {
    /// The folder `results`.
    pub folder: PathBuf,
    /// Removes it at the end.
    _unpacked: Option<TempDir>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Nothing speaks against it.
    pub passed: bool,
    /// What was found.
    pub found: String,
}

impl Check {
    fn of(name: &'static str, problem: Option<String>, well: impl FnOnce() -> String) -> Self {
        Self { name, passed: problem.is_none(), found: problem.unwrap_or_else(well) }
    }
}

/// Opens `results.tar`, `results.tar.gz`, or the folder.
///
/// # Errors
/// It cannot be read, has no folder `results`, or a member that leads out of it.
pub fn open(path: &Path) -> Result<Results> {
    let expected = "expected results.tar, which run.sh of a pack leaves, or the folder results";
    if path.is_dir() {
        let folder = if path.join(FOLDER).is_dir() { path.join(FOLDER) } else { path.to_owned() };
        return Ok(Results { folder, _unpacked: None });
    }
    let file =
        File::open(path).with_context(|| format!("cannot read {}; {expected}", path.display()))?;
    let unpacked = tempfile::tempdir().context("cannot make a temporary folder")?;
    unpack(file, unpacked.path())
        .with_context(|| format!("{} cannot be unpacked; {expected}", path.display()))?;
    let folder = unpacked.path().join(FOLDER);
    if !folder.is_dir() {
        bail!("{} has no folder results; {expected}", path.display());
    }
    Ok(Results { folder, _unpacked: Some(unpacked) })
}

/// Unpacks regular files and folders: anything else is no result, and a link could lead elsewhere.
fn unpack(mut file: File, to: &Path) -> Result<()> {
    let mut magic = [0; 2];
    let is_gzip = file.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    std::io::Seek::rewind(&mut file)?;
    let input: Box<dyn Read> =
        if is_gzip { Box::new(flate2::read::GzDecoder::new(file)) } else { Box::new(file) };
    let mut archive = tar::Archive::new(input);
    let mut bytes = 0;
    for member in archive.entries()? {
        let mut member = member?;
        let name = member.path()?.into_owned();
        let kind = member.header().entry_type();
        let plain =
            name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !plain || !(kind.is_file() || kind.is_dir()) {
            bail!(
                "{}: found a link or a path that leads out; expected files and folders",
                name.display()
            );
        }
        bytes += member.size();
        if bytes > MOST_BYTES {
            bail!("more than {} GiB of files", MOST_BYTES >> 30);
        }
        let place = to.join(&name);
        if kind.is_dir() {
            std::fs::create_dir_all(&place)?;
            continue;
        }
        std::fs::create_dir_all(place.parent().unwrap_or(to))?;
        std::io::copy(&mut member, &mut File::create(&place)?)?;
    }
    Ok(())
}

/// Looks at everything that a table of boards needs.
pub fn checks(results: &Results, rows: &Result<Vec<BTreeMap<String, String>>>) -> Vec<Check> {
    let folder = &results.folder;
    let mut checks = vec![files(folder), pack(folder), steps(folder)];
    match rows {
        Ok(rows) => checks.extend([verdicts(rows), fidelity(rows)]),
        Err(error) => checks.push(Check::of("rows", Some(format!("{error:#}")), String::new)),
    }
    checks
}

/// The rows of the summary: cells by their columns.
///
/// # Errors
/// There is no summary, or it is damaged or empty.
pub fn summary(results: &Results) -> Result<Vec<BTreeMap<String, String>>> {
    let path = results.folder.join("bench").join(summary_csv::FILE_NAME);
    let shown = format!("bench/{}", summary_csv::FILE_NAME);
    let mut reader = csv::Reader::from_path(&path)
        .with_context(|| format!("nothing was measured: cannot read {shown}"))?;
    let rows: Result<Vec<_>, _> = reader.deserialize().collect();
    let rows = rows.with_context(|| format!("{shown} is damaged"))?;
    if rows.is_empty() {
        bail!("{shown} has no rows");
    }
    Ok(rows)
}

/// Every file has the sum that the board computed, and no file came later.
fn files(folder: &Path) -> Check {
    let Ok(list) = std::fs::read_to_string(folder.join(SUMS)) else {
        let why = format!(
            "no {SUMS}: whether the files are those of the board is unknown; run run.sh of a newer pack"
        );
        return Check::of("files", Some(why), String::new);
    };
    let listed: BTreeMap<&str, &str> = list
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(sum, name)| (name.trim_start_matches("./"), sum))
        .collect();
    let mut there = BTreeSet::new();
    names(folder, Path::new(""), &mut there);
    there.remove(SUMS);
    let mut wrong = Vec::new();
    for (name, sum) in &listed {
        match sha256_of_file(&folder.join(name)) {
            Ok(found) if found.sha256 == *sum => {}
            Ok(_) if there.contains(*name) => wrong.push(format!("{name} was changed")),
            _ => wrong.push(format!("{name} is missing")),
        }
    }
    let later = there.iter().filter(|name| !listed.contains_key(name.as_str()));
    wrong.extend(later.map(|name| format!("{name} was added")));
    Check::of("files", shortened(&wrong), || format!("{} files have their sums", listed.len()))
}

fn names(folder: &Path, below: &Path, into: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder.join(below)).into_iter().flatten().flatten() {
        let name = below.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => names(folder, &name, into),
            _ => drop(into.insert(name.to_string_lossy().into_owned())),
        }
    }
}

/// The board had the graphs, table and program that were packed.
fn pack(folder: &Path) -> Check {
    let log = std::fs::read_to_string(folder.join("sums.log")).unwrap_or_default();
    let wrong: Vec<String> =
        log.lines().filter(|line| !line.ends_with(": OK")).map(str::to_owned).collect();
    let problem = if log.is_empty() { Some("no sums.log".to_owned()) } else { shortened(&wrong) };
    Check::of("pack", problem, || {
        format!("{} packed files were whole on the board", log.lines().count())
    })
}

fn steps(folder: &Path) -> Check {
    let status = |step: &str| {
        let status = std::fs::read_to_string(folder.join(format!("{step}.status")));
        status.map_or_else(|_| "not run".to_owned(), |code| code.trim().to_owned())
    };
    if folder.join(REHEARSAL).exists() {
        let why =
            "a rehearsal (REHEARSE=1): the CPU ran the network; run run.sh on the board without it";
        return Check::of("steps", Some(why.to_owned()), String::new);
    }
    let failed: Vec<String> = STEPS
        .iter()
        .map(|step| (step, status(step)))
        .filter(|(_, status)| status != "0")
        .map(|(step, status)| match status.as_str() {
            "not run" => format!("{step} was not run"),
            code => format!("{step} ended with {code}; see {step}.log"),
        })
        .collect();
    Check::of("steps", shortened(&failed), || STEPS.join(", "))
}

fn verdicts(rows: &[BTreeMap<String, String>]) -> Check {
    let wrong: Vec<String> = rows
        .iter()
        .filter(|row| cell(row, "status") != "ok" || cell(row, "verdict") != "VALID")
        .map(|row| {
            let (status, verdict) = (cell(row, "status"), cell(row, "verdict"));
            let (what, why) = match status {
                "ok" => (verdict, cell(row, "verdict_reason")),
                status => (status, cell(row, "reason")),
            };
            format!(
                "{} {} {} is {what}: {why}",
                cell(row, "model"),
                cell(row, "video"),
                cell(row, "object")
            )
        })
        .collect();
    Check::of("verdicts", shortened(&wrong), || format!("{} rows are VALID", rows.len()))
}

/// The rows are those of the whole pipeline with Pillow's pixels.
fn fidelity(rows: &[BTreeMap<String, String>]) -> Check {
    let mut other = BTreeSet::new();
    for row in rows.iter().filter(|row| cell(row, "status") == "ok") {
        let whole = format!("mem7/ptr16/{}/{}/noskip/nofill", cell(row, "imgsz"), pillow::NAME);
        if cell(row, "fidelity") != whole {
            other.insert(format!("found {}, expected {whole}", cell(row, "fidelity")));
        }
    }
    let other: Vec<String> = other.into_iter().collect();
    Check::of("fidelity", shortened(&other), || {
        "the whole pipeline, with Pillow's pixels".to_owned()
    })
}

/// A cell by its column; empty where the row has none.
fn cell<'a>(row: &'a BTreeMap<String, String>, column: &str) -> &'a str {
    row.get(column).map_or("", String::as_str)
}

fn shortened(problems: &[String]) -> Option<String> {
    let more = problems.len().checked_sub(SHOWN).filter(|more| *more > 0);
    let more = more.map(|more| format!("; {more} more")).unwrap_or_default();
    let shown = problems.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    (!problems.is_empty()).then(|| format!("{shown}{more}"))
}
