//! Tells the program which commit it was built from, where git knows.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    name_commit();
}

/// A missing git is no failure: the commit is then absent.
fn name_commit() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let said = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(said.trim().to_owned())
    };
    // Checking out or committing touches these. They lie elsewhere for a worktree, and nowhere in
    // an archive: a path that is not there would have cargo compile everything each time.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo:rustc-env=SEGTRT_COMMIT={commit}");
    }
}
