/*!
Whole files appear at once or not at all: a reader, or a crash, never meets half of one.
*/

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

/// Replaces `path` by what `content` writes.
///
/// The bytes go to a temporary file in the same directory, reach the disk, and then take the name.
/// Errors name the file; on error the old content stays.
pub fn write(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<&mut File>) -> Result<()>,
) -> Result<()> {
    write_beside(path, content).with_context(|| {
        format!(
            "cannot write {}; check that its directory exists, is writable and has space left",
            path.display()
        )
    })
}

fn write_beside(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<&mut File>) -> Result<()>,
) -> Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".segtrt-").suffix(".tmp");
    // Temporary files are private by default; results are for everybody, as far as the umask allows.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(directory)?;
    let mut out = BufWriter::new(file.as_file_mut());
    content(&mut out)?;
    out.flush()?;
    drop(out);
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_directory(directory);
    Ok(())
}

/// Makes the new name durable where the platform lets directories be synced.
pub(super) fn sync_directory(directory: &Path) {
    if let Err(error) = File::open(directory).and_then(|handle| handle.sync_all()) {
        log::debug!("cannot sync directory {}: {error}", directory.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_content_and_no_litter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.csv");
        write(&path, |out| Ok(out.write_all(b"old")?)).unwrap();
        let error = write(&path, |out| {
            out.write_all(b"half of the n")?;
            anyhow::bail!("interrupted")
        });
        assert!(format!("{:#}", error.unwrap_err()).contains("rows.csv"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = write(&dir.path().join("no/such.csv"), |_| Ok(())).unwrap_err();
        assert!(format!("{error:#}").contains("no/such.csv; check that its directory exists"));
    }
}
