//! Every kind of file that a command reads, damaged in ways that a seeded generator comes upon: no
//! panic, no hang, no death by a signal, an exit code of 0, 1 or 2, and a message that names the
//! file.
//!
//! `SEGTRT_MUTANTS=10000` takes as many instead of the usual number, `SEGTRT_MUTANT_SEED` others,
//! `SEGTRT_MUTANT=17` that one alone. What fails is kept below target/mutants with the command that
//! reads it.
//!
//! Most mutants are read by the commands' own functions in a process that reads one after another
//! (this test program again); some by the program itself.

/// One process that reads mutants, one after another.
mod batch;
/// What is read, and by what.
mod cases;
/// The damage.
mod change;
/// Whole files to damage.
mod corpus;
/// How it is read without the program.
mod read;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use batch::{BATCH, Batch};

/// Mutants that `make test` reads.
const USUAL: u64 = 2000;
/// Processes at the same time.
const WORKERS: u64 = 2;
/// Address space of a process and of the programs that it starts, KiB.
const MEMORY: u64 = 6 << 20;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn damaged_files_are_refused_by_name() {
    let seed = number("SEGTRT_MUTANT_SEED").unwrap_or(1);
    let all = number("SEGTRT_MUTANTS").unwrap_or(USUAL);
    let dir = tempfile::tempdir().unwrap();
    let corpus = dir.path().join("corpus");
    corpus::make(&corpus);
    let failures: BTreeMap<u64, String> = std::thread::scope(|scope| {
        let lane = |first: u64| {
            let mut batch = Batch { seed, next: first, step: WORKERS, end: all };
            if let Some(only) = number("SEGTRT_MUTANT") {
                batch = Batch { seed, next: only, step: 1, end: only + u64::from(first == 0) };
            }
            let (corpus, own) = (corpus.as_path(), dir.path().join(format!("worker{first}")));
            scope.spawn(move || read_all(batch, corpus, &own))
        };
        let lanes: Vec<_> = (0..WORKERS).map(lane).collect();
        lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect()
    });
    let told: Vec<String> =
        failures.iter().map(|(n, what)| keep(&corpus, seed, *n, what)).collect();
    assert!(told.is_empty(), "{} of {all} mutants:\n{}", told.len(), told.join("\n"));
}

/// Reads all mutants of a batch, in a new process behind each that ended one.
fn read_all(mut batch: Batch, corpus: &Path, own: &Path) -> Vec<(u64, String)> {
    let mut failures = Vec::new();
    while batch.next < batch.end {
        std::fs::create_dir_all(own).unwrap();
        let log = own.join("log");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {MEMORY}; exec \"$@\""), "sh"]);
        command.arg(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "mutate::a_batch_of_mutants",
            "--nocapture",
            "--test-threads",
            "1",
        ]);
        command.env(BATCH, batch.to_string()).env("SEGTRT_MUTANT_CORPUS", corpus);
        command.env("SEGTRT_MUTANT_OWN", own.join("root"));
        // One file, in order: what a command prints names the file as well as what it complains of.
        let _ = std::fs::remove_file(&log);
        let out = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        let status = command.status().unwrap();
        let text = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
        let (found, unfinished) = batch::judge(&text);
        failures.extend(found);
        let Some(n) = unfinished else {
            assert!(status.success(), "the batch {batch} ended with {status}:\n{text}");
            break;
        };
        let how = match (status.signal(), status.code()) {
            (_, Some(batch::HUNG)) => format!("not read within {:?}", batch::PATIENCE),
            (Some(signal), _) => format!("the process died of signal {signal}"),
            _ => format!("the process ended with {status}"),
        };
        let last: String = text.lines().rev().take(5).collect::<Vec<_>>().join("\n");
        failures.push((n, format!("{how}; its last lines, backwards:\n{last}")));
        batch.next = n + batch.step;
    }
    failures
}

/// Keeps a mutant, and says how it is read again.
fn keep(corpus: &Path, seed: u64, n: u64, what: &str) -> String {
    let case = cases::of(n);
    let file = cases::find(corpus, case.file);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/mutants");
    std::fs::create_dir_all(&folder).unwrap();
    let kept: PathBuf =
        folder.join(format!("{seed}-{n}-{}", file.file_name().unwrap().to_string_lossy()));
    std::fs::write(&kept, cases::mutant(&std::fs::read(&file).unwrap(), seed, n)).unwrap();
    format!(
        "-- SEGTRT_MUTANT_SEED={seed} SEGTRT_MUTANT={n} ({}): kept as {}, in the place of {} of: \
         segtrt {}\n{what}",
        case.name,
        kept.display(),
        case.file,
        case.args.join(" ")
    )
}

/// One process of the test above; by itself it has nothing to do.
#[test]
fn a_batch_of_mutants() {
    if let Ok(batch) = std::env::var(BATCH) {
        let path = |name| PathBuf::from(std::env::var_os(name).expect("the parent sets it"));
        batch::run(
            batch.parse().unwrap(),
            &path("SEGTRT_MUTANT_CORPUS"),
            &path("SEGTRT_MUTANT_OWN"),
        );
    }
}
