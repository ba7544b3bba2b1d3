//! `segtrt fetch` and `segtrt setup` against a server on this machine.

mod command;
mod server;
mod transfer;

use std::process::Command;

/// Whether curl is here; transfers are its work.
fn has_curl() -> bool {
    let there = Command::new("curl").arg("--version").output().is_ok();
    if !there {
        eprintln!("SKIPPED: no curl here, which fetches files");
    }
    there
}
