/*!
The demo's network.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use host::share;

/// Its bundle in the sources and in each shared folder.
pub const DEMO: &str = "onnx/bundles/edgetam_mini_256_fp32";

/// Where the demo's bundle is. One that is only in the sources is copied to the user's folder,
/// because sources may be removed.
///
/// # Errors
/// It cannot be copied. `None`: it is nowhere.
pub fn install(user: &Path) -> Result<Option<PathBuf>> {
    let is_there = |folder: &PathBuf| folder.join(DEMO).join("manifest.toml").is_file();
    let installed = [Some(user.to_owned()), share::of_program()];
    if let Some(folder) = installed.into_iter().flatten().find(is_there) {
        return Ok(Some(folder.join(DEMO)));
    }
    let Some(sources) = share::of_sources().filter(is_there) else { return Ok(None) };
    copy(&sources.join(DEMO), &user.join(DEMO))?;
    Ok(Some(user.join(DEMO)))
}

/// Copies the files of a bundle; the folder appears when all are there.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let above = to.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(above)
        .with_context(|| format!("cannot make the folder {}", above.display()))?;
    let new = tempfile::Builder::new().prefix(".demo-").tempdir_in(above);
    let new = new.with_context(|| format!("cannot write into {}", above.display()))?;
    let cannot = || format!("cannot copy {} to {}", from.display(), to.display());
    for entry in std::fs::read_dir(from).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        std::fs::copy(entry.path(), new.path().join(entry.file_name())).with_context(cannot)?;
    }
    let new = new.keep();
    // Temporary folders are the user's alone; a bundle is not secret.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&new, open).with_context(cannot)?;
    std::fs::rename(&new, to).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_of_the_sources_is_copied_once() {
        let user = tempfile::tempdir().unwrap();
        let found = install(user.path()).unwrap().unwrap();
        assert_eq!(found, user.path().join(DEMO));
        vos::bundle::Bundle::open(&found).unwrap();
        std::fs::write(found.join("mine"), "").unwrap();
        install(user.path()).unwrap();
        assert!(found.join("mine").is_file(), "a second call leaves it alone");
    }
}
