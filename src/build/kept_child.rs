/*!
A child that stays for one plan after another, seen from the parent, and whether it has become too large to stay.
*/

use std::path::Path;
use std::process::ChildStdin;

use anyhow::Result;

use super::job::{BuildJob, Built, Event, FailureKind, Place};
use super::line::NotBuilt;
use super::supervise::Supervisor;
use crate::meminfo::MemInfo;
use crate::{child, process_memory};

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
        // The input is held open as long as the child is wanted: it takes a closed one for the end of this process.
        let (mut worker, input) = child::start("build-worker", job)?;
        let events = Box::new(child::events::<Event>(&mut worker)?);
        let process = worker.id();
        let number = supervisor.add(worker);
        Ok(Self { supervisor, number, process, input, events, place: job.place(), done: 0 })
    }

    /// Hands it another job of its place.
    pub fn give(&mut self, job: &BuildJob) {
        child::give(&mut self.input, job);
    }

    /// Waits for the end of the job at hand.
    pub fn answer(
        &mut self,
        mut progress: impl FnMut(u64, u64, &str),
    ) -> Result<Result<Built, NotBuilt>> {
        for event in self.events.by_ref() {
            let answer = match event? {
                Event::Progress { done, total, doing } => {
                    progress(done, total, &doing);
                    continue;
                }
                Event::Built(built) => Ok(*built),
                Event::Failed { kind, reason } => Err(NotBuilt { kind, reason }),
            };
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
        // Waited for, so that its memory, the GPU's too, is free for whatever comes next. It may be gone already.
        let _ = worker.kill().and_then(|()| worker.wait());
    }
}

/// The rule: a process may keep no more than half of what the machine has left beside it. One whose memory cannot be seen builds one
/// plan only.
fn outgrown(rss_mib: Option<f64>, available_mib: Option<f64>) -> Option<String> {
    let (Some(rss), Some(available)) = (rss_mib, available_mib) else {
        return Some("its memory cannot be seen".to_owned());
    };
    (rss > available * SHARE).then(|| {
        format!("it keeps {rss:.0} MiB, more than half of the {available:.0} MiB that the machine has to spare")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_left_may_be_kept() {
        assert_eq!(outgrown(Some(2900.0), Some(5900.0)), None);
        let why = outgrown(Some(2900.0), Some(5700.0)).unwrap();
        assert!(why.contains("2900 MiB") && why.contains("5700 MiB"), "{why}");
        assert!(outgrown(None, Some(1e6)).is_some() && outgrown(Some(1.0), None).is_some());
    }
}
