/*!
A group's rows by the size of their clips, for targets of one size.
*/

use std::collections::BTreeMap;

use super::gather::stats_of;
use super::stat::Stat;
use crate::input::{ResultRow, Validity};

/// Width and height of a clip, pixels, the longer side first: a phone's upright clip counts as one
/// that lies.
pub type Size = (usize, usize);

/// The rows whose clips have one size.
#[derive(Clone, Debug)]
pub struct OfSize {
    /// Their size.
    pub size: Size,
    /// Every measured row is INVALID: the numbers are theirs.
    pub invalid: bool,
    /// Statistics by column.
    pub stats: BTreeMap<String, Stat>,
}

/// One for each size; rows without a size or a number are left out.
pub fn of(rows: &[&ResultRow]) -> Vec<OfSize> {
    let mut sizes: BTreeMap<Size, Vec<&ResultRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.validity() != Validity::Unmeasured) {
        let side = |names: [&str; 2]| names.iter().find_map(|name| row.number(name));
        if let (Some(width), Some(height)) = (side(["input_W", "W"]), side(["input_H", "H"])) {
            let size = (width.max(height) as usize, width.min(height) as usize);
            sizes.entry(size).or_default().push(row);
        }
    }
    let of_size = |(size, measured): (Size, Vec<&ResultRow>)| {
        let valid: Vec<&ResultRow> =
            measured.iter().copied().filter(|row| row.validity().counts()).collect();
        let invalid = valid.is_empty();
        let used = if invalid { &measured } else { &valid };
        OfSize { size, invalid, stats: stats_of(used, &measured) }
    };
    sizes.into_iter().map(of_size).collect()
}
