//! One process that reads mutants one after another and writes what came of each to standard error.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::cases::{self, By, Case};
use super::read;
use crate::support::copy;

/// Names the batch to a process.
pub const BATCH: &str = "SEGTRT_MUTANT_BATCH";
/// How long one mutant may be read, on a machine that others load.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Exit code of a process whose mutant is not read within that time.
pub const HUNG: i32 = 97;
/// Exit code that stands for a panic.
const PANIC: i32 = 101;
/// One in so many mutants is read by the program itself where its case is usually read in this process.
const PROGRAM_EVERY: u64 = 40;

const BEGIN: &str = "@@begin ";
const END: &str = "@@end ";

/// Mutants `next`, `next + step`, … below `end`.
#[derive(Clone, Copy)]
pub struct Batch {
    pub seed: u64,
    pub next: u64,
    pub step: u64,
    pub end: u64,
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.seed, self.next, self.step, self.end)
    }
}

impl FromStr for Batch {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers: Vec<u64> = text.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [seed, next, step, end] = numbers[..] else { panic!("{text}") };
        Ok(Self { seed, next, step, end })
    }
}

/// Reads them all.
pub fn run(batch: Batch, corpus: &Path, root: &Path) {
    // As the program shows them: what is refused is said by warnings, too.
    let _ =
        env_logger::Builder::new().filter_level(log::LevelFilter::Warn).is_test(false).try_init();
    static BEGUN: Mutex<Option<Instant>> = Mutex::new(None);
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let begun = BEGUN.lock().unwrap();
            if begun.is_some_and(|begun| begun.elapsed() > PATIENCE) {
                std::process::exit(HUNG);
            }
        }
    });
    fresh(corpus, root);
    for n in (batch.next..batch.end).step_by(batch.step as usize) {
        let case = cases::of(n);
        let by_program = matches!(case.by, By::Program)
            || (n / cases::CASES.len() as u64 + n).is_multiple_of(PROGRAM_EVERY)
                && !case.args.is_empty();
        let file = cases::find(root, case.file);
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, cases::mutant(&whole, batch.seed, n)).unwrap();
        eprintln!("\n{BEGIN}{n} {}", if by_program { "program" } else { "here" });
        *BEGUN.lock().unwrap() = Some(Instant::now());
        let read = catch_unwind(AssertUnwindSafe(|| match by_program {
            true => program(case, root),
            false => here(case, root),
        }));
        let took = BEGUN.lock().unwrap().take().unwrap().elapsed();
        eprintln!("\n{END}{n} {} {}", read.unwrap_or(PANIC), took.as_millis());
        // What commands leave must not meet the next mutant.
        for left in ["out", "collected/x"] {
            let _ = std::fs::remove_dir_all(root.join(left));
        }
        match by_program {
            // It may have changed any of them.
            true => fresh(corpus, root),
            false => std::fs::write(&file, whole).unwrap(),
        }
    }
}

fn fresh(corpus: &Path, root: &Path) {
    let _ = std::fs::remove_dir_all(root);
    copy(corpus, root);
}

/// By the functions of the library; the exit code that the program would give.
fn here(case: &Case, root: &Path) -> i32 {
    match case.by {
        By::Call(call) => match call(root) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("Error: {error}");
                1
            }
        },
        By::Command => read::command(cases::words(case, root)),
        By::Program => unreachable!("it is read by the program"),
    }
}

fn program(case: &Case, root: &Path) -> i32 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_segtrt"));
    command.args(cases::words(case, root)).current_dir(env!("CARGO_MANIFEST_DIR"));
    // What a command says on standard output counts, too.
    let said = root.with_extension("said");
    let out = std::fs::File::create(&said).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(out).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE * 4 / 5;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                child.kill().unwrap();
                eprintln!("the program hangs");
                break child.wait().unwrap();
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    eprintln!("{}", String::from_utf8_lossy(&std::fs::read(&said).unwrap()));
    status.code().unwrap_or(-1)
}

/// What is wrong with the mutants of a log, and the mutant whose end is not in it.
pub fn judge(log: &str) -> (Vec<(u64, String)>, Option<u64>) {
    let mut failures = Vec::new();
    let (mut open, mut text) = (None, String::new());
    for line in log.lines() {
        if let Some(begun) = line.strip_prefix(BEGIN) {
            open = begun.split(' ').next().and_then(|n| n.parse::<u64>().ok());
            text.clear();
        } else if let (Some(n), Some(ended)) = (open, line.strip_prefix(END)) {
            let code = ended.split(' ').nth(1).and_then(|code| code.parse().ok());
            failures.extend(wrong(cases::of(n), code.unwrap_or(-1), &text).map(|why| (n, why)));
            open = None;
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    (failures, open)
}

fn wrong(case: &Case, code: i32, said: &str) -> Option<String> {
    let shown: String = said.chars().take(1500).collect();
    let name = |path: &&str| said.contains(path.rsplit('/').next().unwrap_or(path));
    match code {
        _ if said.contains("panicked at") => Some(format!("a panic: {shown}")),
        0 => None,
        1 | 2 if case.named.iter().any(name) => None,
        1 | 2 => Some(format!("none of {} is named: {shown}", case.named.join(", "))),
        code => Some(format!("exit code {code}: {shown}")),
    }
}
