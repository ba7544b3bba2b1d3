//! `segtrt inspect`: graphs, plans, bundles and engine folders; damage; TensorRT's own account, and
//! its death.

#[path = "inspect/folders.rs"]
mod folders;
#[path = "inspect/graphs.rs"]
mod graphs;
#[path = "inspect/plans.rs"]
mod plans;
#[path = "inspect/stand_in.rs"]
pub mod stand_in;

#[test]
fn help_is_complete() {
    let output =
        crate::support::segtrt().args(["inspect", "-h"]).env("COLUMNS", "100").output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}
