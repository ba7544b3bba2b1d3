/*!
Records one report: a bench worker under nsys, and the messages of both.
*/

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};

use super::name::{ReportName, set_aside};
use super::nsys_messages::{NsysMessages, why_no_report};
use super::settings::Settings;
use crate::bench::lanes;
use crate::bench::messages::BenchEvent;
use crate::bench::plan::{BenchPlan, Job};
use host::child;
use report::nsys::Nsys;
use vos::record::{ObjectKey, RunRecord, Status};

/// The recorded pass: one object, or some that are tracked together, by one model, once.
#[derive(Clone, Debug)]
pub struct Target {
    /// Clip, object and model.
    pub key: ObjectKey,
    /// Further objects of the clip, tracked together with it.
    pub others: Vec<String>,
    /// Index of the model in the plan.
    pub model: usize,
    /// Number of the corresponding pass without a profiler.
    pub run: usize,
}

/// A written report.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The file.
    pub path: PathBuf,
    /// Its size, bytes.
    pub bytes: u64,
    /// The pass's row, distorted by the profiler: for comparison, and for its stages.
    pub pass: RunRecord,
}

/// Records reports of one bench.
#[derive(Debug)]
pub struct Recorder {
    nsys: Nsys,
    arguments: Vec<String>,
    plan: BenchPlan,
    program: PathBuf,
}

impl Recorder {
    /// Settings for a bench. Targets are recorded one at a time, each with its warm-up and one
    /// pass; only reports are written.
    ///
    /// # Errors
    /// This program's file cannot be found.
    pub fn new(nsys: Nsys, settings: &Settings, plan: &BenchPlan) -> Result<Self> {
        let mut plan = plan.clone();
        plan.profile_runs = 1;
        (plan.save_masks, plan.save_overlays, plan.save_logits) = (false, false, false);
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        Ok(Self { arguments: settings.arguments_for(&nsys), nsys, plan, program })
    }

    /// Records one report.
    ///
    /// nsys or the program under it failed, or there is no report ([`super::NoReports`] if there
    /// can be none). A report of a failed pass is renamed to `….failed.nsys-rep`.
    pub fn record(&self, target: &Target, name: &ReportName) -> Result<Recorded> {
        name.clear()?;
        let started = SystemTime::now();
        let (pass, messages) = self.run(target, name)?;
        let pass = pass.map_err(|error| {
            let report = name.find_since(started);
            match report.as_deref().map(set_aside) {
                Some(Ok(aside)) => error.context(format!(
                    "the report is not of a successful run and is kept as {}",
                    aside.display()
                )),
                Some(Err(aside)) => {
                    error.context(format!("{aside:#}; the report is not of a successful run"))
                }
                None => error,
            }
        })?;
        let Some(path) = name.find_since(started) else {
            let words = name.words();
            // If the file cannot be written, the error still has the main messages.
            let words = messages.keep(&words).is_ok().then_some(words);
            let left = name.recording_since(started);
            return Err(why_no_report(
                &self.nsys,
                &messages,
                &name.pattern(),
                left,
                words.as_deref(),
            ));
        };
        let bytes = std::fs::metadata(&path)?.len();
        Ok(Recorded { path, bytes, pass })
    }

