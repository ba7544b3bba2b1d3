/*!
Baselines on disk: one JSON file each, in a folder that may be committed with the code.
*/

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use jiff::{Timestamp, Unit};
use serde::{Deserialize, Serialize};

use super::RunSummary;
use vos::files::atomic;

const FORMAT: &str = "segtrt baseline 1";
const EXTENSION: &str = "json";

/// A stored run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Format and its version.
    format: String,
    /// Its name.
    pub name: String,
    /// Time of saving, RFC 3339.
    pub saved: String,
    /// The run folder as named.
    pub from: String,
    /// The run.
    pub run: RunSummary,
}

/// A folder of baselines.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Baselines in `folder`, which may not exist yet.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Path of the baseline `name`.
    ///
    /// # Errors
    /// The name cannot be a file name.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.starts_with(['.', '-']) || !name.chars().all(plain) {
            bail!(host::UsageError(format!(
                "{name:?} is not a baseline name; use letters, digits, '-', '_' and '.', such as \
                 h200-fp16"
            )));
        }
        Ok(self.folder.join(format!("{name}.{EXTENSION}")))
    }

    /// Stores a run under a name.
    ///
    /// # Errors
    /// The name exists and `replace` is not set, or the file cannot be written.
    pub fn save(
        &self,
        name: &str,
        from: &Path,
        run: RunSummary,
        replace: bool,
    ) -> Result<(PathBuf, Baseline)> {
        let path = self.path(name)?;
        if path.exists() && !replace {
            bail!("{} exists; choose another name, or replace it with --replace", path.display());
        }
        std::fs::create_dir_all(&self.folder).with_context(|| {
            format!("cannot create {}; choose a writable --baselines", self.folder.display())
        })?;
        let now = Timestamp::now();
        let baseline = Baseline {
            format: FORMAT.to_owned(),
            name: name.to_owned(),
            saved: now.round(Unit::Second).unwrap_or(now).to_string(),
            from: from.display().to_string(),
            run,
        };
        atomic::write(&path, |out| {
            serde_json::to_writer_pretty(&mut *out, &baseline)?;
            Ok(out.write_all(b"\n")?)
        })?;
        Ok((path, baseline))
    }

    /// Reads a baseline.
    ///
    /// # Errors
    /// There is no such baseline (the message lists all), or its file is damaged or has another
    /// format.
    pub fn load(&self, name: &str) -> Result<Baseline> {
        let path = self.path(name)?;
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let names = self.names()?;
                let found = match names.is_empty() {
                    true => "is empty".to_owned(),
                    false => format!("has {}", names.join(", ")),
                };
                bail!(
                    "no baseline '{name}': {} {found}. Save one: segtrt baseline save {name} --from \
                     RUN_FOLDER",
                    self.folder.display()
                );
            }
            Err(error) => return Err(error).context(format!("cannot read {}", path.display())),
        };
        // The format first: a newer one may lack these members.
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let damaged = || format!("{} is damaged; save that baseline again", path.display());
        let head: Head = serde_json::from_slice(&bytes).with_context(damaged)?;
        if head.format != FORMAT {
            bail!(
                "{}: found format {:?}, expected {FORMAT:?}; use the release of segtrt that saved \
                 it, or save it again",
                path.display(),
                head.format
            );
        }
        serde_json::from_slice(&bytes).with_context(damaged)
    }

    /// Names of all baselines, sorted; empty without a folder.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let listing = match std::fs::read_dir(&self.folder) {
            Ok(listing) => listing,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(error).context(format!("cannot read {}", self.folder.display()));
            }
        };
        let mut names: Vec<String> = listing
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let name = path.file_stem()?.to_str()?.to_owned();
                let ours = path.extension()? == EXTENSION && self.path(&name).is_ok();
                ours.then_some(name)
            })
            .collect();
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_comes_back_as_it_was_and_is_not_lost_to_a_second_one() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(&dir.path().join("deep/er"));
        assert_eq!(store.names().unwrap(), [""; 0]);
        let run = RunSummary { segtrt: "0.1.0".into(), ..RunSummary::default() };
        let (path, saved) = store.save("a.b-1", Path::new("out"), run.clone(), false).unwrap();
        assert_eq!(store.load("a.b-1").unwrap(), saved);
        assert!(path.ends_with("deep/er/a.b-1.json") && saved.saved.ends_with('Z'));
        let again = store.save("a.b-1", Path::new("out"), run.clone(), false).unwrap_err();
        assert!(again.to_string().contains("--replace"));
        store.save("a.b-1", Path::new("out"), RunSummary::default(), true).unwrap();
        assert_eq!(store.load("a.b-1").unwrap().run, RunSummary::default());
        std::fs::write(dir.path().join("deep/er/.hidden.json"), "").unwrap();
        std::fs::write(dir.path().join("deep/er/note.txt"), "").unwrap();
        assert_eq!(store.names().unwrap(), ["a.b-1"]);
        let missing = store.load("b").unwrap_err().to_string();
        assert!(
            missing.contains("has a.b-1. ") && missing.contains("baseline save b"),
            "{missing}"
        );
    }

    #[test]
    fn names_that_are_no_file_names_damage_and_other_versions_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        for name in ["", "../x", "a/b", ".x", "-x", "a b", "ü"] {
            assert!(store.load(name).unwrap_err().is::<host::UsageError>(), "{name:?}");
        }
        let error = |content: &str| {
            std::fs::write(dir.path().join("x.json"), content).unwrap();
            format!("{:#}", store.load("x").unwrap_err())
        };
        assert!(error("{\"format\"").contains("x.json is damaged"));
        assert!(error(r#"{"format": "segtrt baseline 1"}"#).contains("x.json is damaged"));
        let newer = error(r#"{"format": "segtrt baseline 2", "runs": []}"#);
        assert!(
            newer.contains("segtrt baseline 2") && newer.contains("segtrt baseline 1"),
            "{newer}"
        );
    }
}
