/*!
Finds rows with the same object, model and pass as an earlier row, for instance of a shard that was
merged twice.

Only a hash of each row's key is kept: some megabytes for a million rows. Two keys with the same
hash (one chance in tens of millions for a million rows) would only cause a wrong warning, because
all rows are kept.
*/

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Columns that identify a row; columns that no table has do not count.
const KEY: [&str; 18] = [
    "platform",
    "hostname",
    "timestamp",
    "video",
    "object",
    "model",
    "run",
    "imgsz",
    "precision",
    "backend",
    "device",
    "geometry",
    "prompt_policy",
    "metrics",
    "fidelity",
    "mode",
    "input_frame_stride",
    "experiment_name",
];

/// Keys of the rows so far.
#[derive(Debug)]
pub struct Repeats {
    columns: Vec<usize>,
    seen: HashSet<u64>,
    /// Number of repeated rows.
    pub count: u64,
    /// The key of the first repeated row, fields joined.
    pub first: Option<String>,
}

impl Repeats {
    /// For rows with these columns.
    pub fn new(names: &[Vec<u8>]) -> Self {
        let is_key = |name: &[u8]| KEY.iter().any(|key| key.as_bytes() == name);
        let columns = (0..names.len()).filter(|at| is_key(&names[*at])).collect();
        Self { columns, seen: HashSet::new(), count: 0, first: None }
    }

    /// Checks a row; `value` gives its field by column.
    pub fn see<'a>(&mut self, value: impl Fn(usize) -> &'a [u8]) {
        let mut hasher = DefaultHasher::new();
        self.columns.iter().for_each(|column| value(*column).hash(&mut hasher));
        if self.seen.insert(hasher.finish()) {
            return;
        }
        self.count += 1;
        if self.first.is_none() {
            let fields = self.columns.iter().map(|column| String::from_utf8_lossy(value(*column)));
            let parts: Vec<_> = fields.filter(|field| !field.is_empty()).collect();
            self.first = Some(parts.join(" "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_repetition_by_its_key_and_not_by_its_numbers() {
        let names = ["video", "fps", "run"].map(|name| name.as_bytes().to_vec());
        let mut repeats = Repeats::new(&names);
        let mut see = |row: [&'static str; 3]| repeats.see(|column| row[column].as_bytes());
        see(["v", "1.0", "0"]);
        see(["v", "1.0", "1"]);
        see(["v", "2.0", "0"]);
        see(["v", "2.0", "0"]);
        // The border between two fields counts.
        see(["v0", "2.0", ""]);
        assert_eq!((repeats.count, repeats.first.as_deref()), (2, Some("v 0")));
    }
}
