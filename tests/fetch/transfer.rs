//! One file: interruption, resume, hashes, faults of server and disk.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use segtrt::download::{Check, Got, Patience, Source, get, sha256};

use super::has_curl;
use super::server::{Answer, Server};

static GO_ON: AtomicBool = AtomicBool::new(false);

const PATIENCE: Patience<'static> =
    Patience { stall: Duration::from_secs(1), pause: Duration::from_millis(10), stop: &GO_ON };

/// A file that is long enough for several buffers, and not periodic.
fn content() -> Vec<u8> {
    (0_u32..600_000).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn check(content: &[u8]) -> Check {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    Check::Sha256(sha256(file.path()).unwrap())
}

/// A file at a server, and the folder that it goes to.
struct Case {
    dir: tempfile::TempDir,
    server: Server,
    source: Source,
}

impl Case {
    fn new(answers: &[Answer]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(answers);
        let source = Source {
            url: format!("{}/weights.pt", server.url),
            to: dir.path().join("deep/weights.pt"),
            bytes: Some(content().len() as u64),
            check: check(&content()),
            offline: "type: segtrt fetch x --checkpoint weights.pt".to_owned(),
        };
        Self { dir, server, source }
    }

    fn unknown_size(mut self) -> Self {
        self.source.bytes = None;
        self
    }

    /// With a part of an earlier call.
    fn with_part(self, part: &[u8]) -> Self {
        std::fs::create_dir_all(self.folder()).unwrap();
        std::fs::write(self.part(), part).unwrap();
        self
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("deep")
    }

    fn part(&self) -> PathBuf {
        self.folder().join("weights.pt.part")
    }

    fn get(&self) -> anyhow::Result<Got> {
        get(&self.source, PATIENCE)
    }

    fn error(&self) -> String {
        let error = format!("{:#}", self.get().unwrap_err());
        assert!(!self.source.to.exists(), "{error}");
        error
    }

    /// The file is there, with its record, and nothing else.
    fn is_complete(&self) {
        assert_eq!(std::fs::read(&self.source.to).unwrap(), content());
        let entries = std::fs::read_dir(self.folder()).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["weights.pt", "weights.pt.sha256"]);
        let record = std::fs::read_to_string(self.folder().join("weights.pt.sha256")).unwrap();
        assert_eq!(record, format!("{}  weights.pt\n", sha256(&self.source.to).unwrap()));
    }
}

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn a_file_is_fetched_once() {
    if !has_curl() {
        return;
    }
    for unknown in [false, true] {
        let case = Case::new(&[Answer::Ranges(content())]);
        let case = if unknown { case.unknown_size() } else { case };
        assert_eq!(case.get().unwrap(), Got::Fetched);
        case.is_complete();
        assert_eq!(case.get().unwrap(), Got::There);
        assert_eq!(case.server.starts(), [None]);
    }
}

#[test]
fn a_broken_connection_is_taken_up_where_it_broke() {
    if !has_curl() {
        return;
    }
    let case = Case::new(&[Answer::Cut(content(), 200_000), Answer::Ranges(content())]);
    assert_eq!(case.get().unwrap(), Got::Fetched);
    case.is_complete();
    assert_eq!(case.server.starts(), [None, Some(200_000)]);
}

#[test]
fn a_later_call_goes_on_from_the_part() {
    if !has_curl() {
        return;
    }
    let case = Case::new(&[Answer::Ranges(content())]).with_part(&content()[..123_456]);
    assert_eq!(case.get().unwrap(), Got::Fetched);
    case.is_complete();
    assert_eq!(case.server.starts(), [Some(123_456)]);
}

#[test]
fn a_part_that_is_all_of_the_file_needs_no_bytes() {
    if !has_curl() {
        return;
    }
    let case = Case::new(&[Answer::Ranges(content())]).with_part(&content());
    assert_eq!(case.get().unwrap(), Got::Fetched);
    case.is_complete();
    assert_eq!(case.server.starts(), []);
    // Without a known size the server says that there is no more.
    let case = Case::new(&[Answer::Ranges(content())]).unknown_size().with_part(&content());
    assert_eq!(case.get().unwrap(), Got::Fetched);
    case.is_complete();
    assert_eq!(case.server.starts(), [Some(content().len())]);
}

#[test]
fn a_server_without_ranges_sends_all_of_it() {
    if !has_curl() {
        return;
    }
    let case = Case::new(&[Answer::Whole(content())]).with_part(&content()[..100_000]);
    assert_eq!(case.get().unwrap(), Got::Fetched);
    case.is_complete();
}

#[test]
fn a_part_of_another_file_is_fetched_anew() {
    if !has_curl() {
        return;
    }
    let case = Case::new(&[Answer::Ranges(content())]).with_part(&[7; 100_000]);
    assert_eq!(case.get().unwrap(), Got::Fetched);
    case.is_complete();
    assert_eq!(case.server.starts(), [Some(100_000), None]);
    // Longer than the file: nothing of it can be right.
    let case = Case::new(&[Answer::Ranges(content())]).with_part(&[7; 700_000]);
    assert_eq!(case.get().unwrap(), Got::Fetched);
    case.is_complete();
}

#[test]
fn a_wrong_hash_never_gets_the_files_name() {
    if !has_curl() {
        return;
    }
    let mut other = content();
    other[300_000] ^= 1;
    let case = Case::new(&[Answer::Ranges(other.clone())]);
    let error = case.error();
    let kept = case.folder().join("weights.pt.rejected");
    contains(&error, &["is not the published file", "expected", &kept.display().to_string()]);
    assert_eq!(std::fs::read(kept).unwrap(), other);
    assert!(!case.part().exists());

    let page = b"<!DOCTYPE html><title>Please log in</title>".to_vec();
    let case = Case::new(&[Answer::Whole(page)]).unknown_size();
    contains(&case.error(), &["it is an HTML page: a proxy or a login page"]);
}

