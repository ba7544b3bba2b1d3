//! That launches are the source's own.

use super::*;

#[test]
fn rows_of_a_warp_are_those_of_the_source() {
    let source = std::fs::read_to_string("../../cuda/normalize.cuh").unwrap();
    for units in 1..=9 {
        let rows = rows_of_a_warp(128 * units);
        assert_eq!(rows_of_a_warp(128 * units - 120), rows);
        let instance = format!("case {units}: return normalize_rows<Begin, {units}, {rows}>(");
        assert!(source.contains(&instance), "{instance}");
    }
    assert!(MAX_COLUMNS == 9 * 128 && !source.contains("case 10:"));
}
