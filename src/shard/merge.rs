/*!
The run folders of shards as one run folder: rows.jsonl, tables, sidecar, masks and overlays as one
bench leaves them.

Journals are put together, not tables: each row goes to its place in the whole selection, and every
file is then written by the code that writes it for a bench. What is in the folder already stays
unless a shard has it anew, so that merging again after a repaired shard keeps the reports' names of
the other rows.
*/

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use super::Shard;
use super::head::{Head, joined};
use vos::files::{
    ColumnSet, Configuration, JournalReader, PREVIOUS_JOURNAL, ResultStore, SIDECAR, Sidecar,
    is_own, is_previous,
};
use vos::strides::Strides;

/// Settings that hosts may have different values of without measuring another thing; their values
/// are then listed by shard.
const BY_HOST: [&str; 2] = ["threads", "gpu"];

/// What came together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Rows of the summary.
    pub rows: usize,
    /// Shards that left no row file.
    pub missing: Vec<usize>,
    /// Shards whose files are damaged, each with what is wrong: their rows are left out.
    pub damaged: Vec<(usize, String)>,
    /// What is wrong with the journal that was merged before, and where it lies now.
    pub set_aside: Option<(String, PathBuf)>,
    /// Settings that are not the same on all shards, though the rows are of one run.
    pub differing: Vec<String>,
}

/// One shard's folder.
struct ShardRun {
    shard: Shard,
    folder: PathBuf,
    configuration: Map<String, Value>,
    /// The clips of the whole run.
    selection: Vec<String>,
    head: Head,
    journal: JournalReader,
}

/// Merges the run folders of all shards of a run (`folder_of` names each) into `output`. None where
/// no shard has begun. A shard whose files are damaged costs its own rows.
///
/// # Errors
/// A shard that is of another run, or an output that cannot be written. The shards' folders are
/// only read.
pub fn merge(
    of: usize,
    folder_of: &dyn Fn(Shard) -> PathBuf,
    output: &Path,
) -> Result<Option<Merged>> {
    let mut merged = Merged::default();
    let mut parts = Vec::new();
    for shard in Shard::all(of) {
        match ShardRun::open(shard, folder_of(shard))? {
            Some(Ok(part)) => parts.push(part),
            Some(Err(damage)) => merged.damaged.push((shard.part, format!("{damage:#}"))),
            None => merged.missing.push(shard.part),
        }
    }
    let Some(first) = parts.first() else {
        return Ok(Some(merged).filter(|merged| !merged.damaged.is_empty()));
    };
    let configuration = together(&parts, of, &mut merged.differing)?;
    cover(&parts, of)?;
    let strides = configuration.get("strides").cloned().unwrap_or_default();
    let strides: Strides = serde_json::from_value(strides).unwrap_or_default();
    let store = begin(output, configuration.into(), &mut merged.set_aside)?;
    let mut store = store.with_columns(first.columns(strides))?;
    let timed_region = first.head.timed_region.clone();
    for part in &mut parts {
        link_files(&part.folder, output)?;
        let ShardRun { folder, selection, journal, .. } = part;
        journal.each(|video, mut line| {
            let Some(at) = selection.iter().position(|name| name == video) else {
                bail!("{} has a row of {video:?}, which is no clip of the run", folder.display());
            };
            // The place in the whole selection.
            line["order"]["video"] = at.into();
            store.absorb(&line)
        })?;
    }
    let mut sidecar = Sidecar {
        environment: joined(parts.iter().map(|part| &part.head.environment)),
        timed_region,
        ..Sidecar::default()
    };
    let told: Vec<Value> = parts.iter().map(ShardRun::told).collect();
    sidecar.environment.insert("shards".to_owned(), told.into());
    for part in &mut parts {
        sidecar.inputs.append(&mut part.head.inputs);
        sidecar.graphs.append(&mut part.head.graphs);
        for (model, memory) in std::mem::take(&mut part.head.memory) {
            sidecar.memory.entry(model).or_default().of_another_worker(memory);
        }
    }
    merged.rows = store.summaries().count();
    store.finish(&sidecar)?;
    Ok(Some(merged))
}

