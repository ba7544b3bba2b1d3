/*!
Unites the columns of several tables: the first table's order, then additional ones.
*/

use std::collections::HashMap;

use csv::ByteRecord;

use super::Origin;

/// The united columns; the origin's come first.
#[derive(Debug)]
pub struct Columns {
    names: Vec<Vec<u8>>,
    place: HashMap<Vec<u8>, usize>,
}

impl Columns {
    /// The origin's columns alone.
    pub fn new() -> Self {
        let mut columns = Self { names: Vec::new(), place: HashMap::new() };
        Origin::COLUMNS.iter().for_each(|name| columns.add(name.as_bytes()));
        columns
    }

    fn add(&mut self, name: &[u8]) {
        if !self.place.contains_key(name) {
            self.place.insert(name.to_vec(), self.names.len());
            self.names.push(name.to_vec());
        }
    }

    /// Adds the columns of `header` that are missing.
    pub fn unite(&mut self, header: &ByteRecord) {
        header.iter().for_each(|name| self.add(name));
    }

    /// All names, in order.
    pub fn names(&self) -> &[Vec<u8>] {
        &self.names
    }

    /// For each column the index of its field in a row of `header`. Of two fields with the same
    /// name the last counts.
    pub fn fields_of(&self, header: &ByteRecord) -> Vec<Option<usize>> {
        let mut fields = vec![None; self.names.len()];
        for (field, name) in header.iter().enumerate() {
            if let Some(column) = self.place.get(name) {
                fields[*column] = Some(field);
            }
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_columns_come_last_and_each_name_once() {
        let mut columns = Columns::new();
        let (old, new) = (
            ByteRecord::from(vec!["video", "fps"]),
            ByteRecord::from(vec!["fps", "hostname", "video", "status"]),
        );
        columns.unite(&old);
        columns.unite(&new);
        let names: Vec<_> = columns.names().iter().map(|n| String::from_utf8_lossy(n)).collect();
        assert_eq!(names, ["platform", "hostname", "timestamp", "video", "fps", "status"]);
        assert_eq!(columns.fields_of(&old), [None, None, None, Some(0), Some(1), None]);
        assert_eq!(columns.fields_of(&new), [None, Some(1), None, Some(2), Some(0), Some(3)]);
        let twice = ByteRecord::from(vec!["fps", "fps"]);
        assert_eq!(columns.fields_of(&twice)[4], Some(1));
    }
}
