//! Compiles the TensorRT shim, puts the kernels into the program (`build/kernels.rs`), and tells it which commit it was built
//! from, where git knows.

#[path = "build/kernels.rs"]
mod kernels;

use std::path::Path;
use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    compile_shim();
    kernels::compile()?;
    name_commit();
    Ok(())
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
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let said = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(said.trim().to_owned())
    };
    // Checking out or committing touches these. They lie elsewhere for a worktree, and nowhere in an archive: a path that
    // is not there would have cargo compile everything each time.
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