/// The merged run: continued where it is of the same settings; else begun, and the old rows are set
/// aside as by a bench.
fn begin(
    output: &Path,
    configuration: Configuration,
    set_aside: &mut Option<(String, PathBuf)>,
) -> Result<ResultStore> {
    if let Ok(store) = ResultStore::resume(output, configuration.clone()) {
        return Ok(store);
    }
    let damage = JournalReader::open(output).err();
    let store = ResultStore::create(output, configuration)?;
    *set_aside = damage.map(|error| (format!("{error:#}"), output.join(PREVIOUS_JOURNAL)));
    Ok(store)
}

impl ShardRun {
    /// None where the shard has not begun; the inner error is what is damaged of its files.
    fn open(shard: Shard, folder: PathBuf) -> Result<Option<Result<Self>>> {
        if !ResultStore::is_there(&folder) || !folder.join(SIDECAR).is_file() {
            return Ok(None);
        }
        let files = JournalReader::open(&folder).and_then(|it| Ok((it, Head::read(&folder)?)));
        let (journal, head) = match files {
            Ok(files) => files,
            Err(damage) => return Ok(Some(Err(damage))),
        };
        let mut configuration = journal.configuration.clone().into_fields();
        let told = configuration.remove("shard").unwrap_or_default();
        let found: Option<Shard> = serde_json::from_value(told.clone()).ok();
        ensure!(
            found == Some(shard),
            "{} is not of shard {shard} (its configuration says {}); give it another place, or \
             remove it to measure that shard again",
            folder.display(),
            found.map_or("no shard".to_owned(), |shard| shard.to_string())
        );
        let selection = told.get("selection").cloned().unwrap_or_default();
        let selection = serde_json::from_value(selection)
            .with_context(|| format!("{} does not tell the run's clips", folder.display()))?;
        Ok(Some(Ok(Self { shard, folder, configuration, selection, head, journal })))
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
fn together(
    parts: &[ShardRun],
    of: usize,
    differing: &mut Vec<String>,
) -> Result<Map<String, Value>> {
    let first = &parts[0];
    let mut all = first.configuration.clone();
    all.insert("videos".to_owned(), first.selection.clone().into());
    for part in &parts[1..] {
        let other = &part.configuration;
        ensure!(
            part.selection == first.selection,
            "shard {} was cut from other clips than shard {}: they are not of one run; did the \
             split change? Measure again in a new experiment",
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
                "shard {} was measured with another {name} than shard {}: {}; such rows do not \
                 belong in one table. Their folders stay as they are",
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

/// Every clip is in one shard. Hosts that see other files of the split come to other shards, and
/// clips would be lost unseen.
fn cover(parts: &[ShardRun], of: usize) -> Result<()> {
    for clip in &parts[0].selection {
        let has = |part: &&ShardRun| part.videos().any(|video| video == clip);
        let shards: Vec<String> = parts.iter().filter(has).map(|p| p.shard.to_string()).collect();
        let all_there = parts.len() == of;
        ensure!(
            shards.len() < 2 && !(shards.is_empty() && all_there),
            "the clip {clip:?} is in {}: where the shards were measured the split has not the \
             same files; repair that, remove the shards' folders, and measure them again",
            if shards.is_empty() {
                "no shard".to_owned()
            } else {
                format!("the shards {}", shards.join(" and "))
            }
        );
    }
    Ok(())
}

/// Everything in the folder that the store does not write (masks, overlays), also in the other one;
/// without a copy where the file system can.
fn link_files(from: &Path, to: &Path) -> Result<()> {
    let listed = || format!("cannot list {}", from.display());
    for entry in std::fs::read_dir(from).with_context(listed)? {
        let entry = entry.with_context(listed)?;
        // A shard's earlier run, whose masks are not of this one.
        if entry.file_name().to_str().is_some_and(is_previous) {
            continue;
        }
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

#[cfg(test)]
mod tests;
