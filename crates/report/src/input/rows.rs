/*!
Rows of a results table by column name. Old tables lack some columns, new ones have more.
*/

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::Serialize;

/// Columns that every table of segtrt and of its predecessor has.
const NEEDED: [&str; 3] = ["video", "model", "fps"];

/// Columns of text; a name may look like a number.
pub const TEXT_COLUMNS: [&str; 9] = [
    "video",
    "object",
    "model",
    "platform",
    "hostname",
    "timestamp",
    "experiment_name",
    "device",
    "reason",
];

/// Validity of a row's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Validity {
    /// Judged VALID.
    Valid,
    /// Judged INVALID: shown, never compared.
    Invalid,
    /// Verdict `-`: too few frames.
    Unjudged,
    /// The table has no verdicts.
    NoVerdict,
    /// Skipped or failed: there are no numbers.
    Unmeasured,
}

impl Validity {
    /// The word on the page.
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::Invalid => "INVALID",
            Self::Unjudged => "not judged",
            Self::NoVerdict => "no verdict",
            Self::Unmeasured => "not measured",
        }
    }

    /// Whether its speed counts.
    pub fn counts(self) -> bool {
        !matches!(self, Self::Invalid | Self::Unmeasured)
    }
}

/// One row.
#[derive(Clone, Debug)]
pub struct ResultRow {
    header: Arc<HashMap<String, usize>>,
    fields: csv::StringRecord,
    /// A reason from outside the table why its speed is INVALID.
    unproven: Option<Arc<str>>,
}

impl ResultRow {
    /// A field that is not empty.
    pub fn text(&self, column: &str) -> Option<&str> {
        let text = self.fields.get(*self.header.get(column)?)?.trim();
        (!text.is_empty()).then_some(text)
    }

    /// A finite number; `None` for an empty field, a word and `nan`.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.text(column)?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Whether the table has the column.
    pub fn has_column(&self, column: &str) -> bool {
        self.header.contains_key(column)
    }

    /// The table's columns in order.
    pub fn columns(&self) -> Vec<&str> {
        let mut names: Vec<(&str, usize)> =
            self.header.iter().map(|(name, at)| (name.as_str(), *at)).collect();
        names.sort_by_key(|(_, at)| *at);
        names.into_iter().map(|(name, _)| name).collect()
    }

    /// Clip, object and model.
    pub fn key(&self) -> (&str, &str, &str) {
        let of = |column| self.text(column).unwrap_or("");
        (of("video"), of("object"), of("model"))
    }

    /// Validity of its speed.
    pub fn validity(&self) -> Validity {
        let ok = self.text("status").is_none_or(|status| status == "ok");
        if !ok || self.number("fps").is_none_or(|fps| fps <= 0.0) {
            return Validity::Unmeasured;
        }
        if self.unproven.is_some() {
            return Validity::Invalid;
        }
        match self.text("verdict") {
            Some("VALID") => Validity::Valid,
            Some("INVALID") => Validity::Invalid,
            Some(_) => Validity::Unjudged,
            None => Validity::NoVerdict,
        }
    }

    /// Makes its speed INVALID for this reason.
    pub fn mark_unproven(&mut self, reason: &Arc<str>) {
        self.unproven = Some(Arc::clone(reason));
    }

    /// Whether a comparison has not proven its side.
    pub fn is_unproven(&self) -> bool {
        self.unproven.is_some()
    }

    /// Why it has no numbers, or why they are INVALID.
    pub fn why(&self) -> Option<&str> {
        match self.validity() {
            Validity::Unmeasured => self.text("reason"),
            Validity::Invalid if self.unproven.is_some() => self.unproven.as_deref(),
            _ => self.text("verdict_reason"),
        }
    }
}

/// Reads a table.
///
/// # Errors
/// The file cannot be read, is not CSV, or lacks needed columns; a broken line is named.
pub fn read(path: &Path) -> Result<Vec<ResultRow>> {
    let mut reader = csv::ReaderBuilder::new()
        // A row that a crash truncated keeps its numbers; the missing ones are not measured.
        .flexible(true)
        .from_path(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let header =
        reader.headers().with_context(|| format!("{} is not a CSV file", path.display()))?.clone();
    let columns: HashMap<String, usize> =
        header.iter().enumerate().map(|(at, name)| (name.trim().to_owned(), at)).collect();
    let missing: Vec<&str> =
        NEEDED.into_iter().filter(|name| !columns.contains_key(*name)).collect();
    if !missing.is_empty() {
        let first: Vec<&str> = header.iter().take(8).collect();
        bail!(
            "{} is not a table of results: it has no column {}; found {}; expected a summary or \
             profile CSV of segtrt bench, of segtrt merge or of the Python benchmark",
            path.display(),
            missing.join(", "),
            if first.is_empty() { "an empty file".to_owned() } else { first.join(",") },
        );
    }
    let columns = Arc::new(columns);
    reader
        .records()
        .map(|fields| {
            let fields = fields.with_context(|| format!("{} is damaged", path.display()))?;
            Ok(ResultRow { header: Arc::clone(&columns), fields, unproven: None })
        })
        .collect()
}
