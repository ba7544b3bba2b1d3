/*!
The parent: knows all children at work, and stops them when the user asks.
*/

use std::collections::BTreeMap;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use super::builder_process::BuilderProcess;

/// The children at work, by number.
type Children = BTreeMap<u64, Child>;

/// Keeps the list of children, of several lines where several threads build. Ctrl-C and SIGTERM end
/// those at hand.
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

    /// A place for one build after another; each thread that builds has its own. Its child ends
    /// with it.
    pub fn line(&self) -> BuilderProcess<'_> {
        BuilderProcess::new(self)
    }

    /// Takes a child into the list; its number there.
    pub(super) fn add(&self, child: Child) -> u64 {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let mut children = lock(&self.children);
        let child = children.entry(number).or_insert(child);
        if self.is_stopped() {
            // Asked for before the child was in the list.
            let _ = child.kill();
        }
        number
    }

    /// Takes a child out of the list, to wait for its end.
    pub(super) fn remove(&self, number: u64) -> Option<Child> {
        lock(&self.children).remove(&number)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
