/*!
The result directory of one benchmark run: takes results in any order, keeps every file in the
predecessor's order, loses nothing to a crash, and knows what a resumed run need not measure again.
*/

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::journal::{Continued, Journal};
use super::measured_on::{self, Facts, MeasuredOn};
use super::{
    ColumnSet, Configuration, JOURNAL, ObjectResult, RowOrder, Sidecar, atomic, profile_csv,
    sidecar, stats_json, summary_csv,
};
use crate::record::{ObjectKey, ProfiledStages, Recording, RunRecord, Status, SummaryRecord};

/// Files that a run leaves.
#[derive(Clone, Debug)]
pub struct OutputFiles {
    /// `sav_benchmark_summary.csv`.
    pub summary: PathBuf,
    /// `profile_summary.csv`.
    pub profile: PathBuf,
    /// `profile_stats.json`; exists only if there are rows.
    pub stats: PathBuf,
    /// `sidecar.json`.
    pub sidecar: PathBuf,
}

/// An object by one entry of the model list (a tag may be listed twice).
type Work = (ObjectKey, usize);

/// All results of a run, in memory and on disk.
pub struct ResultStore {
    directory: PathBuf,
    configuration: Configuration,
    journal: Journal,
    rows: BTreeMap<(RowOrder, ObjectKey), Entry>,
    place: HashMap<Work, RowOrder>,
    done_before: HashSet<Work>,
    /// The place of each clip that the configuration names.
    videos: HashMap<String, usize>,
    next_rewrite: Instant,
    columns: ColumnSet,
}

struct Entry {
    summary: SummaryRecord,
    runs: Vec<RunRecord>,
    measured_on: MeasuredOn,
    /// Where its line lies in the journal.
    offset: u64,
}

impl ResultStore {
    /// Rewriting all rows after each of many quick objects would be quadratic: not more often than
    /// this…
    const REWRITE_INTERVAL: Duration = Duration::from_millis(500);
    /// …nor for more than one part in this of the time.
    const REWRITE_SHARE: u32 = 20;

    /// Starts a run in `directory`, which is created. The journal of an earlier run is set aside,
    /// and so are tables, sidecar, masks, logits and overlays, whoever left them.
    pub fn create(directory: &Path, configuration: Configuration) -> Result<Self> {
        make(directory)?;
        let journal = Journal::create(directory, &configuration)?;
        Self::with(directory, Continued { journal, configuration, found: Vec::new() })
    }

    /// Continues the run in `directory`, or starts one if there is none. It may be of other clips
    /// and objects: the configuration then names those of both.
    ///
    /// Errors when it was configured differently; the message names the settings.
    pub fn resume(directory: &Path, configuration: Configuration) -> Result<Self> {
        make(directory)?;
        Self::with(directory, Journal::resume(directory, configuration)?)
    }

    /// The settings of the run in `directory`; none where there is no run.
    pub fn configuration_of(directory: &Path) -> Option<Configuration> {
        Journal::configuration(directory)
    }

    fn with(directory: &Path, continued: Continued) -> Result<Self> {
        let Continued { journal, configuration, found } = continued;
        let videos = configuration.videos().unwrap_or_default();
        let videos = videos.into_iter().enumerate().map(|(at, name)| (name.to_owned(), at));
        let mut store = Self {
            // Of a name that is there twice the first place.
            videos: videos.rev().collect(),
            directory: directory.to_owned(),
            configuration,
            journal,
            rows: BTreeMap::new(),
            place: HashMap::new(),
            done_before: HashSet::new(),
            next_rewrite: Instant::now(),
            columns: ColumnSet::default(),
        };
        for (mut result, offset) in found {
            store.put_in_place(&mut result);
            store.insert(result, offset);
        }
        let finished = store.rows.iter().filter(|(_, e)| e.summary.pooled.status != Status::Failed);
        store.done_before = finished.map(|((order, key), _)| (key.clone(), order.model)).collect();
        // Now, not after the first object: an unwritable directory must show at once.
        store.rewrite()?;
        Ok(store)
    }

    /// Writes the summary with these columns.
    ///
    /// # Errors
    /// The table cannot be written.
    pub fn with_columns(mut self, columns: ColumnSet) -> Result<Self> {
        if self.columns != columns {
            self.columns = columns;
            self.rewrite()?;
        }
        Ok(self)
    }

    /// Whether the resumed run had this object done (ok or skipped; failed ones are tried again).
    pub fn is_done(&self, key: &ObjectKey, model: usize) -> bool {
        self.done_before.contains(&(key.clone(), model))
    }

    /// How many results the resumed run brought that need not be measured again.
    pub fn done_before(&self) -> usize {
        self.done_before.len()
    }

    /// The same, of the objects for which `wanted` holds.
    pub fn done_of(&self, wanted: impl Fn(&ObjectKey) -> bool) -> usize {
        self.done_before.iter().filter(|(key, _)| wanted(key)).count()
    }

