/*!
`rows.jsonl`: every result the moment it exists, one line per object, on disk before the next
begins.

The first line holds the configuration. Lines are only ever appended, so a crash can spoil the last
one at most; it is dropped on reading and that object is measured again.
*/

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::atomic::{self, sync_directory};
use super::{Configuration, JOURNAL, MeasuredOn, litter, set_aside};
use crate::record::{FrameTime, FrameTimes, RunRecord, SummaryRecord, summarise};
use crate::stage::Stage;

pub(super) const FORMAT: &str = "segtrt rows 2";

/// Where a row belongs: files are sorted by this, whatever order the objects were measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RowOrder {
    /// Number of the video in the selection.
    pub video: usize,
    /// Number of the object in its video.
    pub object: usize,
    /// Number of the model on the command line.
    pub model: usize,
}

/// All recorded passes over one object by one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectResult {
    /// Its place in the files.
    pub order: RowOrder,
    /// The row of the summary.
    pub summary: SummaryRecord,
    /// The rows of the profile, one per pass.
    pub runs: Vec<RunRecord>,
    /// What it was measured on. Rows of before there was such a thing have none.
    #[serde(default)]
    pub measured_on: MeasuredOn,
    /// Raw times, one table per pass. The journal keeps them; they are not held in memory.
    #[serde(skip_deserializing)]
    pub(super) frame_times: Vec<FrameTable>,
}

impl ObjectResult {
    /// From the passes in order, each with its frames' times; `None` without any pass.
    pub fn new(order: RowOrder, passes: Vec<(RunRecord, Vec<FrameTimes>)>) -> Option<Self> {
        let summary = summarise(&passes)?;
        let frame_times = passes.iter().map(|(_, times)| FrameTable::new(times)).collect();
        let runs = passes.into_iter().map(|(run, _)| run).collect();
        Some(Self { order, summary, runs, measured_on: MeasuredOn::default(), frame_times })
    }

    /// A row without numbers for an object that was skipped or failed before any pass.
    pub fn unmeasured(order: RowOrder, record: RunRecord) -> Self {
        let pooled = RunRecord { measured: None, ..record };
        let runs = vec![pooled.clone()];
        let summary = SummaryRecord { pooled, runs: 0 };
        let measured_on = MeasuredOn::default();
        Self { order, summary, runs, measured_on, frame_times: Vec::new() }
    }
}

/// Column of the frames' times with one frame in flight.
const LATENCY: &str = "latency_ms";
/// Column of the frames' times where they overlap.
const INTERVAL: &str = "interval_ms";
/// Column of the frames' latencies in their lanes.
const IN_LANE: &str = "lane_latency_ms";
/// Column of the frames' times from decoding to mask or encoded frame.
const END_TO_END: &str = "end_to_end_ms";

/// Per-frame times and the network's scores column by column: a third of the size of a list of
/// records.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct FrameTable {
    frame: Vec<usize>,
    #[serde(flatten)]
    columns: serde_json::Map<String, serde_json::Value>,
}

impl FrameTable {
    fn new(times: &[FrameTimes]) -> Self {
        // Nanoseconds: no clock in use is finer.
        let rounded = |ms: f64| (ms * 1e6).round() / 1e6;
        let mut columns = serde_json::Map::new();
        let overlapping = times.iter().any(|t| !matches!(t.time, FrameTime::Latency(_)));
        let name = if overlapping { INTERVAL } else { LATENCY };
        let column: Vec<_> = times.iter().map(|t| rounded(t.time.ms())).collect();
        columns.insert(name.to_owned(), column.into());
        for stage in Stage::ALL {
            let column: Vec<_> = times.iter().map(|t| t.stages[stage].map(rounded)).collect();
            if column.iter().any(Option::is_some) {
                columns.insert(stage.column().to_owned(), column.into());
            }
        }
        type Time = fn(&FrameTimes) -> Option<f64>;
        let in_lane = |t: &FrameTimes| match t.time {
            FrameTime::Lane { latency_ms, .. } => Some(latency_ms),
            _ => None,
        };
        let more: [(&str, Time); 4] = [
            ("gpu_ms", |t| t.gpu_ms),
            ("enqueue_ms", |t| t.enqueued.ms),
            (END_TO_END, |t| t.end_to_end_ms),
            (IN_LANE, in_lane),
        ];
        for (name, time) in more {
            let column: Vec<_> = times.iter().map(|t| time(t).map(rounded)).collect();
            if column.iter().any(Option::is_some) {
                columns.insert(name.to_owned(), column.into());
            }
        }
        type Count = fn(&FrameTimes) -> Option<u64>;
        let counts: [(&str, Count); 3] = [
            ("objects", |t| t.objects.map(|objects| objects as u64)),
            ("launches", |t| t.enqueued.launches),
            ("graph_launches", |t| t.enqueued.graph_launches),
        ];
        for (name, count) in counts {
            let column: Vec<_> = times.iter().map(count).collect();
            if column.iter().any(Option::is_some) {
                columns.insert(name.to_owned(), column.into());
            }
        }
        type Score = fn(&FrameTimes) -> Option<f32>;
        let scores: [(&str, Score); 2] =
            [("objectness", |t| t.objectness), ("predicted_iou", |t| t.predicted_iou)];
        for (name, score) in scores {
            let column: Vec<_> = times.iter().map(score).collect();
            if column.iter().any(Option::is_some) {
                columns.insert(name.to_owned(), column.into());
            }
        }
        // Named as the PyTorch runner names them.
        if times.iter().any(|t| t.selection.is_some()) {
            let chosen: Vec<_> = times.iter().map(|t| t.selection.map(|s| s.chosen())).collect();
            columns.insert("chosen_mask".to_owned(), chosen.into());
            let ious: Vec<_> =
                times.iter().map(|t| t.selection.map(|s| s.ious().to_vec())).collect();
            columns.insert("iou_predictions".to_owned(), ious.into());
        }
        Self { frame: times.iter().map(|t| t.frame).collect(), columns }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) configuration: Configuration,
    configuration_sha256: String,
}

