/*!
The parent: runs one child a plan, and stops it when the user asks.
*/

use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use super::job::{BuildJob, Built, Event, FailureKind};
use crate::child;

/// A plan that was not built, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotBuilt {
    /// What the program makes of it.
    pub kind: FailureKind,
    /// Why.
    pub reason: String,
}

/// Runs children one after another. Ctrl-C and SIGTERM end the one at hand.
pub struct Supervisor {
    stopped: Arc<AtomicBool>,
    child: Arc<Mutex<Option<Child>>>,
}

impl Supervisor {
    /// Takes over Ctrl-C; one a process.
    pub fn new() -> Result<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        let child: Arc<Mutex<Option<Child>>> = Arc::default();
        let (flag, place) = (stopped.clone(), child.clone());
        ctrlc::set_handler(move || {
            flag.store(true, Ordering::Relaxed);
            if let Some(child) = lock(&place).as_mut() {
                // It may be gone already.
                let _ = child.kill();
            }
        })
        .context("cannot take over Ctrl-C")?;
        Ok(Self { stopped, child })
    }

    /// The user asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Builds one plan; `progress(done, total, doing)` hears how far it is.
    pub fn build(
        &self,
        job: &BuildJob,
        progress: impl FnMut(u64, u64, &str),
    ) -> Result<Built, NotBuilt> {
        if self.is_stopped() {
            return Err(stopped());
        }
        let outcome = self.one_child(job, progress);
        *lock(&self.child) = None;
        let outcome = outcome.unwrap_or_else(|error| {
            Err(NotBuilt { kind: FailureKind::Other, reason: format!("{error:#}") })
        });
        if outcome.is_err() {
            // What a killed child had written; nothing where it had not come so far.
            let _ = std::fs::remove_file(&job.partial);
            if self.is_stopped() {
                return Err(stopped());
            }
        }
        outcome
    }

    fn one_child(
        &self,
        job: &BuildJob,
        mut progress: impl FnMut(u64, u64, &str),
    ) -> Result<Result<Built, NotBuilt>> {
        // The input is held open until the child is done: it takes a closed one for the end of this process.
        let (mut worker, _input) = child::start("build-worker", job)?;
        let events = child::events::<Event>(&mut worker)?;
        *lock(&self.child) = Some(worker);
        let mut last = None;
        for event in events {
            match event? {
                Event::Progress { done, total, doing } => progress(done, total, &doing),
                Event::Built(built) => last = Some(Ok(*built)),
                Event::Failed { kind, reason } => last = Some(Err(NotBuilt { kind, reason })),
            }
        }
        let worker = lock(&self.child).take();
        let status = worker.context("the building process is lost")?.wait()?;
        Ok(last.filter(|_| status.success()).unwrap_or_else(|| {
            Err(NotBuilt { kind: FailureKind::Died, reason: child::describe(status) })
        }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stopped() -> NotBuilt {
    NotBuilt { kind: FailureKind::Stopped, reason: "stopped by the user".to_owned() }
}