    /// Adds a result, or replaces the one of the same object and model. On return it is on disk in
    /// the journal; the CSVs follow now or a moment later.
    pub fn push(&mut self, mut result: ObjectResult) -> Result<()> {
        self.put_in_place(&mut result);
        let offset = self.journal.append(&result)?;
        self.insert(result, offset);
        if Instant::now() >= self.next_rewrite { self.rewrite() } else { Ok(()) }
    }

    /// Takes a line of another journal, with its raw times. One that is here already, but for
    /// profiler's reports, stays as it is.
    ///
    /// # Errors
    /// The line is no result, or the journal cannot be written.
    pub fn absorb(&mut self, line: &Value) -> Result<()> {
        let mut result = ObjectResult::deserialize(line).context("a row is damaged")?;
        self.put_in_place(&mut result);
        let key = &result.summary.pooled.key;
        let here = self.place.get(&(key.clone(), result.order.model));
        let here = here.and_then(|order| self.rows.get(&(*order, key.clone())).map(|e| (order, e)));
        let bare =
            |run: &RunRecord| RunRecord { nsight_report: None, profiled: None, ..run.clone() };
        let same = |(order, entry): (&RowOrder, &Entry)| {
            let [mine, other] = [&entry.summary, &result.summary];
            *order == result.order
                && (bare(&mine.pooled), mine.runs) == (bare(&other.pooled), other.runs)
                && entry.runs.iter().map(bare).eq(result.runs.iter().map(bare))
        };
        if here.is_some_and(same) {
            return Ok(());
        }
        let offset = self.journal.append_again(line)?;
        self.insert(result, offset);
        Ok(())
    }

    /// Takes a row out that stood for what is measured by other rows now. The journal keeps it, so
    /// every attempt must do so.
    pub fn withdraw(&mut self, key: &ObjectKey, model: usize) {
        if let Some(order) = self.place.remove(&(key.clone(), model)) {
            self.rows.remove(&(order, key.clone()));
        }
        self.done_before.remove(&(key.clone(), model));
    }

    /// Compares what the rows that stay were measured on with what an object would be measured on
    /// `now`: none where it is not there any more. Failed rows are measured again; those of objects
    /// that are gone are left out.
    ///
    /// # Errors
    /// Something else, by name.
    pub fn check_measured_on(
        &mut self,
        now: impl Fn(&ObjectKey) -> Option<MeasuredOn>,
    ) -> Result<()> {
        let (mut differences, mut gone) = (Vec::new(), Vec::new());
        for ((order, key), entry) in &self.rows {
            let now = now(key);
            match entry.summary.pooled.status {
                Status::Failed if now.is_none() => gone.push((key.clone(), order.model)),
                Status::Failed => {}
                _ => differences.extend(entry.measured_on.differences(key, now.as_ref())),
            }
        }
        if !differences.is_empty() {
            return Err(measured_on::refusal(&self.directory.join(JOURNAL), differences));
        }
        for (key, model) in gone {
            log::warn!(
                "{} object {}: its failed row goes, as it is gone from the split",
                key.video,
                key.object
            );
            self.withdraw(&key, model);
        }
        Ok(())
    }

    /// Compares what ran the models of the rows that are there with what runs one now.
    ///
    /// # Errors
    /// Something else, by name.
    pub fn check_library(&self, now: &Facts) -> Result<()> {
        let rows = self.rows.values().filter(|entry| entry.summary.pooled.status != Status::Failed);
        let differences: Vec<_> = rows.flat_map(|e| e.measured_on.other_library(now)).collect();
        match differences.is_empty() {
            true => Ok(()),
            false => Err(measured_on::refusal(&self.directory.join(JOURNAL), differences)),
        }
    }

    /// Whether `directory` holds the rows of a run.
    pub fn is_there(directory: &Path) -> bool {
        Journal::is_there(directory)
    }

    /// Sets the profiler's report of each pass, or none, and writes the CSVs; on disk when this
    /// returns. The summary has the mean of the passes' stage times. A row that is measured again
    /// loses its report's name: the report is of another run then.
    pub fn set_reports(&mut self, report: impl Fn(&RunRecord) -> Option<Recording>) -> Result<()> {
        for entry in self.rows.values_mut() {
            let reports: Vec<Option<Recording>> = entry.runs.iter().map(&report).collect();
            if entry.runs.iter().map(RunRecord::recording).eq(reports.iter().cloned()) {
                continue;
            }
            let mut line: Value = serde_json::from_str(&self.journal.line_at(entry.offset)?)?;
            for (at, (run, recording)) in entry.runs.iter_mut().zip(reports).enumerate() {
                run.profiled = recording.as_ref().and_then(|recording| recording.stages);
                run.nsight_report = recording.map(|recording| recording.report);
                line["runs"][at]["nsight_report"] = run.nsight_report.as_deref().into();
                line["runs"][at]["profiled"] = serde_json::to_value(run.profiled)?;
            }
            let profiled: Vec<_> = entry.runs.iter().filter_map(|run| run.profiled).collect();
            entry.summary.pooled.profiled = ProfiledStages::mean(&profiled);
            line["summary"]["pooled"]["profiled"] =
                serde_json::to_value(entry.summary.pooled.profiled)?;
            entry.offset = self.journal.append_again(&line)?;
        }
        self.rewrite()
    }

