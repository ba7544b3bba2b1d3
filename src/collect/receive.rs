/*!
A tar stream into files: only what was asked for, each whole and with the right checksum, or not at
all.
*/

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use tar::{Archive, EntryType};

use super::ssh::{TooMuch, skip_noise};

/// Name of a file that is not whole yet, in the folder that it belongs to; there is one at a time.
pub(super) const PART: &str = ".segtrt-part";

/// Bytes of headers that a tar may have whatever is in it.
const MOST_HEADERS: u64 = 1 << 20;

/// Bytes that each file may add to them: headers, a long name, what fills up a block.
const HEADERS_OF_A_FILE: u64 = 1 << 14;

/// Bytes that may follow a tar's end.
const MOST_PADDING: u64 = 1 << 20;

/// The other machine sent something of its own choice.
#[derive(Debug, thiserror::Error)]
#[error("received {0:?}, which was not asked for; the transfer is stopped")]
pub(super) struct NotAsked(String);

/// Files still to come, with their checksums where those are known.
pub(super) type Wanted = BTreeMap<String, Option<String>>;

/// What came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    pub files: u64,
    pub bytes: u64,
    /// Sentences about files that came but could not be taken.
    pub problems: Vec<String>,
}

/// Unpacks `stream` into `folder` and takes what came out of `wanted`.
///
/// # Errors
/// A stream that is cut off, damaged, or that holds what was not asked for; what came before it is
/// kept.
pub(super) fn unpack(
    stream: impl Read,
    folder: &Path,
    wanted: &mut Wanted,
    received: &mut Received,
) -> Result<()> {
    let mut stream = io::BufReader::with_capacity(1 << 18, stream);
    skip_noise(&mut stream)?;
    let left = Cell::new(MOST_HEADERS + HEADERS_OF_A_FILE * wanted.len() as u64);
    let state = Rc::new(State { left, in_file: Cell::new(false) });
    let mut archive = Archive::new(Limited { inner: stream, state: Rc::clone(&state) });
    let part = folder.join(PART);
    let result = (|| {
        for entry in archive.entries().context("no tar archive received")? {
            let mut entry = entry.context("the tar is cut off or damaged")?;
            let kind = entry.header().entry_type();
            if kind == EntryType::XGlobalHeader {
                continue;
            }
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let name = path.strip_prefix("./").unwrap_or(&path).to_owned();
            let Some(sha256) = wanted.get(&name).cloned() else {
                bail!(NotAsked(path));
            };
            if !matches!(kind, EntryType::Regular | EntryType::Continuous) {
                wanted.remove(&name);
                received.problems.push(format!("{name} was sent as {kind:?} and not as a file"));
                continue;
            }
            let modified = entry.header().mtime().unwrap_or(0);
            state.in_file.set(true);
            let (found, bytes) = write_part(&part, &mut entry)
                .with_context(|| format!("{name} did not arrive whole"))?;
            state.in_file.set(false);
            wanted.remove(&name);
            if sha256.as_ref().is_some_and(|sha256| *sha256 != found) {
                received.problems.push(format!(
                    "{name} has another sha256 than listed: it is being written there; run again later"
                ));
                continue;
            }
            let written = keep(&part, &folder.join(&name), modified);
            written.with_context(|| format!("cannot write {}", folder.join(&name).display()))?;
            received.files += 1;
            received.bytes += bytes;
        }
        Ok(())
    })();
    if result.is_ok() {
        // tar fills its last block up; whoever hangs up on it makes it fail.
        let mut rest = archive.into_inner().inner.take(MOST_PADDING);
        io::copy(&mut rest, &mut io::sink()).context("the tar archive does not end")?;
    }
    // Most often there is none any more.
    let _ = fs::remove_file(&part);
    if result.is_err() && state.left.get() == 0 && !state.in_file.get() {
        bail!(TooMuch("endless names and headers received instead of files"));
    }
    result
}

/// Copies an entry into the part file; gives its sha256 and length.
fn write_part(part: &Path, entry: &mut tar::Entry<'_, impl Read>) -> Result<(String, u64)> {
    let expected = entry.header().size()?;
    let mut file = File::create(part)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let read = entry.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        file.write_all(&buffer[..read])?;
        bytes += read as u64;
    }
    if bytes != expected {
        bail!("received {bytes} of {expected} bytes");
    }
    Ok((format!("{:x}", hasher.finalize()), bytes))
}

/// Gives the part its name and its age.
fn keep(part: &Path, path: &Path, modified: u64) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    // A time outside a clock's range is ignored: the other machine is not trusted.
    if let Some(time) = UNIX_EPOCH.checked_add(Duration::from_secs(modified)) {
        let kept = File::options().write(true).open(part)?.set_modified(time);
        if let Err(error) = kept {
            log::info!("{}: its age is not kept: {error}", path.display());
        }
    }
    fs::rename(part, path)
}

