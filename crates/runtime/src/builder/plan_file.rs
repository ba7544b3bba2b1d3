/*!
A plan on its way to disk: written beside its place under a name of its own, and renamed when it is
whole.

The name holds the writing process, so that what a killed one left is known to be litter.
*/

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use sha2::{Digest, Sha256};

const SUFFIX: &str = ".partial";

/// The name under which process `owner` writes the plan `file`.
pub fn partial_path(dir: &Path, file: &str, owner: u32) -> PathBuf {
    dir.join(format!("{file}.{owner}{SUFFIX}"))
}

/// Writes a whole plan to `path`, syncs it and returns its SHA-256. No file remains after an error.
///
/// # Errors
/// [`io::ErrorKind::StorageFull`] and others, with the size that was needed.
pub fn write(path: &Path, plan: &[u8]) -> io::Result<String> {
    let written = File::create(path).and_then(|file| write_to(file, plan));
    if written.is_err() {
        // The error at hand is the one to tell.
        let _ = std::fs::remove_file(path);
    }
    written.map(|()| format!("{:x}", Sha256::digest(plan)))
}

fn write_to(mut file: File, plan: &[u8]) -> io::Result<()> {
    file.write_all(plan)?;
    file.sync_all()
}

/// The sentence for a plan that could not be written.
pub fn write_error(path: &Path, bytes: usize, error: &io::Error) -> anyhow::Error {
    let mib = bytes.div_ceil(1 << 20);
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            anyhow!("{} is on a full disk: the plan takes {mib} MiB ({error})", path.display())
        }
        _ => anyhow!("cannot write the plan of {mib} MiB to {}: {error}", path.display()),
    }
}

/// Gives a finished plan its name.
pub fn install(partial: &Path, place: &Path) -> Result<()> {
    std::fs::rename(partial, place)
        .with_context(|| format!("cannot rename {} to {}", partial.display(), place.display()))
}

/// Removes what processes that are gone left in an engine folder.
pub fn remove_litter(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_suffix(SUFFIX).and_then(|rest| rest.rsplit('.').next());
        let Some(owner) = owner.and_then(|owner| owner.parse::<u32>().ok()) else { continue };
        if !Path::new("/proc").join(owner.to_string()).exists() {
            log::info!("removing {}, which an interrupted build left", entry.path().display());
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_appears_whole_under_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let partial = partial_path(dir.path(), "track.plan", 1);
        let hash = write(&partial, b"plan").unwrap();
        assert_eq!(hash, format!("{:x}", Sha256::digest(b"plan")));
        let place = dir.path().join("track.plan");
        install(&partial, &place).unwrap();
        assert_eq!(std::fs::read(&place).unwrap(), b"plan");
        assert!(!partial.exists());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_said_with_the_size_and_leaves_nothing() {
        let error = write_to(File::options().write(true).open("/dev/full").unwrap(), b"plan");
        let text = write_error(Path::new("e/track.plan"), 3 << 20, &error.unwrap_err()).to_string();
        assert!(text.contains("full disk") && text.contains("3 MiB"), "{text}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn litter_of_dead_processes_goes_and_that_of_living_ones_stays() {
        let dir = tempfile::tempdir().unwrap();
        // Above the greatest process id that Linux gives out.
        let dead = partial_path(dir.path(), "track.plan", 1 << 30);
        let living = partial_path(dir.path(), "track.plan", std::process::id());
        let plan = dir.path().join("track.plan");
        for path in [&dead, &living, &plan] {
            std::fs::write(path, "x").unwrap();
        }
        remove_litter(dir.path());
        assert!(!dead.exists() && living.exists() && plan.exists());
    }
}
