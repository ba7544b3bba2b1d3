/*!
Fetches one file: resumes, checks the hash, renames at the end.

Bytes go to `NAME.part` beside the target. A broken transfer is tried again from there, by this call
and by the next one. A file whose hash is wrong is kept as `NAME.rejected` and never gets the
target's name.
*/

mod answer;
mod check;
mod curl;
mod failure;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub use check::{Check, sha256};
pub use curl::text;
use failure::{Failure, Words};

/// Attempts without progress before a transfer is given up.
const ATTEMPTS: u32 = 4;
/// How often, and how long each time, a lock is waited for.
const LOCK_WAITS: u32 = 20;
const LOCK_WAIT: Duration = Duration::from_millis(25);
/// So many new bytes are progress.
const PROGRESS: u64 = 1 << 20;

/// A file to fetch.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its address.
    pub url: String,
    /// Where it goes.
    pub to: PathBuf,
    /// Its size in bytes, where the publisher names it.
    pub bytes: Option<u64>,
    /// Its hash.
    pub check: Check,
    /// The command that takes the file from a local path instead.
    pub offline: String,
}

/// How long to wait, and whether the user wants to stop.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// A transfer slower than 1 KiB/s for this long has stalled.
    pub stall: Duration,
    /// Pause before the second attempt; it doubles for each later one.
    pub pause: Duration,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
}

/// How it ended without an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// The file was there, and its hash is right.
    There,
    /// It was fetched, and its hash is right.
    Fetched,
    /// The user stopped it; the next call goes on from here.
    Stopped,
}

/// Fetches `source` unless the target is there.
///
/// # Errors
/// Network, disk or hash; the text says what to do.
pub fn get(source: &Source, patience: Patience<'_>) -> Result<Got> {
    if source.to.is_file() && keep_or_set_aside(source)? {
        return Ok(Got::There);
    }
    let dir = source.to.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot make the folder {}", dir.display()))?;
    let (part, mut file) = open_part(&source.to)?;
    let resumed = file.metadata()?.len();
    if transfer(source, &part, &mut file, patience)? == Ended::Stopped {
        return Ok(Got::Stopped);
    }
    if let Err(why) = source.check.verify(&part)? {
        // The publisher may have replaced the file after the first part came.
        if resumed == 0 {
            return reject(source, &part, &why);
        }
        eprintln!("{}: {why} after resuming; fetching it from the start", part.display());
        file.set_len(0)?;
        if transfer(source, &part, &mut file, patience)? == Ended::Stopped {
            return Ok(Got::Stopped);
        }
        if let Err(why) = source.check.verify(&part)? {
            return reject(source, &part, &why);
        }
    }
    file.sync_all().with_context(|| format!("cannot write {}", part.display()))?;
    std::fs::rename(&part, &source.to)
        .with_context(|| format!("cannot rename {} to {}", part.display(), source.to.display()))?;
    record(&source.to)?;
    Ok(Got::Fetched)
}

/// `NAME` with a suffix.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Whether the target is the published file; another file of that name is set aside.
fn keep_or_set_aside(source: &Source) -> Result<bool> {
    let Err(why) = source.check.verify(&source.to)? else { return Ok(true) };
    let aside = free_name(&source.to, ".other");
    std::fs::rename(&source.to, &aside)
        .with_context(|| format!("cannot rename {}", source.to.display()))?;
    eprintln!(
        "{} is not the published file ({why}); kept as {}",
        source.to.display(),
        aside.display()
    );
    Ok(false)
}

/// A name beside `path` that nothing has.
fn free_name(path: &Path, suffix: &str) -> PathBuf {
    let numbered = (2..).map(|number| beside(path, &format!("{suffix}.{number}")));
    let mut names = std::iter::once(beside(path, suffix)).chain(numbered);
    names.find(|name| !name.exists()).unwrap_or_else(|| beside(path, suffix))
}

/// The part, locked against a second process.
fn open_part(to: &Path) -> Result<(PathBuf, File)> {
    let part = beside(to, ".part");
    let file = OpenOptions::new().append(true).create(true).open(&part);
    let file = file.with_context(|| format!("cannot write {}", part.display()))?;
    let mut waits = 0;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            // A child that is being started holds its parent's files until it runs its program.
            Err(TryLockError::WouldBlock) if waits < LOCK_WAITS => {
                waits += 1;
                std::thread::sleep(LOCK_WAIT);
            }
            Err(TryLockError::WouldBlock) => {
                bail!("another process fetches {}; wait for it, or end it", to.display())
            }
            // A network file system without locks.
            Err(TryLockError::Error(error)) => {
                log::info!("{} is not locked: {error}", part.display());
                break;
            }
        }
    }
    Ok((part, file))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Complete,
    Stopped,
}

