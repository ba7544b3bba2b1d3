/*!
A child that stays for one plan after another, seen from the parent, and whether it has become too
large to stay.
*/

use std::path::Path;
use std::process::ChildStdin;

use anyhow::Result;

use super::builder_process::NotBuilt;
use super::job::{BuildJob, Built, Event, FailureKind, Place};
use super::supervise::Supervisor;
use host::meminfo::MemInfo;
use host::{child, process_memory};

/// A child may keep this part of what the machine has to spare, at most.
const SHARE: f64 = 0.5;

/// One child. Dropped, it is ended at once: whatever it finished is on the disk.
pub struct KeptChild<'a> {
    supervisor: &'a Supervisor,
    number: u64,
    process: u32,
    input: ChildStdin,
    events: Box<dyn Iterator<Item = Result<Event>>>,
    /// What it has open.
    pub place: Place,
    /// Jobs that it has done or failed at.
    pub done: usize,
}

impl<'a> KeptChild<'a> {
    /// Starts one, which begins with the job at once; [`KeptChild::answer`] hears of it.
    pub fn start(supervisor: &'a Supervisor, job: &BuildJob) -> Result<Self> {
        // The input is held open as long as the child is wanted: it takes a closed one for the end
        // of this process.
        let (mut worker, input) = child::start("build-worker", job)?;
        let events = Box::new(child::events::<Event>(&mut worker)?);
        let process = worker.id();
        let number = supervisor.add(worker);
        Ok(Self { supervisor, number, process, input, events, place: job.place(), done: 0 })
    }

    /// Hands it another job of its place.
    pub fn give(&mut self, job: &BuildJob) -> Result<()> {
        child::give(&mut self.input, job)
    }

    /// Waits for the end of the job at hand.
    pub fn answer(
        &mut self,
        progress: impl FnMut(u64, u64, &str),
    ) -> Result<Result<Built, NotBuilt>> {
        if let Some(answer) = heard(&mut self.events, progress)? {
            self.done += 1;
            return Ok(answer);
        }
        let reason = match self.supervisor.remove(self.number) {
            Some(mut worker) => child::describe(worker.wait()?),
            None => "the building process is lost".to_owned(),
        };
        Ok(Err(NotBuilt { kind: FailureKind::Died, reason }))
    }

    /// Why it is too large to stay, if it is; between two jobs.
    pub fn outgrown(&self) -> Option<String> {
        let rss = process_memory::rss_mib_of(self.process);
        let memory = MemInfo::read(Path::new("/")).total_and_available_kib();
        let available = memory.map(|(_, available)| available / 1024.0);
        let process = self.process;
        if let (Some(rss), Some(available)) = (rss, available) {
            log::debug!(
                "building process {process} keeps {rss:.0} MiB; {available:.0} MiB are to spare"
            );
        }
        outgrown(rss, available)
    }
}

impl Drop for KeptChild<'_> {
    fn drop(&mut self) {
        let Some(mut worker) = self.supervisor.remove(self.number) else { return };
        // Waited for, so that its memory, the GPU's too, is free for whatever comes next. It may be
        // gone already.
        let _ = worker.kill().and_then(|()| worker.wait());
    }
}

/// What a child says of its job, up to the end of that; none where the child ended before it
/// answered.
fn heard(
    events: impl Iterator<Item = Result<Event>>,
    mut progress: impl FnMut(u64, u64, &str),
) -> Result<Option<Result<Built, NotBuilt>>> {
    let mut answer = None;
    for event in events {
        match event? {
            Event::Progress { done, total, doing } => progress(done, total, &doing),
            Event::Built(built) => answer = Some(Ok(*built)),
            Event::Failed { kind, reason } => answer = Some(Err(NotBuilt { kind, reason })),
            Event::Idle => return Ok(Some(answer.unwrap_or_else(|| Err(unreadable())))),
        }
    }
    Ok(answer)
}

fn unreadable() -> NotBuilt {
    let reason =
        "the building process's answer cannot be read; what it printed is in the warnings above";
    NotBuilt { kind: FailureKind::Other, reason: reason.to_owned() }
}

/// A process may keep at most half of the memory that the machine has left. A process whose memory
/// cannot be read builds only one plan.
fn outgrown(rss_mib: Option<f64>, available_mib: Option<f64>) -> Option<String> {
    let (Some(rss), Some(available)) = (rss_mib, available_mib) else {
        return Some("its memory cannot be seen".to_owned());
    };
    (rss > available * SHARE).then(|| {
        format!(
            "it keeps {rss:.0} MiB, more than half of the {available:.0} MiB that the machine \
                 has to spare"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else the parent waits for an answer that has come and gone, and the child for its next job.
    #[test]
    fn an_answer_that_a_library_printed_into_is_a_failure_and_no_wait() {
        let failed =
            |reason: &str| Event::Failed { kind: FailureKind::Graph, reason: reason.into() };
        let progress = || Event::Progress { done: 1, total: 2, doing: String::new() };
        let mut events =
            [progress(), Event::Idle, failed("second"), Event::Idle, failed("third")].into_iter();
        let mut next = || heard(events.by_ref().map(Ok), |_, _, _| {}).unwrap();
        let lost = next().unwrap().unwrap_err();
        assert_eq!(lost.kind, FailureKind::Other);
        assert!(!lost.kind.leaves_the_process_sound() && lost.reason.contains("cannot be read"));
        assert_eq!(next().unwrap().unwrap_err().reason, "second");
        // It died after its answer, which counts.
        assert_eq!(next().unwrap().unwrap_err().reason, "third");
        assert!(next().is_none());
    }

    #[test]
    fn half_of_what_is_left_may_be_kept() {
        assert_eq!(outgrown(Some(2900.0), Some(5900.0)), None);
        let why = outgrown(Some(2900.0), Some(5700.0)).unwrap();
        assert!(why.contains("2900 MiB") && why.contains("5700 MiB"), "{why}");
        assert!(outgrown(None, Some(1e6)).is_some() && outgrown(Some(1.0), None).is_some());
    }
}