    /// The pass and nsys's messages.
    fn run(&self, target: &Target, name: &ReportName) -> Result<(Result<RunRecord>, NsysMessages)> {
        let ObjectKey { video, object, .. } = &target.key;
        let objects: Vec<String> = std::iter::once(object).chain(&target.others).cloned().collect();
        let mut plan = self.plan.clone();
        if let Some(gpu) = &mut plan.gpu {
            gpu.objects_together = objects.len();
        }
        let job = Job { plan, plan_index: target.model, todo: vec![(video.clone(), objects)] };
        // A file instead of a pipe, because the profiler decides when the worker starts.
        let mut input = tempfile::tempfile().context("cannot keep the worker's job")?;
        serde_json::to_writer(&mut input, &job)?;
        input.write_all(b"\n")?;
        input.rewind()?;
        let mut errors = tempfile::tempfile().context("cannot keep nsys's messages")?;
        let mut output = OsString::from("--output=");
        output.push(name.pattern());
        let mut command = Command::new(&self.nsys.path);
        command.arg("profile").args(&self.arguments).arg(output);
        command.arg(&self.program).arg("bench-worker");
        command.envs(lanes::environment(&job.plan).iter().copied());
        log::debug!("{command:?}");
        let mut running = child::as_worker(&mut command)
            .stdin(Stdio::from(input))
            .stdout(Stdio::piped())
            .stderr(Stdio::from(errors.try_clone()?))
            .spawn()
            .with_context(|| format!("cannot run {}", self.nsys.path.display()))?;
        let stdout = running.stdout.take().context("nsys has no output")?;
        let (reported, printed) = listen(BufReader::new(stdout));
        let status = running.wait().context("cannot wait for nsys")?;
        let messages = NsysMessages { errors: lines(&mut errors), printed };
        let version = &self.nsys.version;
        let pass = match reported {
            Err(error) => Err(error),
            Ok(Reported::Pass(pass)) if status.success() => sound(*pass),
            Ok(Reported::Failed(reason)) => Err(anyhow!("the profiled program failed: {reason}")),
            Ok(Reported::Pass(_)) => Err(anyhow!(
                "nsys {version} ended with {status} after the pass; its messages: {messages}"
            )),
            Ok(Reported::Nothing) if status.success() => Err(anyhow!(
                "the profiled program ended without a result, but nsys {version} reported \
                 success; its messages: {messages}"
            )),
            Ok(Reported::Nothing) => Err(anyhow!(
                "nsys {version} ended with {status}, the profiled program without a result; its \
                 messages: {messages}"
            )),
        };
        Ok((pass, messages))
    }
}

/// Fails for a row without numbers.
fn sound(pass: RunRecord) -> Result<RunRecord> {
    match pass.status {
        Status::Ok => Ok(pass),
        status => bail!(
            "the profiled pass is {}: {}",
            status.as_str(),
            pass.reason.as_deref().unwrap_or("no reason given")
        ),
    }
}

/// The worker's report.
enum Reported {
    /// It finished its one pass.
    Pass(Box<RunRecord>),
    /// It failed for this reason.
    Failed(String),
    /// Neither a result nor a reason.
    Nothing,
}

/// The lines of a file that are not empty.
fn lines(file: &mut File) -> Vec<String> {
    let mut bytes = Vec::new();
    if let Err(error) = file.rewind().and_then(|()| file.read_to_end(&mut bytes)) {
        return vec![format!("its messages cannot be read: {error}")];
    }
    let text = String::from_utf8_lossy(&bytes);
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Reads the worker's events to the end, and returns the other lines, which are nsys's in the same
/// stream.
fn listen(output: impl BufRead) -> (Result<Reported>, Vec<String>) {
    let (mut reported, mut others) = (Reported::Nothing, Vec::new());
    for line in output.split(b'\n') {
        let line = match line.context("cannot read the worker's messages") {
            Ok(line) => String::from_utf8_lossy(&line).into_owned(),
            Err(error) => return (Err(error), Vec::new()),
        };
        match serde_json::from_str::<BenchEvent>(&line) {
            Ok(BenchEvent::Object { passes, .. }) => {
                if let Some((pass, _)) = passes.into_iter().next() {
                    reported = Reported::Pass(Box::new(pass));
                }
            }
            Ok(BenchEvent::Failed { reason }) => reported = Reported::Failed(reason),
            // The reason of the pass before it names a lost device.
            Ok(
                BenchEvent::Ready(_)
                | BenchEvent::Progress { .. }
                | BenchEvent::Memory(_)
                | BenchEvent::Lost { .. },
            ) => {}
            // nsys's progress bar returns to the beginning of its line.
            Err(_) => others.extend(line.rsplit('\r').next().map(str::trim).map(str::to_owned)),
        }
    }
    others.retain(|line| !line.is_empty());
    (Ok(reported), others)
}
