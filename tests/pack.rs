//! `segtrt pack`: what is in the tar, what is refused, and what its script does on a board that a
//! script plays.

#[path = "pack/board.rs"]
mod board;
#[path = "pack/run.rs"]
mod run;
#[path = "pack/tar.rs"]
mod tar;

#[test]
fn help_is_complete() {
    let output =
        crate::support::segtrt().args(["pack", "-h"]).env("COLUMNS", "100").output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}
