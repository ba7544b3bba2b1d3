/*!
Lists the folders of all places, names each folder here, and fetches missing files. Machines run in
parallel; the folders of one machine run in order.
*/

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use jiff::{Timestamp, Unit};
use serde::Serialize;

use super::listing::{self, Folder, Listing};
use super::manifest::{Entry, Manifest};
use super::receive::{self, NotAsked, Received, Wanted};
use super::ssh::TooMuch;
use super::{Remote, Ssh, script};
use vos::files::sha256_of_file;

/// Where to, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder that the fetched ones come into.
    pub out: PathBuf,
    /// A folder for each machine between.
    pub by_host: bool,
    /// What connects.
    pub ssh: Ssh,
}

/// How a folder ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Everything that was listed is here and agrees.
    Complete,
    /// Everything is here; that machine has no program to compare checksums with.
    Unverified,
    /// Something is missing.
    Incomplete,
}

/// What became of one folder, or of a place that gave none.
#[derive(Clone, Debug, Serialize)]
pub struct Collected {
    /// `HOST:PATH`, with the path as it is there.
    pub from: String,
    /// The folder here; none where nothing was fetched.
    pub folder: Option<PathBuf>,
    /// How it ended.
    pub state: State,
    /// Files that were listed there.
    pub files: u64,
    /// Files that came now.
    pub fetched: u64,
    /// Files that were here already with the same checksum.
    pub reused: u64,
    /// Bytes of those that came.
    pub bytes: u64,
    /// Symbolic links and the like, which are left there.
    pub links: usize,
    /// What went wrong, in sentences.
    pub problems: Vec<String>,
}

/// A folder with its place here.
struct Task {
    remote: Remote,
    folder: Folder,
    name: String,
    here: PathBuf,
}

/// Fetches all places. What goes wrong with one does not touch the others.
///
/// # Errors
/// The output folder cannot be used at all.
pub fn collect(remotes: &[Remote], options: &Options) -> Result<Vec<Collected>> {
    std::fs::create_dir_all(&options.out).with_context(|| {
        format!("cannot create {}; choose a writable --out", options.out.display())
    })?;
    let mut manifest = Manifest::open(&options.out)?;
    let listings = side_by_side(
        remotes.iter().collect(),
        |remote: &&Remote| &remote.host,
        |remote| list(remote, options),
    );
    let mut done = Vec::new();
    let mut tasks = Vec::new();
    for (remote, listing) in remotes.iter().zip(listings) {
        match listing {
            Ok(listing) => {
                done.extend(listing.missing.iter().map(|path| {
                    let there = format!("{}:{path}", remote.host);
                    Collected::failed(there, absent(path))
                }));
                for folder in listing.folders {
                    match claim(remote, folder, options, &mut manifest, &tasks) {
                        Ok(task) => tasks.extend(task),
                        Err(failed) => done.push(*failed),
                    }
                }
            }
            Err(error) => done.push(Collected::failed(remote.to_string(), format!("{error:#}"))),
        }
    }
    let manifest = Mutex::new(manifest);
    let fetched = side_by_side(
        tasks,
        |task: &Task| &task.remote.host,
        |task| Ok(fetch(&task, options, &manifest)),
    );
    for collected in fetched {
        done.push(collected?);
    }
    Ok(done)
}

