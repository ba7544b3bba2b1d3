/*!
Writes whole files or none: readers and crashes never see an incomplete one.
*/

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Most links to follow before assuming a loop, as in the kernel.
const MOST_LINKS: usize = 40;

/// Replaces `path` by the output of `content`.
///
/// The bytes go to a temporary file in the same directory, are synced, and then get the name. A
/// symbolic link stays, and its target is replaced. A device, a pipe or an open descriptor
/// (`/dev/stdout`) cannot be replaced: the bytes are written to it. Errors name the file; after an
/// error the old content remains.
pub fn write(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<&mut File>) -> Result<()>,
) -> Result<()> {
    let written = match place(path) {
        Ok(Place::File(file)) => write_beside(&file, content),
        Ok(stream) => write_into(&stream, content),
        Err(error) => Err(error.into()),
    };
    written.with_context(|| {
        format!(
            "cannot write {}; check that its directory exists, is writable and has space left",
            path.display()
        )
    })
}

/// Whether `path` is this program's standard output, such as `/dev/stdout`; nothing else may be
/// printed then.
pub fn is_standard_output(path: &Path) -> bool {
    matches!(place(path), Ok(Place::Descriptor(1, _)))
}

/// Destination of the bytes of a path.
enum Place {
    /// A regular file, which may not exist yet.
    File(PathBuf),
    /// An open descriptor of this process.
    Descriptor(u32, PathBuf),
    /// A device, a pipe, a socket.
    Other(PathBuf),
}

/// Follows links to the destination.
fn place(path: &Path) -> io::Result<Place> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Some(number) = own_descriptor(&path) {
            return Ok(Place::Descriptor(number, path));
        }
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_symlink() => {
                let target = fs::read_link(&path)?;
                path = path.parent().unwrap_or(Path::new("")).join(target);
            }
            Ok(meta) if !meta.is_file() && !meta.is_dir() => return Ok(Place::Other(path)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // A folder too: the rename fails with a message.
            _ => return Ok(Place::File(path)),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Writes to a destination without replaceable content.
fn write_into(
    stream: &Place,
    content: impl FnOnce(&mut BufWriter<&mut File>) -> Result<()>,
) -> Result<()> {
    let mut file = match stream {
        // A duplicate continues at the stream's position; opening it again would start at the
        // beginning of a file.
        Place::Descriptor(1, _) => File::from(io::stdout().as_fd().try_clone_to_owned()?),
        Place::Descriptor(2, _) => File::from(io::stderr().as_fd().try_clone_to_owned()?),
        Place::Descriptor(_, path) => File::options().append(true).open(path)?,
        Place::Other(path) | Place::File(path) => File::options().write(true).open(path)?,
    };
    let mut out = BufWriter::new(&mut file);
    content(&mut out)?;
    Ok(out.flush()?)
}

/// The number in `/dev/fd/1` and `/proc/self/fd/1`.
fn own_descriptor(path: &Path) -> Option<u32> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let folder = path.parent()?.canonicalize().ok()?;
    (folder == Path::new("/proc/self/fd").canonicalize().ok()?).then_some(number)
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
    // Temporary files are private by default; results are readable for all, within the umask.
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

/// Makes the new name durable if the platform can sync directories.
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

    #[test]
    fn links_stay_and_what_they_point_to_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("kept")).unwrap();
        fs::write(at("kept/old.csv"), "old").unwrap();
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, at(name)).unwrap();
        link("kept/old.csv", "near");
        link("near", "far");
        link("kept/new.csv", "dangling");
        link("loop", "loop");
        for name in ["far", "dangling"] {
            write(&at(name), |out| Ok(out.write_all(b"new")?)).unwrap();
            assert!(fs::symlink_metadata(at(name)).unwrap().is_symlink(), "{name}");
        }
        assert_eq!(fs::read(at("kept/old.csv")).unwrap(), b"new");
        assert_eq!(fs::read(at("kept/new.csv")).unwrap(), b"new");
        let error = format!("{:#}", write(&at("loop"), |_| Ok(())).unwrap_err());
        assert!(error.contains("loop") && error.contains("symbolic links"), "{error}");
    }

    #[test]
    fn devices_and_pipes_are_written_into_and_stay() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || fs::read(pipe).unwrap())
        };
        write(&pipe, |out| Ok(out.write_all(b"rows")?)).unwrap();
        assert_eq!(reader.join().unwrap(), b"rows");
        assert!(!fs::metadata(&pipe).unwrap().is_file());
        // A link to the device, which a rename would replace; never the machine's device itself.
        let null = dir.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        write(&null, |out| Ok(out.write_all(b"rows")?)).unwrap();
        assert!(!fs::metadata(&null).unwrap().is_file());
        let full = dir.path().join("full");
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        let error = write(&full, |out| Ok(out.write_all(b"rows")?)).unwrap_err();
        assert!(format!("{error:#}").contains("cannot write"), "{error:#}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }
}
