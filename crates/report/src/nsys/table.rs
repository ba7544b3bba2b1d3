/*!
A table as data: columns with units, rows of cells. Screen, CSV, JSON, comparison and difference use
it.
*/

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The unit of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Text.
    Text,
    /// A count.
    Count,
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// Percent.
    Percent,
    /// A plain number.
    Number,
    /// Numbers of events in intervals of equal length.
    Counts,
    /// Percent in intervals of equal length.
    Shares,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name without the unit.
    pub title: Cow<'static, str>,
    /// Its unit.
    pub unit: Unit,
}

/// Shorthand for lists of columns.
pub const fn column(title: &'static str, unit: Unit) -> Column {
    Column { title: Cow::Borrowed(title), unit }
}

impl Column {
    /// Its name in files, with the unit as in nsys.
    pub fn header(&self) -> String {
        let unit = match self.unit {
            Unit::Time => " (ns)",
            Unit::Bytes => " (B)",
            Unit::Percent => " (%)",
            Unit::Text | Unit::Count | Unit::Number | Unit::Counts => "",
            Unit::Shares => " (%)",
        };
        format!("{}{unit}", self.title)
    }
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A whole number in the column's unit.
    Whole(i64),
    /// Another number in the column's unit.
    Real(f64),
    /// A number for each interval.
    Bins(Vec<f64>),
    /// Empty.
    Missing,
}

impl Cell {
    /// The number; none for text and empty cells.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(value) => Some(*value as f64),
            Self::Real(value) => Some(*value),
            Self::Bins(_) | Self::Text(_) | Self::Missing => None,
        }
    }

    /// Its columns in a CSV file: one, or one for each interval.
    pub fn columns(&self, unit: Unit) -> Vec<String> {
        match self {
            Self::Bins(values) => values.iter().map(|value| bin(*value)).collect(),
            other => vec![other.plain(unit)],
        }
    }

    /// As in files: means and similar values with one decimal, as in nsys; shares with two.
    pub fn plain(&self, unit: Unit) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Whole(value) => value.to_string(),
            Self::Real(value) if unit == Unit::Percent => format!("{value:.2}"),
            Self::Real(value) => format!("{value:.1}"),
            Self::Bins(values) => {
                values.iter().map(|value| bin(*value)).collect::<Vec<_>>().join(" ")
            }
            Self::Missing => String::new(),
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Whole(value) => (*value).into(),
            Self::Real(value) => (*value).into(),
            Self::Bins(values) => values.as_slice().into(),
            Self::Missing => Value::Null,
        }
    }
}

/// The number of an interval, without decimals that are zero.
fn bin(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
    /// nsys's name of the table, which is also the file name.
    pub name: &'static str,
    /// Its heading.
    pub title: Cow<'static, str>,
    /// The columns.
    pub columns: Vec<Column>,
    /// Indices of the columns that identify a row; empty if rows of two reports never correspond.
    pub keys: &'static [usize],
    /// Index of the column that is compared.
    pub measure: usize,
    /// Index of the column with the count.
    pub count: Option<usize>,
    /// The rows, the largest first.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// The identity of a row.
    pub fn key(&self, row: &[Cell]) -> String {
        let part = |&at: &usize| row.get(at).map(|cell| cell.plain(Unit::Text)).unwrap_or_default();
        self.keys.iter().map(part).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// The names of its columns in a CSV file; a column of intervals is several: `Bin 1`, `Bin 2`.
    pub fn headers(&self) -> Vec<String> {
        let names = self.columns.iter().enumerate().flat_map(|(at, column)| {
            match self.rows.first().and_then(|row| row.get(at)) {
                Some(Cell::Bins(values)) => (1..=values.len())
                    .map(|bin| format!("{} {bin}", column.title))
                    .collect::<Vec<_>>(),
                _ => vec![column.header()],
            }
        });
        names.collect()
    }

    /// Keeps only the first rows.
    pub fn cut(&mut self, top: Option<usize>) {
        self.rows.truncate(top.unwrap_or(usize::MAX));
    }

    /// The rows as JSON objects with the names of the columns.
    pub fn json(&self) -> Value {
        let object = |row: &Vec<Cell>| {
            let fields =
                self.columns.iter().zip(row).map(|(column, cell)| (column.header(), cell.json()));
            Value::Object(fields.collect::<Map<_, _>>())
        };
        self.rows.iter().map(object).collect()
    }
}
