//! Compiles the TensorRT shim, and tells the program which commit it was built from, where git knows.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    compile_shim();
    name_commit();
}

/// Needs a C++17 compiler only: the shim knows TensorRT's interfaces from its own tables.
fn compile_shim() {
    const DIR: &str = "src/trt/shim";
    println!("cargo:rerun-if-changed={DIR}");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(true)
        // A call through a vtable slot must be the call that is written, whatever the profile.
        .opt_level(2)
        .files(
            ["api", "builder", "network", "runtime", "context"]
                .map(|file| format!("{DIR}/{file}.cpp")),
        )
        .compile("segtrt_shim");
}

/// A missing git is no failure: the commit is then absent.
fn name_commit() {
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
