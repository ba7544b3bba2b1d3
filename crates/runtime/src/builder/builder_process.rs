/*!
One build after another, in one child as long as that is sound.

A child that failed in a way that may have spoilt it, or that has become too large, is ended, and
the next plan gets a fresh one. A plan that fails in a child that built others before is tried once
more in a fresh one, unless the failure is the plan's own: so no failure is told that is owed to an
earlier build.
*/

use anyhow::Result;

use super::job::{BuildJob, Built, FailureKind};
use super::kept_child::KeptChild;
use super::supervise::Supervisor;

/// A plan that was not built, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotBuilt {
    /// What the program makes of it.
    pub kind: FailureKind,
    /// Why.
    pub reason: String,
}

/// Builds on one thread; its child, if there is one, ends with it.
pub struct BuilderProcess<'a> {
    supervisor: &'a Supervisor,
    child: Option<KeptChild<'a>>,
}

impl<'a> BuilderProcess<'a> {
    pub(super) fn new(supervisor: &'a Supervisor) -> Self {
        Self { supervisor, child: None }
    }

    /// Builds one plan; `progress(done, total, doing)` hears how far it is.
    pub fn build(
        &mut self,
        job: &BuildJob,
        mut progress: impl FnMut(u64, u64, &str),
    ) -> Result<Built, NotBuilt> {
        let mut note = None;
        loop {
            if self.supervisor.is_stopped() {
                return Err(stopped());
            }
            self.child = self.child.take().filter(|child| child.place == job.place());
            let earlier = self.child.as_ref().map_or(0, |child| child.done);
            let outcome = self.attempt(job, &mut progress).unwrap_or_else(|error| {
                Err(NotBuilt { kind: FailureKind::Other, reason: format!("{error:#}") })
            });
            self.end_what_cannot_stay(outcome.as_ref().err());
            let not = match outcome {
                Ok(mut built) => {
                    built.notes.extend(note);
                    return Ok(built);
                }
                Err(not) => not,
            };
            // What a killed child had written; nothing where it had not come so far.
            let _ = std::fs::remove_file(&job.partial);
            if self.supervisor.is_stopped() {
                return Err(stopped());
            }
            if earlier == 0 || not.kind.is_of_the_job() {
                return Err(not);
            }
            self.child = None;
            log::info!("{}: {}; once more in a fresh process", job.what, not.reason);
            note = Some(format!(
                "built at the second try, in a fresh process; in the one that had worked on other plans: {}",
                not.reason
            ));
        }
    }

    fn attempt(
        &mut self,
        job: &BuildJob,
        progress: impl FnMut(u64, u64, &str),
    ) -> Result<Result<Built, NotBuilt>> {
        let child = match &mut self.child {
            Some(child) => {
                child.give(job)?;
                child
            }
            none => none.insert(KeptChild::start(self.supervisor, job)?),
        };
        child.answer(progress)
    }

    fn end_what_cannot_stay(&mut self, failure: Option<&NotBuilt>) {
        let Some(child) = &self.child else { return };
        let why = match failure {
            Some(not) if !not.kind.leaves_the_process_sound() => Some("it failed".to_owned()),
            _ => child.outgrown(),
        };
        if let Some(why) = why {
            log::debug!("a building process ends: {why}");
            self.child = None;
        }
    }
}

fn stopped() -> NotBuilt {
    NotBuilt { kind: FailureKind::Stopped, reason: "stopped by the user".to_owned() }
}
