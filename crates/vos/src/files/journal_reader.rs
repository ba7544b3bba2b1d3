/*!
Reads `rows.jsonl` of another run without changing it: its settings, and the last line of each
object and model.
*/

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::JOURNAL;
use super::journal::{FORMAT, Header};
use super::{Configuration, ObjectResult};
use crate::record::ObjectKey;

/// An open journal.
#[derive(Debug)]
pub struct JournalReader {
    /// The settings of the rows.
    pub configuration: Configuration,
    reader: BufReader<File>,
    path: PathBuf,
    /// Offset of the latest line of each object and model.
    newest: BTreeMap<(ObjectKey, usize), u64>,
}

impl JournalReader {
    /// Opens the journal in `folder` and reads its lines. A line that a crash truncated is omitted.
    ///
    /// # Errors
    /// It cannot be read, has another format, or a line before the last is damaged.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(JOURNAL);
        let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        let mut offset = reader.read_until(b'\n', &mut line)? as u64;
        let header: Header = serde_json::from_slice(&line)
            .with_context(|| format!("{}: the first line is damaged", path.display()))?;
        ensure!(
            header.format == FORMAT,
            "{}: found format {:?}, expected {FORMAT:?}",
            path.display(),
            header.format
        );
        let (mut newest, mut number) = (BTreeMap::new(), 1);
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line)? as u64;
            if line.last() != Some(&b'\n') {
                break;
            }
            number += 1;
            let result: ObjectResult = serde_json::from_slice(&line)
                .with_context(|| format!("{}: line {number} is damaged", path.display()))?;
            newest.insert((result.summary.pooled.key, result.order.model), offset);
            offset += length;
        }
        Ok(Self { configuration: header.configuration, reader, path, newest })
    }

    /// Passes the video of each line and the whole line with its raw times to `each`, in the order
    /// in which they were written.
    ///
    /// # Errors
    /// `each` fails, or the file cannot be read.
    pub fn each(&mut self, mut each: impl FnMut(&str, Value) -> Result<()>) -> Result<()> {
        let mut lines: Vec<(u64, &ObjectKey)> =
            self.newest.iter().map(|((key, _), offset)| (*offset, key)).collect();
        lines.sort_unstable_by_key(|(offset, _)| *offset);
        for (offset, key) in lines {
            let said = || format!("cannot read {}", self.path.display());
            let mut line = String::new();
            self.reader.seek(SeekFrom::Start(offset)).with_context(said)?;
            self.reader.read_line(&mut line).with_context(said)?;
            each(&key.video, serde_json::from_str(&line).with_context(said)?)?;
        }
        Ok(())
    }
}
