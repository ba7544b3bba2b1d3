//! The published packages: their files and fields.

use std::process::Command;

/// The files that cargo would publish.
fn packaged(package: &str) -> Option<Vec<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["package", "--list", "--allow-dirty", "--offline", "--package", package];
    let run = match Command::new(cargo).args(arguments).output() {
        Ok(run) => run,
        Err(error) => {
            eprintln!("SKIPPED: no cargo: {error}");
            return None;
        }
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some(String::from_utf8_lossy(&run.stdout).lines().map(str::to_owned).collect())
}

#[test]
fn a_package_has_its_sources_page_and_licences() {
    let own = [
        "abi/generate.py",
        "abi/releases.tsv",
        "build.rs",
        "examples/build_and_run.rs",
        "src/shim/shim.h",
    ];
    for (package, own) in [("tensorrt-dl", &own[..]), ("nvidia-dynlib", &["src/nvtx.rs"])] {
        let Some(files) = packaged(package) else { return };
        let common = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"];
        for name in common.iter().chain(own) {
            assert!(files.iter().any(|file| file == name), "{package} has no {name}: {files:?}");
        }
        assert!(files.iter().all(|file| !file.starts_with("..")), "{files:?}");
    }
}

/// A stranger's program has no masks, frames or models of this workspace.
#[test]
fn the_packages_know_nothing_of_segmentation() {
    let words = ["segtrt", "segment", "sam2", "edgetam", "video", "hiera"];
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![here.to_owned(), here.with_file_name("dynlib")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path != here.join("tests/package.rs")
                && !entry.file_name().to_string_lossy().starts_with("LICENSE")
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                let text = text.to_lowercase();
                let found = words.iter().find(|word| text.contains(*word));
                assert_eq!(found, None, "{}", path.display());
            }
        }
    }
}
