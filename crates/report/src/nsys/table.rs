/*!
A table as data: columns with units, rows of cells. Screen, CSV, JSON, comparison and difference all
start from it.
*/

use std::borrow::Cow;

use serde_json::{Map, Value};

/// What a column's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Words.
    Text,
    /// How many.
    Count,
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// Of a hundred.
    Percent,
    /// A plain number.
    Number,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name without the unit.
    pub title: Cow<'static, str>,
    /// What it holds.
    pub unit: Unit,
}

/// Shorthand for lists of columns.
pub const fn column(title: &'static str, unit: Unit) -> Column {
    Column { title: Cow::Borrowed(title), unit }
}

impl Column {
    /// Its name in files, with the unit as nsys writes it.
    pub fn header(&self) -> String {
        let unit = match self.unit {
            Unit::Time => " (ns)",
            Unit::Bytes => " (B)",
            Unit::Percent => " (%)",
            Unit::Text | Unit::Count | Unit::Number => "",
        };
        format!("{}{unit}", self.title)
    }
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A whole number in the column's unit.
    Whole(i64),
    /// Another number in the column's unit.
    Real(f64),
    /// There is none.
    Missing,
}

impl Cell {
    /// The number; none of words and of nothing.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(value) => Some(*value as f64),
            Self::Real(value) => Some(*value),
            Self::Text(_) | Self::Missing => None,
        }
    }

    /// In files: means and the like with one decimal, as nsys writes them; shares with two.
    pub fn plain(&self, unit: Unit) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Whole(value) => value.to_string(),
            Self::Real(value) if unit == Unit::Percent => format!("{value:.2}"),
            Self::Real(value) => format!("{value:.1}"),
            Self::Missing => String::new(),
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Whole(value) => (*value).into(),
            Self::Real(value) => (*value).into(),
            Self::Missing => Value::Null,
        }
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Whole(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A table of one report.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// nsys's name of it, which files have.
    pub name: &'static str,
    /// Its name for people.
    pub title: Cow<'static, str>,
    /// The columns.
    pub columns: Vec<Column>,
    /// Places of the columns that say what a row is about; none where rows of two reports are never
    /// about the same.
    pub keys: &'static [usize],
    /// Place of the column by which reports are compared.
    pub measure: usize,
    /// Place of the column that says how often it was.
    pub count: Option<usize>,
    /// The rows, the weightiest first.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// What a row is about.
    pub fn key(&self, row: &[Cell]) -> String {
        let part = |&at: &usize| row.get(at).map(|cell| cell.plain(Unit::Text)).unwrap_or_default();
        self.keys.iter().map(part).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// Only the first rows.
    pub fn cut(&mut self, top: Option<usize>) {
        self.rows.truncate(top.unwrap_or(usize::MAX));
    }

    /// The rows as JSON objects under the names of the columns.
    pub fn json(&self) -> Value {
        let object = |row: &Vec<Cell>| {
            let fields =
                self.columns.iter().zip(row).map(|(column, cell)| (column.header(), cell.json()));
            Value::Object(fields.collect::<Map<_, _>>())
        };
        self.rows.iter().map(object).collect()
    }
}
