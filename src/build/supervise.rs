/*!
The parent: runs one child a plan, and stops all that run when the user asks.
*/

use std::collections::BTreeMap;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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

/// The children at work, by number.
type Children = BTreeMap<u64, Child>;

/// Runs children, several at a time where several threads ask. Ctrl-C and SIGTERM end those at hand.
pub struct Supervisor {
    stopped: Arc<AtomicBool>,
    children: Arc<Mutex<Children>>,
    begun: AtomicU64,
}

impl Supervisor {
    /// Takes over Ctrl-C; one a process.
    pub fn new() -> Result<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        let children: Arc<Mutex<Children>> = Arc::default();
        let (flag, all) = (stopped.clone(), children.clone());
        ctrlc::set_handler(move || {
            flag.store(true, Ordering::Relaxed);
            for child in lock(&all).values_mut() {
                // It may be gone already.
                let _ = child.kill();
            }
        })
        .context("cannot take over Ctrl-C")?;
        Ok(Self { stopped, children, begun: AtomicU64::new(0) })
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
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let outcome = self.one_child(number, job, progress);
        lock(&self.children).remove(&number);
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
        number: u64,
        job: &BuildJob,
        mut progress: impl FnMut(u64, u64, &str),
    ) -> Result<Result<Built, NotBuilt>> {
        // The input is held open until the child is done: it takes a closed one for the end of this process.
        let (mut worker, _input) = child::start("build-worker", job)?;
        let events = child::events::<Event>(&mut worker)?;
        lock(&self.children).insert(number, worker);
        if self.is_stopped() {
            // Asked for between the look at the flag and the child's entry in the list.
            lock(&self.children).get_mut(&number).map(Child::kill);
        }
        let mut last = None;
        for event in events {
            match event? {
                Event::Progress { done, total, doing } => progress(done, total, &doing),
                Event::Built(built) => last = Some(Ok(*built)),
                Event::Failed { kind, reason } => last = Some(Err(NotBuilt { kind, reason })),
            }
        }
        let worker = lock(&self.children).remove(&number);
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