/// The open journal; locked against a second writer as long as it lives.
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    /// Bytes so far: where the next line begins.
    length: u64,
}

/// A journal that is gone on with.
pub(super) struct Continued {
    pub(super) journal: Journal,
    /// The settings, with the clips and objects of all its rows.
    pub(super) configuration: Configuration,
    /// Results with the offset of each line, in the order in which they were measured.
    pub(super) found: Vec<(ObjectResult, u64)>,
}

impl Journal {
    /// A new journal; what an earlier run left in the folder is set aside.
    pub(super) fn create(directory: &Path, configuration: &Configuration) -> Result<Self> {
        Self::open(directory)?.begin(directory, configuration)
    }

    /// Continues the journal of an interrupted run. Without a journal it begins a new one.
    ///
    /// Errors when the run was configured differently, or when a line before the last is damaged.
    pub(super) fn resume(directory: &Path, configuration: Configuration) -> Result<Continued> {
        let mut journal = Self::open(directory)?;
        let (earlier, mut found) = journal.read(&configuration)?;
        let Some(earlier) = earlier else {
            log::info!("{} holds no rows to resume; starting anew", directory.display());
            let journal = journal.begin(directory, &configuration)?;
            return Ok(Continued { journal, configuration, found });
        };
        let configuration = configuration.beside(&earlier);
        if configuration != earlier {
            let moved = journal.replace_header(directory, &configuration)?;
            found.iter_mut().for_each(|(_, offset)| *offset = offset.saturating_add_signed(moved));
        }
        Ok(Continued { journal, configuration, found })
    }

    /// The settings in the first line of the journal in `directory`; none where there is no such
    /// line.
    pub(super) fn configuration(directory: &Path) -> Option<Configuration> {
        let mut line = String::new();
        let file = File::open(directory.join(JOURNAL)).ok()?;
        BufReader::new(file).read_line(&mut line).ok()?;
        serde_json::from_str::<Header>(&line).ok().map(|header| header.configuration)
    }

    /// Appends a result and waits until it is on disk; returns where its line begins.
    pub(super) fn append(&mut self, result: &ObjectResult) -> Result<u64> {
        let offset = self.length;
        let line = serde_json::to_string(result)?;
        // JSON has no NaN: better to stop here than to find the line unreadable on resume.
        serde_json::from_str::<ObjectResult>(&line).with_context(|| {
            format!("a result of {} holds a NaN", result.summary.pooled.key.video)
        })?;
        self.append_line(line)?;
        Ok(offset)
    }

    /// Appends a line as it is: a changed copy of one that is there, with what is not kept in
    /// memory.
    pub(super) fn append_again(&mut self, line: &serde_json::Value) -> Result<u64> {
        let offset = self.length;
        self.append_line(serde_json::to_string(line)?)?;
        Ok(offset)
    }

    /// There is a journal in `directory`.
    pub(super) fn is_there(directory: &Path) -> bool {
        std::fs::metadata(directory.join(JOURNAL)).is_ok_and(|meta| meta.len() > 0)
    }

    /// The line that begins at `offset`, as text.
    pub(super) fn line_at(&self, offset: u64) -> Result<String> {
        let mut reader = BufReader::new(&self.file);
        reader.seek(SeekFrom::Start(offset))?;
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .with_context(|| format!("cannot read {}", self.path.display()))?;
        Ok(line)
    }

    fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(JOURNAL);
        let file =
            OpenOptions::new().read(true).append(true).create(true).open(&path).with_context(
                || format!("cannot open {}; choose a writable --out-dir", path.display()),
            )?;
        match file.try_lock() {
            Ok(()) => litter::remove(directory),
            Err(TryLockError::WouldBlock) => bail!(
                "{} is being written by another segtrt; wait for it or choose another --out-dir",
                path.display()
            ),
            Err(TryLockError::Error(error)) => {
                log::debug!("{} cannot be locked here: {error}", path.display());
            }
        }
        let length = file.metadata()?.len();
        Ok(Self { file, path, length })
    }

    /// Sets aside what is there and writes the first line. Masks without rows are another run's
    /// too, and go before there is a journal: a resumed run takes what lies beside one for its own.
    fn begin(mut self, directory: &Path, configuration: &Configuration) -> Result<Self> {
        let moved = set_aside::earlier_run(directory)?;
        if let Some(sentence) = set_aside::sentence(directory, &moved) {
            log::warn!("{sentence}");
        }
        if moved.iter().any(|(from, _)| from == JOURNAL) {
            // The file that is open has the other name now.
            self = Self::open(directory)?;
        }
        self.start(directory, configuration)?;
        Ok(self)
    }

    fn start(&mut self, directory: &Path, configuration: &Configuration) -> Result<()> {
        self.append_line(header(configuration)?)?;
        sync_directory(directory);
        Ok(())
    }

    /// Writes the journal with another first line; by how many bytes the other lines moved.
    fn replace_header(&mut self, directory: &Path, configuration: &Configuration) -> Result<i64> {
        let (before, first) = (self.line_at(0)?, header(configuration)? + "\n");
        let mut rest = BufReader::new(&self.file);
        rest.seek(SeekFrom::Start(before.len() as u64))?;
        atomic::write(&self.path, |out| {
            out.write_all(first.as_bytes())?;
            std::io::copy(&mut rest, out)?;
            Ok(())
        })?;
        // The file that is open has no name any more.
        *self = Self::open(directory)?;
        Ok(first.len() as i64 - before.len() as i64)
    }

    fn append_line(&mut self, mut line: String) -> Result<()> {
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .and_then(|()| self.file.sync_data())
            .with_context(|| format!("cannot write {}; is the disk full?", self.path.display()))?;
        self.length += line.len() as u64;
        Ok(())
    }

    /// Reads everything, checks the configuration, cuts off a torn last line. The settings are
    /// those of the first line; none where there is no whole one.
    fn read(&mut self, configuration: &Configuration) -> Result<Read> {
        let mut reader = BufReader::new(&self.file);
        let (mut offset, mut number, mut found) = (0, 0, Vec::new());
        let mut earlier = None;
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            number += 1;
            let parsed = if line.last() != Some(&b'\n') {
                Err(anyhow::anyhow!("the line is cut off"))
            } else if number == 1 {
                serde_json::from_slice::<Header>(&line)
                    .map(|h| Line::Header(Box::new(h)))
                    .map_err(Into::into)
            } else {
                serde_json::from_slice(&line).map(|r| Line::Result(Box::new(r))).map_err(Into::into)
            };
            let is_last = offset + line.len() as u64 == self.length;
            match parsed {
                Ok(Line::Header(header)) => {
                    check(&self.path, &header, configuration)?;
                    earlier = Some(header.configuration);
                }
                Ok(Line::Result(result)) => found.push((*result, offset)),
                Err(error) if is_last => {
                    log::warn!(
                        "{}: line {number} was torn by a crash ({error}); its object is measured \
                         again",
                        self.path.display()
                    );
                    break;
                }
                Err(error) => bail!(
                    "{}: line {number} is damaged ({error}); remove that line, or run without \
                     --resume",
                    self.path.display()
                ),
            }
            offset += line.len() as u64;
            line.clear();
        }
        if offset != self.length {
            self.file.set_len(offset)?;
            self.length = offset;
        }
        Ok((earlier, found))
    }
}

/// The settings in a journal, and its results with the offset of each line.
type Read = (Option<Configuration>, Vec<(ObjectResult, u64)>);

/// The first line.
fn header(configuration: &Configuration) -> Result<String> {
    let header = Header {
        format: FORMAT.into(),
        configuration: configuration.clone(),
        configuration_sha256: configuration.sha256(),
    };
    Ok(serde_json::to_string(&header)?)
}

enum Line {
    Header(Box<Header>),
    Result(Box<ObjectResult>),
}

fn check(path: &Path, header: &Header, now: &Configuration) -> Result<()> {
    if header.format != FORMAT {
        bail!("{}: found format {:?}, expected {FORMAT:?}", path.display(), header.format);
    }
    // Other clips or objects are not another configuration, because each row names its own.
    let differences = header.configuration.clone().of_selection(now).differences(now);
    if !differences.is_empty() {
        bail!(
            "{} belongs to a run with another configuration: {}; \
             resume with the old settings, choose another --out-dir, or run without --resume",
            path.display(),
            differences.join(", ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
