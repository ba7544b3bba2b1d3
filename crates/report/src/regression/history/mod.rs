/*!
The history of runs on one machine: a file with a JSON line for each run, oldest first.

A line is written with one call at the end of the file, so earlier lines survive a crash. A run that
must not be compared with the last one is refused, unless its differences are allowed.
*/

mod series;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use jiff::{Timestamp, Unit};
use serde::{Deserialize, Serialize};

pub use series::{LevelChange, Point, Series, series};

use super::{Difference, RunSummary, differences};

const FORMAT: &str = "segtrt history 1";

/// A run in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Format and its version.
    format: String,
    /// Time of adding, RFC 3339.
    pub added: String,
    /// The run folder as named.
    pub from: String,
    /// Allowed differences from the run before, each as a sentence.
    pub differences: Vec<String>,
    /// The run.
    pub run: RunSummary,
}

impl Entry {
    /// Its commit, or the program's version.
    pub fn build(&self) -> &str {
        self.run.commit.as_deref().unwrap_or(&self.run.segtrt)
    }
}

/// The runs of a file.
#[derive(Clone, Debug)]
pub struct History {
    /// The file.
    pub path: PathBuf,
    /// Its runs, oldest first.
    pub entries: Vec<Entry>,
}

impl History {
    /// Reads `path`; a missing file has no runs.
    ///
    /// # Errors
    /// The file cannot be read, or a line is damaged or of another format.
    pub fn read(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).context(format!("cannot read {}", path.display())),
        };
        let entries = text.lines().enumerate().map(|(at, line)| {
            let place = || format!("{} line {}", path.display(), at + 1);
            entry(line).with_context(place)
        });
        Ok(Self { path: path.to_owned(), entries: entries.collect::<Result<_>>()? })
    }

    /// Adds the run of the folder `from` to the file. `allowed`: words of `--allow-different`.
    ///
    /// # Errors
    /// The run is in the file, lacks an object, or differs from the last run by something that is
    /// not allowed; or the file cannot be written.
    pub fn add(&mut self, from: &Path, run: RunSummary, allowed: &[String]) -> Result<()> {
        let mut named = Vec::new();
        if let Some(known) = self.entries.iter().find(|entry| entry.run == run) {
            bail!(
                "{} is in {} since {}; measure again, or leave it out",
                from.display(),
                self.path.display(),
                known.added
            );
        }
        let lacking = run.models.iter().flat_map(|model| {
            let objects = model.objects.iter().filter(|object| object.passes.is_empty());
            objects.map(|object| {
                let reason = object.reason.as_deref().unwrap_or("no reason given");
                format!("{} {}/{} ({reason})", model.model, object.video, object.object)
            })
        });
        if let Some(lacking) = lacking.into_iter().next() {
            bail!(
                "{} has no numbers of {lacking}; a history has complete runs only",
                from.display()
            );
        }
        if let Some(last) = self.entries.last() {
            let found = differences(&last.run, &run);
            let is_allowed =
                |found: &Difference| allowed.iter().any(|word| found.is_meant_by(word));
            let (meant, refused): (Vec<_>, Vec<_>) = found.into_iter().partition(is_allowed);
            if !refused.is_empty() {
                bail!(refusal(from, &self.path, &refused));
            }
            named = meant.iter().map(|found| found.between("the run before")).collect();
        }
        let now = Timestamp::now();
        let entry = Entry {
            format: FORMAT.to_owned(),
            added: now.round(Unit::Second).unwrap_or(now).to_string(),
            from: from.display().to_string(),
            differences: named,
            run,
        };
        append(&self.path, &entry)?;
        self.entries.push(entry);
        Ok(())
    }
}

fn entry(line: &str) -> Result<Entry> {
    // The format first: a newer one may lack these members.
    #[derive(Deserialize)]
    struct Head {
        format: String,
    }
    let damaged = "the line is damaged; remove it";
    let head: Head = serde_json::from_str(line).context(damaged)?;
    if head.format != FORMAT {
        bail!("found format {:?}, expected {FORMAT:?}; name another file", head.format);
    }
    serde_json::from_str(line).context(damaged)
}

fn append(path: &Path, entry: &Entry) -> Result<()> {
    let place = || format!("cannot write {}; name a file in a writable folder", path.display());
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(place)?;
    }
    let mut line = serde_json::to_string(entry)?;
    line.push('\n');
    let mut file = OpenOptions::new().create(true).append(true).open(path).with_context(place)?;
    file.write_all(line.as_bytes()).with_context(place)?;
    file.sync_all().with_context(place)
}

fn refusal(from: &Path, file: &Path, refused: &[Difference]) -> String {
    let sentences: Vec<String> =
        refused.iter().map(|found| format!("  {}", found.between("the last run"))).collect();
    let mut names: Vec<&str> = refused.iter().map(|found| found.what.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    format!(
        "{} must not be compared with the last run in {}:\n{}\nname a new file, measure again under \
         the same conditions, or, if the difference is meant, add --allow-different {}",
        from.display(),
        file.display(),
        sentences.join("\n"),
        names.join(",")
    )
}

#[cfg(test)]
mod tests;
