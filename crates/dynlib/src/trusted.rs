/*!
Whether a shared library that a search came upon may be opened: its code runs at once, with all
rights of the caller.

A search that walks up from the working directory passes folders of others, too: above a folder in
`/tmp` anybody can lay a `.venv`. What the user names (a flag, a variable, an activated environment)
is not checked.
*/

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Gid, Uid};

/// Everybody may write.
const BY_ALL: u32 = 0o002;
/// The group may write.
const BY_GROUP: u32 = 0o020;
/// Only owners rename and remove what is in the folder.
const STICKY: u32 = 0o1000;

/// Checks a library in an environment that a walk came upon, a `.venv`.
///
/// From the environment down to the library everything belongs to the caller or to root, and nobody
/// else may write there: not everybody, and no group but the caller's own and root's. Above it no
/// folder lets everybody replace what it holds.
///
/// # Errors
/// Why it must not be opened, as a phrase that names the folder or the file.
pub fn check(library: &Path, environment: &Path) -> Result<(), String> {
    let cannot = |error: std::io::Error| format!("{} cannot be read: {error}", library.display());
    // Somebody else's link may lead to a folder of the caller's.
    owner(environment, &environment.symlink_metadata().map_err(cannot)?)?;
    let environment = environment.canonicalize().map_err(cannot)?;
    let real = library.canonicalize().map_err(cannot)?;
    let folder = real.parent();
    for path in real.ancestors() {
        let meta = path.metadata().map_err(cannot)?;
        if path.starts_with(&environment) || path == real || Some(path) == folder {
            owner(path, &meta)?;
            writers(path, &meta)?;
        } else if meta.mode() & BY_ALL != 0 && meta.mode() & STICKY == 0 {
            return Err(format!("everybody may replace what is in {}", path.display()));
        }
    }
    Ok(())
}

fn owner(path: &Path, meta: &Metadata) -> Result<(), String> {
    match meta.uid() {
        0 => Ok(()),
        uid if uid == Uid::effective().as_raw() => Ok(()),
        uid => Err(format!("{} belongs to another user, number {uid}", path.display())),
    }
}

fn writers(path: &Path, meta: &Metadata) -> Result<(), String> {
    if meta.mode() & BY_ALL != 0 {
        return Err(format!("everybody may write to {}", path.display()));
    }
    let own_group = [0, Gid::effective().as_raw()].contains(&meta.gid());
    if meta.mode() & BY_GROUP != 0 && !own_group {
        return Err(format!("the group number {} may write to {}", meta.gid(), path.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    /// A folder with an environment and a library in it.
    fn environment() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let venv = dir.path().join("above/.venv");
        let packages = venv.join("lib/python3.11/site-packages/x");
        std::fs::create_dir_all(&packages).unwrap();
        let library = packages.join("libx.so");
        std::fs::write(&library, "").unwrap();
        for path in library.ancestors().take_while(|path| path != &dir.path()) {
            set(path, if path == library { 0o644 } else { 0o755 });
        }
        (dir, venv, library)
    }

    fn set(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_callers_own_library_is_opened() {
        let (dir, venv, library) = environment();
        check(&library, &venv).unwrap();
        // As in /tmp: others may add, and replace nothing.
        set(&dir.path().join("above"), 0o1777);
        check(&library, &venv).unwrap();
        let link = dir.path().join("link");
        symlink(&venv, &link).unwrap();
        check(&link.join("lib/python3.11/site-packages/x/libx.so"), &link).unwrap();
    }

    #[test]
    fn what_everybody_may_write_to_is_not() {
        let (dir, venv, library) = environment();
        for path in [library.as_path(), library.parent().unwrap(), &venv] {
            let usual = path.metadata().unwrap().mode();
            set(path, 0o1777);
            let error = check(&library, &venv).unwrap_err();
            assert!(error.contains(&format!("may write to {}", path.display())), "{error}");
            set(path, usual);
        }
        set(&dir.path().join("above"), 0o777);
        let error = check(&library, &venv).unwrap_err();
        assert!(error.contains("may replace what is in"), "{error}");
    }

    #[test]
    fn what_belongs_to_another_user_or_group_is_not() {
        if !Uid::effective().is_root() {
            eprintln!("SKIPPED: only root can give files away");
            return;
        }
        let (_dir, venv, library) = environment();
        for path in [library.as_path(), &venv] {
            chown(path, Some(65_534), None).unwrap();
            let error = check(&library, &venv).unwrap_err();
            assert!(error.contains(&format!("{} belongs to another", path.display())), "{error}");
            chown(path, Some(0), None).unwrap();
        }
        chown(&venv, None, Some(65_534)).unwrap();
        check(&library, &venv).unwrap();
        set(&venv, 0o775);
        let error = check(&library, &venv).unwrap_err();
        assert!(error.contains("the group number 65534 may write to"), "{error}");
    }
}
