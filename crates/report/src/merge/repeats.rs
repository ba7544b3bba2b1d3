/*!
Finds rows that say the same object, model and pass again, as a shard that was merged twice does.

Only a hash of each row's key is kept: a million rows cost some megabytes. Two keys with one hash
(one chance in tens of millions for a million rows) would cost a wrong warning and nothing else,
because all rows are kept anyway.
*/

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What tells one row from another; columns that no table has do not count.
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

/// The rows seen so far.
#[derive(Debug)]
pub struct Repeats {
    columns: Vec<usize>,
    seen: HashSet<u64>,
    /// Rows that were there before.
    pub count: u64,
    /// The first of them, its key's fields joined.
    pub first: Option<String>,
}

impl Repeats {
    /// For rows with these columns.
    pub fn new(names: &[Vec<u8>]) -> Self {
        let is_key = |name: &[u8]| KEY.iter().any(|key| key.as_bytes() == name);
        let columns = (0..names.len()).filter(|at| is_key(&names[*at])).collect();
        Self { columns, seen: HashSet::new(), count: 0, first: None }
    }

    /// Looks at a row, whose fields `value` gives by column.
    pub fn see<'a>(&mut self, value: impl Fn(usize) -> &'a [u8]) {
        let mut hasher = DefaultHasher::new();
        self.columns.iter().for_each(|column| value(*column).hash(&mut hasher));
        if self.seen.insert(hasher.finish()) {
            return;
        }
        self.count += 1;
        if self.first.is_none() {
            let fields = self.columns.iter().map(|column| String::from_utf8_lossy(value(*column)));
            let told: Vec<_> = fields.filter(|field| !field.is_empty()).collect();
            self.first = Some(told.join(" "));
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
