/*!
One step: a command of this program, its log, what came of it, how long it took.
*/

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;

use host::{child, program};
use vos::ffmpeg::tail;

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", content = "words", rename_all = "snake_case")]
pub enum Outcome {
    /// It did what it should; what that was.
    Passed(String),
    /// It did not; why.
    Failed(String),
    /// It cannot be done here; why.
    Skipped(String),
}

/// A step that is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Result {
    /// Its name.
    pub name: &'static str,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it took, seconds.
    pub seconds: f64,
    /// What it printed; none where nothing was run.
    pub log: Option<PathBuf>,
}

/// Runs steps, one after the other.
#[derive(Debug)]
pub struct Runner {
    logs: PathBuf,
    /// The steps that are over.
    pub results: Vec<Result>,
}

impl Runner {
    /// With logs in `<out>/logs`.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new(out: &Path) -> anyhow::Result<Self> {
        let logs = out.join("logs");
        std::fs::create_dir_all(&logs).with_context(|| {
            format!("cannot create {}; choose a writable --out", logs.display())
        })?;
        Ok(Self { logs, results: Vec::new() })
    }

    /// Runs this program with `arguments`, then looks at what it left. True where both are well.
    pub fn command(
        &mut self,
        name: &'static str,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
        look: impl FnOnce() -> anyhow::Result<String>,
    ) -> bool {
        let started = Instant::now();
        let log = self.logs.join(format!("{:02}_{name}.log", self.results.len() + 1));
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        let outcome = match self.run(&arguments, &log).and_then(|()| look()) {
            Ok(words) => Outcome::Passed(words),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        self.over(name, outcome, started, Some(log))
    }

    /// A step that needs no process.
    pub fn look(
        &mut self,
        name: &'static str,
        look: impl FnOnce() -> anyhow::Result<String>,
    ) -> bool {
        let started = Instant::now();
        let outcome = match look() {
            Ok(words) => Outcome::Passed(words),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        self.over(name, outcome, started, None)
    }

    /// A step that cannot be done here.
    pub fn skip(&mut self, name: &'static str, why: &str) {
        self.over(name, Outcome::Skipped(why.to_owned()), Instant::now(), None);
    }

    fn over(
        &mut self,
        name: &'static str,
        outcome: Outcome,
        started: Instant,
        log: Option<PathBuf>,
    ) -> bool {
        let seconds = started.elapsed().as_secs_f64();
        let (word, words) = match &outcome {
            Outcome::Passed(words) => ("ok", words),
            Outcome::Failed(words) => ("FAILED", words),
            Outcome::Skipped(words) => ("skipped", words),
        };
        eprintln!("{word:<8} {name:<9} {seconds:>6.1} s  {words}");
        let passed = matches!(outcome, Outcome::Passed(_));
        self.results.push(Result { name, outcome, seconds, log });
        passed
    }

    fn run(&self, arguments: &[OsString], log: &Path) -> anyhow::Result<()> {
        let mut file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = program::again()?;
        command.args(arguments).stdout(file.try_clone()?).stderr(file.try_clone()?);
        let status = child::run_step(&mut command).context("cannot start this program again")?;
        if !status.success() {
            let words: Vec<_> = arguments.iter().map(|part| part.to_string_lossy()).collect();
            anyhow::bail!(
                "segtrt {} ended with {status}: {}; all it printed is in {}",
                words.join(" "),
                tail(&mut file),
                log.display()
            );
        }
        Ok(())
    }
}
