/*!
Finds the table in a folder, in the predecessor's places and in segtrt's.
*/

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::Origin;

/// Kind of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Table {
    /// `profile_summary.csv`: a row for each recorded pass.
    #[value(name = "profile_summary")]
    ProfileSummary,
    /// `sav_benchmark_summary.csv`: a row for each object, with J and F.
    #[value(name = "sav_benchmark_summary")]
    SavBenchmarkSummary,
}

impl Table {
    /// File name.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::ProfileSummary => vos::files::profile_csv::FILE_NAME,
            Self::SavBenchmarkSummary => vos::files::summary_csv::FILE_NAME,
        }
    }

    /// Its places below a result folder: an experiment's first, then bench's.
    fn folders(self) -> &'static [&'static str] {
        match self {
            Self::ProfileSummary => &["profile_outputs", ""],
            Self::SavBenchmarkSummary => &["profile_outputs", "benchmark_outputs", ""],
        }
    }
}

/// A table with its origin.
#[derive(Clone, Debug)]
pub struct MergeSource {
    /// The named folder or file.
    pub folder: PathBuf,
    /// Path of the table.
    pub table: PathBuf,
    /// Its origin.
    pub origin: Origin,
    /// The user named its platform; rows with a platform of their own keep it, as in a report.
    pub labelled: bool,
}

/// Why an argument has no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The path does not exist.
    Path,
    /// The path is neither a folder nor a regular file.
    Kind,
    /// The folder has no such table.
    Table,
}

impl MergeSource {
    /// Finds the table of an argument: a folder with one, or a CSV file, possibly with a platform
    /// as `LABEL=PATH`.
    ///
    /// # Errors
    /// The missing part.
    pub fn find(given: &Path, table: Table) -> Result<Self, Missing> {
        let labelled = given.to_str().and_then(|text| text.split_once('='));
        match labelled {
            // A path may contain an equals sign.
            Some((label, path)) if !label.is_empty() && !given.exists() => {
                let mut source = Self::at(Path::new(path), table)?;
                source.origin.platform = Some(label.to_owned());
                source.labelled = true;
                Ok(source)
            }
            _ => Self::at(given, table),
        }
    }

    fn at(path: &Path, table: Table) -> Result<Self, Missing> {
        let meta = std::fs::metadata(path).map_err(|_| Missing::Path)?;
        if meta.is_file() {
            let (folder, table) = (path.to_owned(), path.to_owned());
            return Ok(Self { folder, table, origin: Origin::of_file(path), labelled: false });
        }
        if !meta.is_dir() {
            return Err(Missing::Kind);
        }
        let places = table.folders().iter().map(|place| path.join(place));
        let mut places = places.filter(|place| place.join(table.file_name()).is_file());
        let place = places.next().ok_or(Missing::Table)?;
        Ok(Self {
            folder: path.to_owned(),
            table: place.join(table.file_name()),
            origin: Origin::of(path, &place),
            labelled: false,
        })
    }
}