/// Brings the part to its full length.
fn transfer(
    source: &Source,
    part: &Path,
    file: &mut File,
    patience: Patience<'_>,
) -> Result<Ended> {
    let words = Words { source, part };
    let bar = bar(source);
    let (mut attempt, mut pause) = (1, patience.pause);
    loop {
        let had = file.metadata()?.len();
        if source.bytes.is_some_and(|bytes| had > bytes) {
            // More than the published file: nothing to go on from.
            file.set_len(0)?;
            continue;
        }
        if source.bytes == Some(had) {
            return Ok(Ended::Complete);
        }
        let failure = match attempt_from(source, part, file, had, patience, &bar) {
            Ok(()) => return Ok(Ended::Complete),
            Err(failure) => failure,
        };
        let has = file.metadata()?.len();
        if patience.stop.load(Ordering::Relaxed) {
            bar.finish_and_clear();
            eprintln!(
                "stopped after {} of {}; the same command goes on from there",
                indicatif::HumanBytes(has),
                source.url
            );
            return Ok(Ended::Stopped);
        }
        if has >= had + PROGRESS {
            (attempt, pause) = (1, patience.pause);
        }
        if !failure.passes() || attempt == ATTEMPTS {
            bar.finish_and_clear();
            return Err(words.error(&failure, has));
        }
        bar.suspend(|| {
            eprintln!("{}: {failure}; trying again in {} s", source.url, pause.as_secs_f32());
        });
        std::thread::sleep(pause);
        (attempt, pause) = (attempt + 1, pause * 2);
    }
}

/// One transfer, appended to the part.
fn attempt_from(
    source: &Source,
    part: &Path,
    file: &mut File,
    had: u64,
    patience: Patience<'_>,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let mut has = had;
    let mut transfer = curl::Transfer::start(&source.url, had, patience.stall)?;
    bar.set_position(had);
    if let Some(answer) = transfer.answer()?.filter(|answer| answer.is_file()) {
        if had > 0 && answer.start != Some(had) {
            file.set_len(0).map_err(Failure::of_disk)?;
            has = 0;
            // Without a start the server knows no ranges and sends all of it.
            if let Some(start) = answer.start.filter(|start| *start > 0) {
                return Err(Failure::Cut(format!("asked for byte {had}, byte {start} came")));
            }
        }
        if let Some(length) = answer.length {
            bar.set_length(has + length);
        }
        let rest = answer.length.or_else(|| Some(source.bytes?.saturating_sub(has)));
        Words { source, part }.room(rest.unwrap_or(0))?;
    }
    while let Some(bytes) = transfer.next()? {
        has += bytes.len() as u64;
        if let Some(most) = source.bytes.filter(|most| has > *most) {
            return Err(Failure::Longer(most));
        }
        file.write_all(bytes).map_err(Failure::of_disk)?;
        bar.set_position(has);
        if patience.stop.load(Ordering::Relaxed) {
            return Err(Failure::Cut("stopped".to_owned()));
        }
    }
    match transfer.end() {
        // Everything was there: a range behind the end of the file.
        Err(Failure::Status(416)) if had > 0 && source.bytes.is_none() => Ok(()),
        Ok(()) if source.bytes.is_some_and(|bytes| has < bytes) => {
            Err(Failure::Cut(format!("the answer ended after {has} bytes")))
        }
        ended => ended,
    }
}

/// A bar on a terminal, nothing elsewhere.
fn bar(source: &Source) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(source.bytes, ProgressDrawTarget::stderr());
    let style = match source.bytes {
        Some(_) => "{wide_bar:.cyan/blue} {bytes}/{total_bytes} {bytes_per_sec} ETA {eta}",
        None => "{spinner} {bytes} {bytes_per_sec}",
    };
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

/// Keeps a file with a wrong hash under a name that nothing reads.
fn reject(source: &Source, part: &Path, why: &str) -> Result<Got> {
    let kept = beside(&source.to, ".rejected");
    std::fs::rename(part, &kept).with_context(|| format!("cannot rename {}", part.display()))?;
    let page = match check::looks_like_a_page(&kept) {
        true => "; it is an HTML page: a proxy or a login page answered in place of the publisher",
        false => "",
    };
    bail!(
        "{} is not the published file: {why}{page}. It is kept as {}; try again, or take another \
         source with --mirror URL, or {}",
        source.url,
        kept.display(),
        source.offline
    )
}

/// Writes `NAME.sha256`, for `sha256sum -c`.
fn record(path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let to = beside(path, ".sha256");
    std::fs::write(&to, format!("{}  {name}\n", sha256(path)?))
        .with_context(|| format!("cannot write {}", to.display()))
}
