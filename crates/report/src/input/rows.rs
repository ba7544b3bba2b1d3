/*!
Rows of a results table, by the names of its columns: old tables lack some, new ones have more.
*/

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::Serialize;

/// Columns without which a table is no result of this tool or of its predecessor.
const NEEDED: [&str; 3] = ["video", "model", "fps"];

/// Whether a row's speed may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Believed {
    /// Judged VALID.
    Valid,
    /// Judged INVALID: shown, never compared.
    Invalid,
    /// Judged `-`: too little was run to tell.
    Unjudged,
    /// Nobody judged it: the table has no verdicts.
    NoVerdict,
    /// There are no numbers: it was skipped or it failed.
    Unmeasured,
}

impl Believed {
    /// The word that people read.
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
pub struct Row {
    header: Arc<HashMap<String, usize>>,
    fields: csv::StringRecord,
    /// Why its speed is doubted from outside its table.
    doubted: Option<Arc<str>>,
}

impl Row {
    /// A field that is not empty.
    pub fn text(&self, column: &str) -> Option<&str> {
        let text = self.fields.get(*self.header.get(column)?)?.trim();
        (!text.is_empty()).then_some(text)
    }

    /// A finite number; an empty field, a word and `nan` are none.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.text(column)?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Whether the table has the column at all.
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

    /// Whether its speed may be believed.
    pub fn believed(&self) -> Believed {
        let ok = self.text("status").is_none_or(|status| status == "ok");
        if !ok || self.number("fps").is_none_or(|fps| fps <= 0.0) {
            return Believed::Unmeasured;
        }
        if self.doubted.is_some() {
            return Believed::Invalid;
        }
        match self.text("verdict") {
            Some("VALID") => Believed::Valid,
            Some("INVALID") => Believed::Invalid,
            Some(_) => Believed::Unjudged,
            None => Believed::NoVerdict,
        }
    }

    /// Takes its speed out of every comparison, for this reason.
    pub fn doubt(&mut self, reason: &Arc<str>) {
        self.doubted = Some(Arc::clone(reason));
    }

    /// Why it has no numbers, or why they are doubted.
    pub fn why(&self) -> Option<&str> {
        match self.believed() {
            Believed::Unmeasured => self.text("reason"),
            Believed::Invalid if self.doubted.is_some() => self.doubted.as_deref(),
            _ => self.text("verdict_reason"),
        }
    }
}

/// Reads a table.
///
/// # Errors
/// A file that cannot be read, that is no CSV, or that lacks the columns every result has; a broken
/// line is named.
pub fn read(path: &Path) -> Result<Vec<Row>> {
    let mut reader = csv::ReaderBuilder::new()
        // A row that a crash cut short keeps its numbers; what is missing is not measured.
        .flexible(true)
        .from_path(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let header =
        reader.headers().with_context(|| format!("{} is no CSV file", path.display()))?.clone();
    let columns: HashMap<String, usize> =
        header.iter().enumerate().map(|(at, name)| (name.trim().to_owned(), at)).collect();
    let missing: Vec<&str> =
        NEEDED.into_iter().filter(|name| !columns.contains_key(*name)).collect();
    if !missing.is_empty() {
        let first: Vec<&str> = header.iter().take(8).collect();
        bail!(
            "{} is no table of results: it has no column {}; found {}; expected a summary or profile CSV of segtrt bench, \
             of segtrt merge or of the Python benchmark",
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
            Ok(Row { header: Arc::clone(&columns), fields, doubted: None })
        })
        .collect()
}
