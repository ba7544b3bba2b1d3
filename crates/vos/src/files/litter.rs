/*!
Removes incomplete files of a killed run. The caller holds the folder's journal, so no other run
writes there.
*/

use std::path::Path;

use super::{LOGITS, MASKS};
use crate::overlay;

/// Removes incomplete files and overlays of a run folder. Files that cannot be removed are ignored.
pub(super) fn remove(directory: &Path) {
    for folder in [directory, &directory.join(MASKS), &directory.join(LOGITS)] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            let removed = match entry.file_type() {
                Ok(kind) if kind.is_file() && is_unfinished(&name) => std::fs::remove_file(&path),
                Ok(kind) if kind.is_dir() && name.starts_with(overlay::UNFINISHED) => {
                    std::fs::remove_dir_all(&path)
                }
                _ => continue,
            };
            if let Err(error) = removed {
                log::debug!("{} is left of a killed run: {error}", path.display());
            }
        }
    }
}

/// Names of incomplete files, as in [`super::atomic`].
fn is_unfinished(name: &str) -> bool {
    name.starts_with(".segtrt-") && name.ends_with(".tmp")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::atomic;

    #[test]
    fn half_written_files_and_overlays_go_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in [".overlay_x/frames", "masks", ".segtrt-overlays"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        for name in [".overlay_x/frames/00000.png", "masks/.segtrt-1.tmp", ".segtrt-2.tmp"] {
            std::fs::write(at(name), "").unwrap();
        }
        let kept = ["masks/a__obj0__m.json", "notes.tmp", ".segtrt-overlays/a__obj0__m.mp4"];
        kept.iter().for_each(|name| std::fs::write(at(name), "").unwrap());
        remove(dir.path());
        for gone in [".overlay_x", "masks/.segtrt-1.tmp", ".segtrt-2.tmp"] {
            assert!(!at(gone).exists(), "{gone}");
        }
        assert!(kept.iter().all(|name| at(name).exists()));
    }

    /// The test uses the real names.
    #[test]
    fn a_file_that_is_being_written_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let written = atomic::write(&dir.path().join("rows.csv"), |_| {
            remove(dir.path());
            Ok(())
        });
        assert!(written.is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
