//! `segtrt nsys`.

mod bad_input;
/// Made-up exports, and the one whose numbers are worked out by hand.
pub mod made;
mod nvidia;
mod real;
mod recipes;
mod several;
mod tables;

use serde_json::Value;

use crate::support::segtrt;

/// The JSON document of a run that must end with `code`.
fn json(args: &[&str], code: i32) -> Value {
    let output = segtrt().arg("nsys").args(args).arg("--json").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}
