/*!
The run folders of shards as one run folder: rows.jsonl, tables, sidecar, masks and overlays as one bench leaves them.

Journals are put together, not tables: each row goes to its place in the whole selection, and every file is then written by
the code that writes it for a bench. What is in the folder already stays unless a shard has it anew, so that merging again
after a repaired shard keeps the reports' names of the other rows.
*/

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use super::Shard;
use super::head::{Head, joined};
use crate::files::{
    ColumnSet, Configuration, JournalReader, ResultStore, SIDECAR, Sidecar, is_own,
};
use crate::strides::Strides;

/// Settings that hosts may have different values of without measuring another thing; their values are then told by shard.
const BY_HOST: [&str; 2] = ["threads", "gpu"];

/// What came together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Rows of the summary.
    pub rows: usize,
    /// Shards that left no row file.
    pub missing: Vec<usize>,
    /// Settings that are not the same on all shards, though the rows are of one run.
    pub differing: Vec<String>,
}

/// One shard's folder.
struct Part {
    shard: Shard,
    folder: PathBuf,
    configuration: Map<String, Value>,
    /// The clips of the whole run.
    selection: Vec<String>,
    head: Head,
    journal: JournalReader,
}

/// Merges the run folders of all shards of a run (`folder_of` names each) into `output`. None where no shard has begun.
///
/// # Errors
/// A shard that is of another run, a damaged file, or an output that cannot be written. The shards' folders are only read.
pub fn merge(
    of: usize,
    folder_of: &dyn Fn(Shard) -> PathBuf,
    output: &Path,
) -> Result<Option<Merged>> {
    let mut merged = Merged::default();
    let mut parts = Vec::new();
    for shard in Shard::all(of) {
        match Part::open(shard, folder_of(shard))? {
            Some(part) => parts.push(part),
            None => merged.missing.push(shard.part),
        }
    }
    let Some(first) = parts.first() else { return Ok(None) };
    let configuration = together(&parts, of, &mut merged.differing)?;
    cover(&parts, of)?;
    let strides = configuration.get("strides").cloned().unwrap_or_default();
    let strides: Strides = serde_json::from_value(strides).unwrap_or_default();
    // Continued where it is of the same settings; else begun, and the old rows are set aside as by a bench.
    let store = ResultStore::resume(output, configuration.clone().into());
    let store = store.or_else(|_| ResultStore::create(output, configuration.into()))?;
    let mut store = store.with_columns(first.columns(strides))?;
    let timed_region = first.head.timed_region.clone();
    for part in &mut parts {
        link_files(&part.folder, output)?;
        let Part { folder, selection, journal, .. } = part;
        journal.each(|video, mut line| {
            let Some(at) = selection.iter().position(|name| name == video) else {
                bail!("{} has a row of {video:?}, which is no clip of the run", folder.display());
            };
            // The place in the whole selection.
            line["order"]["video"] = at.into();
            rename_overlays(&mut line, folder, output);
            store.absorb(&line)
        })?;
    }
    let mut sidecar = Sidecar {
        environment: joined(parts.iter().map(|part| &part.head.environment)),
        timed_region,
        ..Sidecar::default()
    };
    let told: Vec<Value> = parts.iter().map(Part::told).collect();
    sidecar.environment.insert("shards".to_owned(), told.into());
    for part in &mut parts {
        sidecar.inputs.append(&mut part.head.inputs);
        sidecar.graphs.append(&mut part.head.graphs);
    }
    merged.rows = store.summaries().count();
    store.finish(&sidecar)?;
    Ok(Some(merged))
}