/// A stream with a limited number of bytes besides the files' contents. The archive takes names and
/// headers of any length that the stream claims to have into memory, and goes over headers without
/// end.
struct Limited<R> {
    inner: R,
    state: Rc<State>,
}

/// What [`Limited`] may still give.
struct State {
    /// Bytes outside files.
    left: Cell<u64>,
    /// A file's own bytes are read.
    in_file: Cell<bool>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.state.in_file.get() {
            return self.inner.read(buffer);
        }
        let left = self.state.left.get();
        if left == 0 {
            return Err(io::Error::other("too many headers"));
        }
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.inner.read(&mut buffer[..most])?;
        self.state.left.set(left - read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::script::MARKER;

    #[test]
    fn a_time_that_no_clock_shows_costs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (part, path) = (dir.path().join("part"), dir.path().join("sub/whole"));
        fs::write(&part, "rows").unwrap();
        keep(&part, &path, u64::MAX).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"rows");
    }
    use tar::{Builder, Header};

    fn entry(builder: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, content: &[u8]) {
        let mut header = Header::new_gnu();
        // By hand: the crate refuses to write the names that are to be refused here.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(1_700_000_000);
        if kind == EntryType::Symlink {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }

    fn stream(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        entries.iter().for_each(|(name, kind, content)| entry(&mut builder, name, *kind, content));
        [format!("motd{MARKER}").into_bytes(), builder.into_inner().unwrap()].concat()
    }

    fn wanted(files: &[(&str, &[u8])]) -> Wanted {
        let sum = |content: &[u8]| Some(format!("{:x}", Sha256::digest(content)));
        files.iter().map(|(name, content)| ((*name).to_owned(), sum(content))).collect()
    }

    struct Run {
        outer: tempfile::TempDir,
        left: Wanted,
        received: Received,
        result: Result<()>,
    }

    fn run(bytes: &[u8], mut left: Wanted) -> Run {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("in");
        fs::create_dir(&folder).unwrap();
        let mut received = Received::default();
        let result = unpack(bytes, &folder, &mut left, &mut received);
        assert!(!folder.join(PART).exists());
        Run { outer, left, received, result }
    }

    const FILE: EntryType = EntryType::Regular;

    #[test]
    fn whole_files_with_the_right_sum_arrive_with_their_age() {
        let run = run(
            &stream(&[("./a", FILE, b"one"), ("./d/b", FILE, b"")]),
            wanted(&[("a", b"one"), ("d/b", b"")]),
        );
        run.result.unwrap();
        assert_eq!((run.received.files, run.received.bytes, run.left.len()), (2, 3, 0));
        let a = run.outer.path().join("in/a");
        assert_eq!(fs::read(&a).unwrap(), b"one");
        let age = fs::metadata(&a).unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        assert_eq!(age.as_secs(), 1_700_000_000);
        assert!(run.outer.path().join("in/d/b").exists());
    }

    #[test]
    fn what_was_not_asked_for_stops_everything() {
        for name in ["./../evil", "../evil", "/tmp/evil", "./c"] {
            let run = run(
                &stream(&[("./a", FILE, b"one"), (name, FILE, b"x"), ("./b", FILE, b"two")]),
                wanted(&[("a", b"one"), ("b", b"two")]),
            );
            let error = format!("{:#}", run.result.unwrap_err());
            assert!(error.contains("not asked for"), "{error}");
            assert_eq!((run.received.files, run.left.len()), (1, 1));
            assert!(!run.outer.path().join("evil").exists());
        }
    }

    #[test]
    fn links_and_devices_never_become_anything_here() {
        for kind in [EntryType::Symlink, EntryType::Link, EntryType::Directory, EntryType::Fifo] {
            let run = run(&stream(&[("./a", kind, b"")]), wanted(&[("a", b"")]));
            run.result.unwrap();
            assert!(run.received.problems[0].contains("not as a file"), "{:?}", run.received);
            assert_eq!(fs::read_dir(run.outer.path().join("in")).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_wrong_sum_or_a_cut_stream_leaves_no_file() {
        let whole = stream(&[("./a", FILE, b"one"), ("./b", FILE, &[7; 2000])]);
        let run_ = run(&whole, wanted(&[("a", b"two"), ("b", &[7; 2000])]));
        run_.result.unwrap();
        assert!(run_.received.problems[0].contains("another sha256"));
        assert!(!run_.outer.path().join("in/a").exists());
        assert!(run_.outer.path().join("in/b").exists());

        let cut = run(&whole[..whole.len() - 2000], wanted(&[("a", b"one"), ("b", &[7; 2000])]));
        let error = format!("{:#}", cut.result.unwrap_err());
        assert!(error.contains("b did not arrive whole"), "{error}");
        assert!(!cut.outer.path().join("in/b").exists());
        assert_eq!(cut.left.keys().collect::<Vec<_>>(), ["b"]);

        let nothing = run(b"Permission denied\n", wanted(&[]));
        assert!(format!("{:#}", nothing.result.unwrap_err()).contains("before the answer began"));
    }
}