/// Runs `work` over the items, those of one host in order on one thread; results are in the order
/// of the items.
fn side_by_side<T: Send, R: Send>(
    items: Vec<T>,
    host: impl Fn(&T) -> &String,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let mut by_host: Vec<(String, Vec<(usize, T)>)> = Vec::new();
    let count = items.len();
    for (at, item) in items.into_iter().enumerate() {
        let name = host(&item).clone();
        match by_host.iter_mut().find(|(known, _)| *known == name) {
            Some((_, items)) => items.push((at, item)),
            None => by_host.push((name, vec![(at, item)])),
        }
    }
    let mut results: Vec<Option<Result<R>>> = (0..count).map(|_| None).collect();
    std::thread::scope(|scope| {
        let work = &work;
        let run = |items: Vec<(usize, T)>| {
            scope.spawn(move || {
                items.into_iter().map(|(at, item)| (at, work(item))).collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = by_host.into_iter().map(|(_, items)| run(items)).collect();
        for (at, result) in threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default())
        {
            results[at] = Some(result);
        }
    });
    let died = || Err(anyhow::anyhow!("the thread that fetched it died"));
    results.into_iter().map(|result| result.unwrap_or_else(died)).collect()
}

fn list(remote: &Remote, options: &Options) -> Result<Listing> {
    let mut connection = options.ssh.run(&remote.host, &script::listing(remote))?;
    let listing = listing::read(connection.output());
    match (listing, connection.finish()) {
        // The answer is cut off here, and the other side's complaint about that explains nothing.
        (Err(refused), _) if refused.is::<TooMuch>() => Err(refused),
        // A connection that failed explains an answer that is none.
        (listing, finished) => finished.and(listing),
    }
}

/// Gives a folder its name here; nothing for one that is listed twice.
fn claim(
    remote: &Remote,
    folder: Folder,
    options: &Options,
    manifest: &mut Manifest,
    tasks: &[Task],
) -> Result<Option<Task>, Box<Collected>> {
    let known = |task: &&Task| task.remote.host == remote.host && task.folder.path == folder.path;
    if tasks.iter().any(|task| known(&task)) {
        return Ok(None);
    }
    let there = Remote { host: remote.host.clone(), path: folder.path.clone() };
    let name = folder.name().map(|name| match options.by_host {
        true => format!("{}/{name}", folder_of(&remote.host)),
        false => name,
    });
    let named = name.and_then(|name| {
        let here = manifest.claim(&name, entry(&there, &folder, false))?;
        Ok((name, here))
    });
    match named {
        Ok((name, here)) => Ok(Some(Task { remote: there, folder, name, here })),
        Err(error) => Err(Box::new(Collected::failed(there.to_string(), format!("{error:#}")))),
    }
}

/// A machine's name as a folder's.
fn folder_of(host: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    let name: String = host.chars().map(|c| if safe(c) { c } else { '_' }).collect();
    if name.chars().all(|c| c == '.') { "_".to_owned() } else { name }
}

fn entry(there: &Remote, folder: &Folder, complete: bool) -> Entry {
    let now = Timestamp::now();
    Entry {
        host: there.host.clone(),
        path: there.path.clone(),
        collected: now.round(Unit::Second).unwrap_or(now).to_string(),
        complete,
        files: folder.files.len() as u64,
        verified: folder.files.iter().all(|file| file.sha256.is_some()),
    }
}

fn fetch(task: &Task, options: &Options, manifest: &Mutex<Manifest>) -> Collected {
    let Task { remote, folder, name, here } = task;
    let mut wanted: Wanted =
        folder.files.iter().map(|file| (file.name.clone(), file.sha256.clone())).collect();
    let mut problems: Vec<String> = folder
        .refused
        .iter()
        .map(|name| format!("{name:?} is no name that can be taken over"))
        .collect();
    if folder.incomplete {
        problems.push("something in it could not be read there".to_owned());
    }
    wanted.retain(|name, sha256| !is_here(&here.join(name), sha256.as_deref()));
    let reused = (folder.files.len() - wanted.len()) as u64;
    let mut received = Received::default();
    if !wanted.is_empty()
        && let Err(error) = stream(task, options, &mut wanted, &mut received)
    {
        problems.push(format!("{error:#}"));
    }
    problems.append(&mut received.problems);
    if let Some(first) = wanted.keys().next() {
        problems.push(format!("{} files did not come, such as {first}", wanted.len()));
    }
    let complete = problems.is_empty();
    let recorded = lock(manifest).record(name, entry(remote, folder, complete));
    if let Err(error) = recorded {
        problems.push(format!("{error:#}"));
    }
    let verified = folder.files.iter().all(|file| file.sha256.is_some());
    Collected {
        from: remote.to_string(),
        folder: Some(here.clone()),
        state: match (problems.is_empty(), verified) {
            (true, true) => State::Complete,
            (true, false) => State::Unverified,
            (false, _) => State::Incomplete,
        },
        files: folder.files.len() as u64,
        fetched: received.files,
        reused,
        bytes: received.bytes,
        links: folder.links,
        problems,
    }
}

fn stream(
    task: &Task,
    options: &Options,
    wanted: &mut Wanted,
    received: &mut Received,
) -> Result<()> {
    let names: Vec<String> = wanted.keys().cloned().collect();
    let script = script::packing(&task.remote.path, &names);
    let mut connection = options.ssh.run(&task.remote.host, &script)?;
    let unpacked = receive::unpack(connection.output(), &task.here, wanted, received);
    let finished = connection.finish();
    match (unpacked, finished) {
        // A stream that is refused is cut here, and the other side's complaint about that explains
        // nothing.
        (Err(refused), Err(_)) if refused.is::<NotAsked>() || refused.is::<TooMuch>() => {
            Err(refused)
        }
        (Err(broken), Err(why)) => Err(broken.context(format!("{why:#}"))),
        (unpacked, finished) => unpacked.and(finished),
    }
}

/// A whole file of that name and content is here.
fn is_here(path: &Path, sha256: Option<&str>) -> bool {
    let is_file = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    is_file && sha256.is_some_and(|sum| sha256_of_file(path).is_ok_and(|found| found.sha256 == sum))
}

fn lock(manifest: &Mutex<Manifest>) -> MutexGuard<'_, Manifest> {
    // It is whole between any two statements that hold the lock.
    manifest.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collected {
    fn failed(from: String, problem: String) -> Self {
        Self {
            from,
            folder: None,
            state: State::Incomplete,
            files: 0,
            fetched: 0,
            reused: 0,
            bytes: 0,
            links: 0,
            problems: vec![problem],
        }
    }
}

/// Why nothing came of a path.
fn absent(path: &str) -> String {
    match path.contains(['*', '?', '[']) {
        true => "no folder there matches this pattern".to_owned(),
        false => "no such folder, or not to be entered".to_owned(),
    }
}