impl Part {
    /// None where the shard has not begun.
    fn open(shard: Shard, folder: PathBuf) -> Result<Option<Self>> {
        if !ResultStore::is_there(&folder) || !folder.join(SIDECAR).is_file() {
            return Ok(None);
        }
        let journal = JournalReader::open(&folder)?;
        let mut configuration = journal.configuration.clone().into_fields();
        let told = configuration.remove("shard").unwrap_or_default();
        let found: Option<Shard> = serde_json::from_value(told.clone()).ok();
        ensure!(
            found == Some(shard),
            "{} is not of shard {shard} (its configuration says {}); give it another place, or remove it to measure that shard again",
            folder.display(),
            found.map_or("no shard".to_owned(), |shard| shard.to_string())
        );
        let selection = told.get("selection").cloned().unwrap_or_default();
        let selection = serde_json::from_value(selection)
            .with_context(|| format!("{} does not tell the run's clips", folder.display()))?;
        let head = Head::read(&folder)?;
        Ok(Some(Self { shard, folder, configuration, selection, head, journal }))
    }

    /// The columns of its summary, by its header.
    fn columns(&self, strides: Strides) -> ColumnSet {
        ColumnSet::of_table(&self.folder).unwrap_or(ColumnSet::telling(strides))
    }

    /// Its clips.
    fn videos(&self) -> impl Iterator<Item = &str> {
        let videos = self.configuration.get("videos").and_then(Value::as_array);
        videos.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The shard for the list in the sidecar.
    fn told(&self) -> Value {
        json!({
            "shard": self.shard.to_string(), "videos": self.configuration.get("videos"),
            "environment": self.head.environment,
        })
    }
}

/// The configuration of the whole run.
fn together(parts: &[Part], of: usize, differing: &mut Vec<String>) -> Result<Map<String, Value>> {
    let first = &parts[0];
    let mut all = first.configuration.clone();
    all.insert("videos".to_owned(), first.selection.clone().into());
    for part in &parts[1..] {
        let other = &part.configuration;
        ensure!(
            part.selection == first.selection,
            "shard {} was cut from other clips than shard {}: they are not of one run; did the split change? Measure again in a \
             new experiment",
            part.shard,
            first.shard
        );
        let names = first.configuration.keys().chain(other.keys());
        for name in names.filter(|name| *name != "videos") {
            if first.configuration.get(name) == other.get(name) || differing.contains(name) {
                continue;
            }
            ensure!(
                BY_HOST.contains(&name.as_str()),
                "shard {} was measured with another {name} than shard {}: {}; such rows do not belong in one table. Their \
                 folders stay as they are",
                part.shard,
                first.shard,
                Configuration::from(first.configuration.clone())
                    .differences(&other.clone().into())
                    .join(", ")
            );
            differing.push(name.clone());
        }
    }
    for name in differing.iter() {
        let each = parts.iter().map(|part| {
            let value = part.configuration.get(name).cloned().unwrap_or_default();
            (part.shard.to_string(), value)
        });
        all.insert(name.clone(), Value::Object(each.collect()));
    }
    all.insert("shards".to_owned(), of.into());
    Ok(all)
}

/// Every clip is in one shard. Hosts that see other files of the split come to other shards, and clips would be lost unseen.
fn cover(parts: &[Part], of: usize) -> Result<()> {
    for clip in &parts[0].selection {
        let has = |part: &&Part| part.videos().any(|video| video == clip);
        let shards: Vec<String> = parts.iter().filter(has).map(|p| p.shard.to_string()).collect();
        let all_there = parts.len() == of;
        ensure!(
            shards.len() < 2 && !(shards.is_empty() && all_there),
            "the clip {clip:?} is in {}: where the shards were measured the split has not the same files; repair that, remove the \
             shards' folders, and measure them again",
            if shards.is_empty() {
                "no shard".to_owned()
            } else {
                format!("the shards {}", shards.join(" and "))
            }
        );
    }
    Ok(())
}

/// Everything in the folder that the store does not write (masks, overlays), also in the other one; without a copy where the
/// file system can.
fn link_files(from: &Path, to: &Path) -> Result<()> {
    let listed = || format!("cannot list {}", from.display());
    for entry in std::fs::read_dir(from).with_context(listed)? {
        let entry = entry.with_context(listed)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().with_context(listed)?.is_dir() {
            std::fs::create_dir_all(&target)
                .with_context(|| format!("cannot create {}", target.display()))?;
            link_files(&source, &target)?;
        } else if !is_ours(&entry.file_name()) {
            if target.exists() {
                std::fs::remove_file(&target)
                    .with_context(|| format!("cannot replace {}", target.display()))?;
            }
            let linked = std::fs::hard_link(&source, &target);
            linked.or_else(|_| std::fs::copy(&source, &target).map(|_| ())).with_context(|| {
                format!("cannot copy {} to {}", source.display(), target.display())
            })?;
        }
    }
    Ok(())
}

/// The store writes it itself, or it is a shard's own: its log, a file that was being written.
fn is_ours(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    is_own(&name) || name.starts_with(".segtrt-") || name == super::devices::LOG
}

/// Overlays are named by their whole path.
fn rename_overlays(line: &mut Value, from: &Path, to: &Path) {
    match line {
        Value::Object(members) => {
            for (name, value) in members {
                let moved = match (name.as_str(), value.as_str()) {
                    ("overlay", Some(path)) => Path::new(path).strip_prefix(from).ok(),
                    _ => None,
                };
                match moved.map(|rest| to.join(rest).display().to_string()) {
                    Some(moved) => *value = moved.into(),
                    None => rename_overlays(value, from, to),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_overlays(item, from, to)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{ObjectResult, RowOrder, summary_csv};
    use crate::record::{Conditions, ObjectKey, RunRecord, Status};

    /// A run in two shards of the clips a, b, c; the first has b alone.
    struct Run(tempfile::TempDir);

    impl Run {
        fn folder(&self, shard: Shard) -> PathBuf {
            self.0.path().join(shard.folder())
        }

        /// Measures, or measures again, a shard; `changed` are settings that are not those of the other.
        fn measure(&self, part: usize, reason: &str, changed: &[(&str, Value)]) {
            let shard = Shard { part, of: 2 };
            let videos: &[&str] = if part == 1 { &["b"] } else { &["a", "c"] };
            let mut configuration = Configuration::default()
                .with("threads", 2)
                .with("metrics", "predecessor")
                .with("videos", videos)
                .with("shard", json!({"part": part, "of": 2, "selection": ["a", "b", "c"]}));
            for (name, value) in changed {
                configuration = configuration.with(name, value.clone());
            }
            let folder = self.folder(shard);
            let mut store = ResultStore::create(&folder, configuration).unwrap();
            for (at, video) in videos.iter().enumerate() {
                let key =
                    ObjectKey { video: (*video).into(), object: "0".into(), model: "m".into() };
                let order = RowOrder { video: at, object: 0, model: 0 };
                let row =
                    RunRecord::unmeasured(key, Conditions::default(), Status::Failed, "x", reason);
                store.push(ObjectResult::unmeasured(order, row)).unwrap();
            }
            let mut facts = Sidecar { timed_region: "all of it".into(), ..Sidecar::default() };
            facts.environment.insert("hostname".into(), format!("node{part}").into());
            facts.environment.insert("kernel".into(), "6.1".into());
            store.finish(&facts).unwrap();
            std::fs::create_dir_all(folder.join("masks")).unwrap();
            std::fs::write(folder.join("masks").join(videos[0]), reason).unwrap();
            std::fs::write(folder.join(super::super::devices::LOG), "said").unwrap();
        }

        fn merge(&self) -> Result<Option<Merged>> {
            merge(2, &|shard| self.folder(shard), &self.out())
        }

        fn out(&self) -> PathBuf {
            self.0.path().join("out")
        }

        fn rows(&self) -> Vec<(String, String)> {
            let mut reader =
                csv::Reader::from_path(self.out().join(summary_csv::FILE_NAME)).unwrap();
            let reason =
                reader.headers().unwrap().iter().position(|name| name == "reason").unwrap();
            let row = |row: csv::StringRecord| (row[0].to_owned(), row[reason].to_owned());
            reader.records().map(|record| row(record.unwrap())).collect()
        }

        fn sidecar(&self) -> Value {
            serde_json::from_slice(&std::fs::read(self.out().join(SIDECAR)).unwrap()).unwrap()
        }
    }

    fn pairs(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        rows.iter().map(|(video, why)| ((*video).to_owned(), format!("x: {why}"))).collect()
    }

    #[test]
    fn rows_go_to_their_places_and_what_is_measured_again_replaces_them() {
        let run = Run(tempfile::tempdir().unwrap());
        assert_eq!(run.merge().unwrap(), None);
        assert!(!run.out().exists());
        run.measure(2, "first", &[]);
        let merged = run.merge().unwrap().unwrap();
        assert_eq!((merged.rows, merged.missing), (2, vec![1]));
        run.measure(1, "first", &[]);
        assert_eq!(run.merge().unwrap().unwrap(), Merged { rows: 3, ..Merged::default() });
        assert_eq!(run.rows(), pairs(&[("a", "first"), ("b", "first"), ("c", "first")]));
        let sidecar = run.sidecar();
        assert_eq!(sidecar["configuration"]["videos"], json!(["a", "b", "c"]));
        assert_eq!(sidecar["environment"]["kernel"], "6.1");
        assert_eq!(sidecar["environment"]["hostname"], Value::Null, "it would be of one shard");
        assert_eq!(sidecar["environment"]["shards"][1]["environment"]["hostname"], "node2");
        assert!(!run.out().join(super::super::devices::LOG).exists());

        // A profiler's report of a row stays as long as the row.
        let configuration = JournalReader::open(&run.out()).unwrap().configuration;
        let mut store = ResultStore::resume(&run.out(), configuration).unwrap();
        store.set_reports(|_| Some("r.nsys-rep".into())).unwrap();
        drop(store);
        run.measure(1, "second", &[]);
        run.merge().unwrap();
        assert_eq!(run.rows(), pairs(&[("a", "first"), ("b", "second"), ("c", "first")]));
        let masks = run.out().join("masks");
        assert_eq!(std::fs::read_to_string(masks.join("b")).unwrap(), "second");
        assert_eq!(std::fs::read_to_string(masks.join("a")).unwrap(), "first");
        let table = std::fs::read_to_string(run.out().join("profile_summary.csv")).unwrap();
        let named: Vec<bool> =
            table.lines().skip(1).map(|row| row.contains("r.nsys-rep")).collect();
        assert_eq!(named, [true, false, true]);
    }

    #[test]
    fn shards_of_two_runs_are_not_one() {
        let run = Run(tempfile::tempdir().unwrap());
        run.measure(1, "r", &[]);
        let other = json!({"part": 2, "of": 2, "selection": ["a", "c"]});
        for (changed, why) in [
            (("metrics", json!("davis")), "metrics was \"predecessor\" and is \"davis\""),
            (("shard", other), "cut from other clips"),
            (("shard", json!({"part": 1, "of": 2, "selection": []})), "is not of shard 2/2"),
            (("videos", json!(["a", "b"])), "\"b\" is in the shards 1/2 and 2/2"),
            (("videos", json!(["a"])), "\"c\" is in no shard"),
        ] {
            run.measure(2, "r", &[changed]);
            let error = format!("{:#}", run.merge().unwrap_err());
            assert!(error.contains(why), "{error}");
        }
        // Hosts may have other numbers of processors; that is told.
        run.measure(2, "r", &[("threads", json!(8))]);
        assert_eq!(run.merge().unwrap().unwrap().differing, ["threads"]);
        assert_eq!(run.sidecar()["configuration"]["threads"], json!({"1/2": 2, "2/2": 8}));
    }

    #[test]
    fn overlays_are_named_where_they_are() {
        let mut line =
            json!({"overlay": "/s/1/o/x.mp4", "runs": [{"overlay": null}, {"overlay": "/else/x"}]});
        rename_overlays(&mut line, Path::new("/s/1"), Path::new("/out"));
        let expected =
            json!({"overlay": "/out/o/x.mp4", "runs": [{"overlay": null}, {"overlay": "/else/x"}]});
        assert_eq!(line, expected);
    }
}
