//! Tells the program which commit it was built from, where git knows; a missing git is no failure.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Checking out or committing touches these; without git the paths are merely absent.
    println!("cargo:rerun-if-changed=.git/HEAD");
    println!("cargo:rerun-if-changed=.git/logs/HEAD");
    let git = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    if let Ok(output) = git
        && output.status.success()
        && let Ok(commit) = String::from_utf8(output.stdout)
    {
        println!("cargo:rustc-env=SEGTRT_COMMIT={}", commit.trim());
    }
}