#[test]
fn another_file_of_that_name_is_kept() {
    if !has_curl() {
        return;
    }
    let case = Case::new(&[Answer::Ranges(content())]);
    std::fs::create_dir_all(case.folder()).unwrap();
    std::fs::write(&case.source.to, "fine-tuned by hand").unwrap();
    assert_eq!(case.get().unwrap(), Got::Fetched);
    let kept = case.folder().join("weights.pt.other");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "fine-tuned by hand");
    std::fs::remove_file(kept).unwrap();
    case.is_complete();
}

#[test]
fn a_missing_file_is_asked_for_once() {
    if !has_curl() {
        return;
    }
    let case = Case::new(&[Answer::Status(404)]);
    let error = case.error();
    contains(&error, &["no such file (status 404)", "--mirror URL", "--checkpoint weights.pt"]);
    assert_eq!(case.server.starts(), [None]);
}

#[test]
fn a_server_that_is_busy_is_asked_again_but_not_for_ever() {
    if !has_curl() {
        return;
    }
    let case = Case::new(&[Answer::Status(503), Answer::Ranges(content())]);
    assert_eq!(case.get().unwrap(), Got::Fetched);
    case.is_complete();
    let case = Case::new(&[Answer::Status(503)]);
    contains(&case.error(), &["status 503"]);
    assert_eq!(case.server.starts().len(), 4);
}

#[test]
fn a_stalled_transfer_is_taken_up_again() {
    if !has_curl() {
        return;
    }
    let case = Case::new(&[Answer::Stall(content(), 50_000), Answer::Ranges(content())]);
    assert_eq!(case.get().unwrap(), Got::Fetched);
    case.is_complete();
    assert_eq!(case.server.starts(), [None, Some(50_000)]);
}

#[test]
fn a_redirect_is_followed_and_a_circle_is_not() {
    if !has_curl() {
        return;
    }
    let there = Server::start(&[Answer::Ranges(content())]);
    let case = Case::new(&[Answer::Redirect(format!("{}/other/place", there.url))])
        .with_part(&content()[..1000]);
    assert_eq!(case.get().unwrap(), Got::Fetched);
    case.is_complete();
    assert_eq!(there.starts(), [Some(1000)]);
    let case = Case::new(&[Answer::Redirect("/weights.pt".to_owned())]);
    contains(&case.error(), &["the address cannot be used"]);
    // No file of this machine by way of a redirect.
    let case = Case::new(&[Answer::Redirect("file:///etc/passwd".to_owned())]);
    contains(&case.error(), &["the address cannot be used"]);
}

#[test]
fn a_server_that_cannot_be_reached_is_explained() {
    if !has_curl() {
        return;
    }
    let mut case = Case::new(&[Answer::Status(404)]);
    // Nobody listens on a port that was just given back.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    case.source.url = format!("http://{free}/weights.pt");
    let error = case.error();
    contains(&error, &["cannot be reached", "without a network", "HTTPS_PROXY", "--checkpoint"]);
}

#[test]
fn more_bytes_than_the_file_has_are_not_written() {
    if !has_curl() {
        return;
    }
    let longer = [content(), vec![0; 5_000_000]].concat();
    let case = Case::new(&[Answer::Endless(longer)]);
    contains(&case.error(), &["more than the expected 600000 bytes came"]);
    assert!(case.part().metadata().unwrap().len() <= content().len() as u64);
}

#[test]
fn a_stopped_transfer_keeps_its_part() {
    if !has_curl() {
        return;
    }
    let case = Case::new(&[Answer::Stall(content(), 300_000), Answer::Ranges(content())]);
    let stop = AtomicBool::new(true);
    assert_eq!(get(&case.source, Patience { stop: &stop, ..PATIENCE }).unwrap(), Got::Stopped);
    let kept = case.part().metadata().unwrap().len();
    assert!(kept > 0 && kept <= 300_000, "{kept}");
    assert_eq!(case.get().unwrap(), Got::Fetched);
    case.is_complete();
    assert_eq!(case.server.starts()[1], Some(kept as usize));
}

#[test]
fn two_processes_do_not_write_one_file() {
    let case = Case::new(&[Answer::Ranges(content())]).with_part(b"");
    let other = std::fs::File::options().append(true).open(case.part()).unwrap();
    other.try_lock().unwrap();
    contains(&case.error(), &["another process fetches"]);
    drop(other);
}

/// A file system of 256 KiB at a folder, in a namespace of its own where that is allowed.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(at);
        let mounted = mount.output().is_ok_and(|ran| ran.status.success());
        if !mounted {
            eprintln!("SKIPPED: no file system can be mounted here, so that no disk is full");
        }
        mounted.then_some(Self(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // A busy one goes when it is free.
        let _ = std::process::Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_of_and_the_part_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    if !has_curl() {
        return;
    }
    let Some(_disk) = SmallDisk::mount(dir.path()) else { return };
    let mut case = Case::new(&[Answer::Ranges(content())]);
    case.source.to = dir.path().join("weights.pt");
    // Known from the answer's head, with and without the published size, and not known at all.
    contains(&case.error(), &["more are needed in", "are free", "SEGTRT_SHARE=DIR"]);
    assert_eq!(case.server.starts(), [None]);
    let case = case.unknown_size();
    contains(&case.error(), &["more are needed in", "are free"]);
    assert_eq!(case.server.starts(), [None, None]);
    let mut case = Case::new(&[Answer::Endless(content())]).unknown_size();
    case.source.to = dir.path().join("weights.pt");
    let error = case.error();
    contains(&error, &["the disk is full", "make room", "are kept in"]);
}