    /// The summary rows in the order of the file.
    pub fn summaries(&self) -> impl Iterator<Item = &SummaryRecord> {
        self.rows.values().map(|entry| &entry.summary)
    }

    /// The recorded passes in the order of the file.
    pub fn runs(&self) -> impl Iterator<Item = &RunRecord> {
        self.rows.values().flat_map(|entry| &entry.runs)
    }

    /// Brings every file up to date and writes the sidecar.
    pub fn finish(mut self, facts: &Sidecar) -> Result<OutputFiles> {
        self.rewrite()?;
        self.write_sidecar(facts)?;
        let at = |name: &str| self.directory.join(name);
        Ok(OutputFiles {
            summary: at(summary_csv::FILE_NAME),
            profile: at(profile_csv::FILE_NAME),
            stats: at(stats_json::FILE_NAME),
            sidecar: at(sidecar::FILE_NAME),
        })
    }

    fn insert(&mut self, result: ObjectResult, offset: u64) {
        let ObjectResult { order, summary, runs, measured_on, frame_times: _ } = result;
        let key = summary.pooled.key.clone();
        if let Some(old) = self.place.insert((key.clone(), order.model), order) {
            self.rows.remove(&(old, key.clone()));
        }
        self.rows.insert((order, key), Entry { summary, runs, measured_on, offset });
    }

    /// Gives a result the place of its clip in all that the configuration names: runs over
    /// different clips number them differently.
    fn put_in_place(&self, result: &mut ObjectResult) {
        if let Some(at) = self.videos.get(&result.summary.pooled.key.video) {
            result.order.video = *at;
        }
    }

    fn rewrite(&mut self) -> Result<()> {
        let started = Instant::now();
        let at = |name: &str| self.directory.join(name);
        atomic::write(&at(summary_csv::FILE_NAME), |out| {
            summary_csv::write(out, self.columns, self.summaries())
        })?;
        atomic::write(&at(profile_csv::FILE_NAME), |out| profile_csv::write(out, self.runs()))?;
        let stats = at(stats_json::FILE_NAME);
        if self.runs().next().is_some() {
            atomic::write(&stats, |out| stats_json::write(out, self.runs()))?;
        } else if stats.exists() {
            // One of an earlier run would pass for this one's.
            std::fs::remove_file(&stats)
                .with_context(|| format!("cannot remove the outdated {}", stats.display()))?;
        }
        let pause = Self::REWRITE_INTERVAL.max(started.elapsed() * Self::REWRITE_SHARE);
        self.next_rewrite = Instant::now() + pause;
        Ok(())
    }

    /// Writes `sidecar.json` from `facts`, the configuration and the journal's raw times. Called by
    /// [`Self::finish`]; worth a call at the start too, so that a crash leaves the environment.
    pub fn write_sidecar(&self, facts: &Sidecar) -> Result<()> {
        let mut head = Map::new();
        head.insert("segtrt".into(), env!("CARGO_PKG_VERSION").into());
        head.insert("configuration".into(), serde_json::to_value(&self.configuration)?);
        head.insert("configuration_sha256".into(), self.configuration.sha256().into());
        if let Value::Object(facts) = serde_json::to_value(facts)? {
            head.extend(facts);
        }
        let passes = self.rows.values().flat_map(|entry| self.passes(entry));
        atomic::write(&self.directory.join(sidecar::FILE_NAME), |out| {
            sidecar::write(out, &head, passes)
        })
    }

    /// The raw times of an entry's passes, from the journal.
    fn passes(&self, entry: &Entry) -> Vec<Result<Value>> {
        let line = self.journal.line_at(entry.offset);
        let tables = line.and_then(|line| {
            let mut line: Value = serde_json::from_str(&line)?;
            Ok(line["frame_times"].take())
        });
        let tables = match tables {
            Ok(tables) => tables,
            Err(error) => return vec![Err(error)],
        };
        let name = |run: &RunRecord, times: &Value| {
            let ObjectKey { video, object, tag: model } = &run.key;
            json!({
                "video": video, "object": object, "model": model, "run": run.run,
                "backend": run.conditions.backend,
                "observed": run.numbers().and_then(|m| m.observed),
                "verdict": run.verdict, "frame_times": times,
            })
        };
        let tables = tables.as_array().map_or(&[][..], Vec::as_slice);
        entry.runs.iter().zip(tables).map(|(run, times)| Ok(name(run, times))).collect()
    }
}

fn make(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| {
        format!("cannot create {}; choose a writable --out-dir", directory.display())
    })
}
