/*!
Finds ONNX Runtime's shared library and opens it, with a sentence instead of a panic where it is
missing or too old.
*/

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use ort::environment::Environment;

use dynlib::trusted;
use host::share;

/// Oldest ONNX Runtime that this program can drive.
pub const OLDEST: &str = "1.17";

/// Where a system's packages put libraries.
const SYSTEM: [&str; 4] = ["/usr/local/lib", MULTIARCH, "/usr/lib64", "/usr/lib"];
const MULTIARCH: &str = if cfg!(target_arch = "aarch64") {
    "/usr/lib/aarch64-linux-gnu"
} else {
    "/usr/lib/x86_64-linux-gnu"
};

/// Opens the library that [`find_library`] finds.
pub fn open(explicit: Option<&Path>) -> Result<(Environment, PathBuf)> {
    let path = find_library(explicit)?;
    let builder = ort::init_from(&path).map_err(|error| explain(&path, &error))?;
    let environment = builder
        .with_name("segtrt")
        .with_telemetry(false)
        .build()
        .map_err(|error| anyhow!("ONNX Runtime {} did not start: {error}", path.display()))?;
    Ok((environment, path))
}

/// The version that the opened library reports, with its build's description.
pub fn build_info() -> String {
    ort::info().to_owned()
}

fn explain(path: &Path, error: &ort::LoadDynamicError) -> anyhow::Error {
    match error {
        ort::LoadDynamicError::BadVersion { version_str, .. } => anyhow!(
            "{} is ONNX Runtime {version_str}, expected {OLDEST} or newer; install a newer one \
             (segtrt setup) or name another with --ort-lib",
            path.display()
        ),
        ort::LoadDynamicError::MissingApi { .. } => anyhow!(
            "{} is not ONNX Runtime: it has no OrtGetApiBase; type: segtrt setup, or name \
             libonnxruntime.so with --ort-lib",
            path.display()
        ),
        other => {
            anyhow!(
                "cannot open ONNX Runtime: {other}; type: segtrt setup, or name libonnxruntime.so \
                 with --ort-lib"
            )
        }
    }
}

/// Looks for ONNX Runtime: `--ort-lib`, `ORT_DYLIB_PATH`, the executable's folder, then virtual
/// environments (`VIRTUAL_ENV`, and `.venv` in the working directory or in a folder above it or
/// above the executable), in the folders `lib` of [`host::share`], where `segtrt setup` puts it,
/// and in the system's folders. One that the walk up came upon is taken only where
/// [`trusted::check`] finds nobody else's hand in it.
pub fn find_library(explicit: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = explicit {
        return named(path, "--ort-lib");
    }
    if let Some(path) = std::env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty()) {
        return named(Path::new(&path), "ORT_DYLIB_PATH");
    }
    first(search_dirs())
}

/// The first library in any of the folders.
fn first(dirs: Vec<(PathBuf, Option<PathBuf>)>) -> Result<PathBuf> {
    let mut searched = Vec::new();
    for (dir, walked) in dirs {
        searched.push(dir.display().to_string());
        let Some(found) = library_in(&dir) else { continue };
        match walked.map_or(Ok(()), |environment| trusted::check(&found, &environment)) {
            Ok(()) => return Ok(found),
            Err(why) => searched.push(format!("{} (left out: {why})", found.display())),
        }
    }
    bail!(
        "ONNX Runtime is not here: searched {}; type: segtrt setup, or name libonnxruntime.so with --ort-lib",
        searched.join(", ")
    )
}

fn named(path: &Path, by: &str) -> Result<PathBuf> {
    if path.is_dir() {
        return library_in(path).ok_or_else(|| {
            anyhow!("{} ({by}) holds no libonnxruntime.so; name the library itself", path.display())
        });
    }
    if !path.is_file() {
        bail!(
            "{} ({by}) does not exist; expected ONNX Runtime's library, such as \
             .venv/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1",
            path.display()
        );
    }
    Ok(path.to_owned())
}

/// Folders that may have the library, with the `.venv` that the walk up came upon; none where the
/// user names the place.
fn search_dirs() -> Vec<(PathBuf, Option<PathBuf>)> {
    let mut dirs = Vec::new();
    let exe = std::env::current_exe().ok();
    dirs.extend(exe.as_deref().and_then(Path::parent).map(|dir| (dir.to_owned(), None)));
    let active = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let mut venvs: Vec<(PathBuf, bool)> = active.map(|venv| (venv, false)).into_iter().collect();
    let here = std::env::current_dir().ok();
    let sources = share::of_sources();
    for start in [here.as_deref(), exe.as_deref(), sources.as_deref()].into_iter().flatten() {
        let above = start.ancestors().map(|dir| dir.join(".venv")).filter(|venv| venv.is_dir());
        venvs.extend(above.map(|venv| (venv, true)));
    }
    for (venv, walked) in venvs {
        let Ok(pythons) = std::fs::read_dir(venv.join("lib")) else { continue };
        let folders = pythons.flatten().map(|p| p.path().join("site-packages/onnxruntime/capi"));
        dirs.extend(folders.map(|folder| (folder, walked.then(|| venv.clone()))));
    }
    let installed = share::folders().into_iter().map(|folder| folder.join("lib"));
    let system = SYSTEM.iter().map(PathBuf::from);
    dirs.extend(installed.chain(system).filter(|dir| dir.is_dir()).map(|dir| (dir, None)));
    dirs
}

/// The library in `dir`, whatever version its name carries.
fn library_in(dir: &Path) -> Option<PathBuf> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libonnxruntime.so") || name == "libonnxruntime.dylib"
        })
        .collect();
    names.sort();
    names.pop()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_environment_that_everybody_may_write_to_is_passed_over_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = |name: &str, mode: u32| {
            let venv = dir.path().join(name);
            let capi = venv.join("capi");
            std::fs::create_dir_all(&capi).unwrap();
            std::fs::write(capi.join("libonnxruntime.so.1"), "").unwrap();
            std::fs::set_permissions(&venv, std::fs::Permissions::from_mode(mode)).unwrap();
            (capi, venv)
        };
        let ((theirs, open), (ours, own)) = (folder("open", 0o777), folder("own", 0o755));
        let walked = || vec![(theirs.clone(), Some(open.clone()))];
        let error = first(walked()).unwrap_err().to_string();
        let left_out = format!("left out: everybody may write to {}", open.display());
        assert!(error.contains(&left_out), "{error}");
        let next = [walked(), vec![(ours.clone(), Some(own))]].concat();
        assert_eq!(first(next).unwrap(), ours.join("libonnxruntime.so.1"));
        // What is named is the user's own choice.
        assert!(first(vec![(theirs, None)]).unwrap().starts_with(&open));
    }
}
