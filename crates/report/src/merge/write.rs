/*!
Streams rows from the tables into the merged file, in the order of the folders.
*/

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use csv::{ByteRecord, Reader, ReaderBuilder, Terminator, Writer, WriterBuilder};
use serde::Serialize;

use super::columns::Columns;
use super::origin::UNKNOWN;
use super::repeats::Repeats;
use super::{MergeSource, Origin};
use vos::files::atomic;

/// The result of a merge.
#[derive(Debug, Default, Serialize)]
pub struct Merged {
    /// Rows in the file.
    pub rows: u64,
    /// Its columns.
    pub columns: Vec<String>,
    /// The tables, in order.
    pub sources: Vec<MergedSource>,
    /// Rows of each platform, in order of first appearance.
    pub platforms: Vec<(String, u64)>,
    /// Rows with the key of an earlier row; they are in the file too.
    pub repeated: u64,
    /// Key of the first repeated row.
    pub first_repeated: Option<String>,
}

/// The result for one table.
#[derive(Clone, Debug, Serialize)]
pub struct MergedSource {
    /// The folder as named.
    pub folder: String,
    /// Its platform.
    pub platform: String,
    /// Its rows.
    pub rows: u64,
    /// Rows whose number of fields differs from the header's.
    pub ragged: Option<Ragged>,
}

/// Rows that do not match their header, as in a truncated file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ragged {
    /// Number of such rows.
    pub rows: u64,
    /// Number of the first one, from 1 below the header.
    pub first: u64,
    /// Number of its fields.
    pub fields: usize,
    /// Number of the header's fields.
    pub expected: usize,
}

/// Writes all rows of `sources` to `output`, which is written whole or not at all. Without a row
/// nothing is written.
///
/// # Errors
/// A table cannot be read, or the output cannot be written or is one of the tables.
pub fn merge(sources: &[MergeSource], output: &Path) -> Result<Merged> {
    refuse_own_input(sources, output)?;
    let mut columns = Columns::new();
    let mut any = false;
    for source in sources {
        let mut reader = open(source)?;
        let header = header(&mut reader, source)?;
        // A table without rows adds neither rows nor columns.
        let has_rows = reader.read_byte_record(&mut ByteRecord::new()).with_context(|| at(source));
        if has_rows? {
            columns.unite(&header);
            any = true;
        }
    }
    let mut merged = Merged::default();
    if !any {
        merged.sources = sources.iter().map(MergedSource::new).collect();
        return Ok(merged);
    }
    if let Some(parent) = output.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot create {} for the output", parent.display()))?;
    }
    let mut repeats = Repeats::new(columns.names());
    atomic::write(output, |out| {
        let mut writer = WriterBuilder::new()
            .terminator(Terminator::CRLF)
            .buffer_capacity(1 << 20)
            .from_writer(out);
        writer.write_record(columns.names())?;
        for source in sources {
            merged.count(copy(source, &columns, &mut writer, &mut repeats)?);
        }
        Ok(writer.flush()?)
    })?;
    let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
    merged.columns = columns.names().iter().map(text).collect();
    (merged.repeated, merged.first_repeated) = (repeats.count, repeats.first);
    Ok(merged)
}

impl Merged {
    fn count(&mut self, added: MergedSource) {
        self.rows += added.rows;
        if added.rows > 0 {
            match self.platforms.iter_mut().find(|(name, _)| *name == added.platform) {
                Some((_, rows)) => *rows += added.rows,
                None => self.platforms.push((added.platform.clone(), added.rows)),
            }
        }
        self.sources.push(added);
    }
}

impl MergedSource {
    fn new(source: &MergeSource) -> Self {
        Self {
            folder: source.folder.display().to_string(),
            platform: source.origin.platform().to_owned(),
            rows: 0,
            ragged: None,
        }
    }
}

fn copy<W: Write>(
    source: &MergeSource,
    columns: &Columns,
    writer: &mut Writer<W>,
    repeats: &mut Repeats,
) -> Result<MergedSource> {
    let mut added = MergedSource::new(source);
    let mut reader = open(source)?;
    let header = header(&mut reader, source)?;
    let fields = columns.fields_of(&header);
    let origin = source.origin.values();
    let mut row = ByteRecord::new();
    while reader.read_byte_record(&mut row).with_context(|| at(source))? {
        added.rows += 1;
        if row.len() != header.len() {
            let first =
                Ragged { rows: 0, first: added.rows, fields: row.len(), expected: header.len() };
            added.ragged.get_or_insert(first).rows += 1;
        }
        let value = |column: usize| -> &[u8] {
            let own = fields[column].and_then(|field| row.get(field)).unwrap_or_default();
            match origin.get(column) {
                None => own,
                Some(_) if column == PLATFORM && source.labelled && !own.is_empty() => own,
                Some(Some(value)) => value.as_bytes(),
                // The experiment has no value; a table that was merged before may have one.
                Some(None) if own.is_empty() => UNKNOWN.as_bytes(),
                Some(None) => own,
            }
        };
        repeats.see(value);
        (0..fields.len()).try_for_each(|column| writer.write_field(value(column)))?;
        writer.write_record(None::<&[u8]>)?;
    }
    Ok(added)
}

/// The table with rows of any length, because a truncated row must not cost the others.
fn open(source: &MergeSource) -> Result<Reader<File>> {
    let file = File::open(&source.table).with_context(|| at(source))?;
    Ok(ReaderBuilder::new().flexible(true).buffer_capacity(1 << 20).from_reader(file))
}

fn header(reader: &mut Reader<File>, source: &MergeSource) -> Result<ByteRecord> {
    Ok(reader.byte_headers().with_context(|| at(source))?.clone())
}

/// Whether a table can be merged. An empty file can: a run that died early leaves one.
///
/// # Errors
/// It cannot be read, or is not a table of results.
pub fn check(source: &MergeSource) -> Result<()> {
    let header = header(&mut open(source)?, source)?;
    let table = source.table.display();
    let advice = "repair the file and merge its folder again";
    if header.iter().any(|name| name.contains(&0)) {
        bail!("{table} is not CSV: its first line contains zero bytes; {advice}");
    }
    let lacks: Vec<&str> = NEEDED
        .into_iter()
        .filter(|needed| header.iter().all(|name| name != needed.as_bytes()))
        .collect();
    if !header.is_empty() && !lacks.is_empty() {
        let found: Vec<_> = header.iter().take(8).map(String::from_utf8_lossy).collect();
        bail!(
            "{table} is not a table of results: it has no column {}; found {}; {advice}",
            lacks.join(", "),
            found.join(",")
        );
    }
    Ok(())
}

/// Columns that every table of results has.
const NEEDED: [&str; 2] = ["video", "model"];

fn at(source: &MergeSource) -> String {
    format!("cannot read {}", source.table.display())
}

fn refuse_own_input(sources: &[MergeSource], output: &Path) -> Result<()> {
    let Ok(output) = output.canonicalize() else { return Ok(()) };
    let same =
        |source: &&MergeSource| source.table.canonicalize().is_ok_and(|table| table == output);
    match sources.iter().find(same) {
        Some(source) => bail!(host::UsageError(format!(
            "-o {} is one of the tables to merge; choose another file",
            source.table.display()
        ))),
        None => Ok(()),
    }
}

/// The platform's column: the columns of the origin come first.
const PLATFORM: usize = 0;
const _: () = assert!(
    Origin::COLUMNS.len() == 3 && matches!(Origin::COLUMNS[PLATFORM].as_bytes(), b"platform")
);
