/*!
Which table of which folder: the predecessor's places and segtrt's own.
*/

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::Origin;

/// A kind of table.
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
    /// Its file's name.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::ProfileSummary => crate::files::profile_csv::FILE_NAME,
            Self::SavBenchmarkSummary => crate::files::summary_csv::FILE_NAME,
        }
    }

    /// Where it lies below a result folder: an experiment's place first, then a bench's own.
    fn folders(self) -> &'static [&'static str] {
        match self {
            Self::ProfileSummary => &["profile_outputs", ""],
            Self::SavBenchmarkSummary => &["profile_outputs", "benchmark_outputs", ""],
        }
    }
}

/// One table with its origin.
#[derive(Clone, Debug)]
pub struct Source {
    /// The folder as it was named.
    pub folder: PathBuf,
    /// The table's file.
    pub table: PathBuf,
    /// Who made it.
    pub origin: Origin,
}

/// Why a folder gives no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is not there.
    Folder,
    /// It has no such table.
    Table,
}

impl Source {
    /// The table of `folder`.
    ///
    /// # Errors
    /// What is missing.
    pub fn find(folder: &Path, table: Table) -> Result<Self, Missing> {
        if !folder.is_dir() {
            return Err(Missing::Folder);
        }
        let places = table.folders().iter().map(|place| folder.join(place));
        let mut places = places.filter(|place| place.join(table.file_name()).is_file());
        let place = places.next().ok_or(Missing::Table)?;
        Ok(Self {
            folder: folder.to_owned(),
            table: place.join(table.file_name()),
            origin: Origin::of(folder, &place),
        })
    }
}
