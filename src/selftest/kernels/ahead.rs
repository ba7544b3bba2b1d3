/*!
Cases ahead of their turn: inputs and references of the next ones are made on all processors but one while the GPU has the case at hand, and each
case's rows are heard as soon as it is judged.

The GPU takes milliseconds for what float64 takes seconds for. One processor is left to the thread that launches and takes the time.
*/

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::mpsc;
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Bench, KernelReport, KernelRow};

/// Elements of the outputs of all cases that are held at once; more only where a single case has more. Inputs, references and what they are made from
/// take about 16 bytes for each.
const ROOM: usize = 1 << 26;

/// A case that is to be judged.
pub(super) struct Planned<C> {
    pub case: C,
    /// Elements of its output.
    elements: usize,
}

/// How far a topic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whose cases these are.
    pub topic: &'static str,
    /// Cases that are judged.
    pub done: usize,
    /// Cases that there are.
    pub cases: usize,
    /// No more of them come, though there may be fewer than were planned: what fails early fails once.
    pub ended: bool,
}

/// Who hears what the cases found, as they are judged: the report so far, whose last row is the newest, and how far the topic is.
pub type Hear<'h> = &'h mut dyn FnMut(&KernelReport, Step);

/// The report, and who hears it grow.
pub(super) struct Told<'h> {
    pub report: KernelReport,
    hear: Hear<'h>,
    step: Step,
}

impl<'h> Told<'h> {
    pub fn new(report: KernelReport, hear: Hear<'h>) -> Self {
        Self { report, hear, step: Step { topic: "", done: 0, cases: 0, ended: true } }
    }

    /// Cases of this topic come next.
    pub fn begin(&mut self, topic: &'static str) {
        self.step = Step { topic, done: 0, cases: 0, ended: false };
        (self.hear)(&self.report, self.step);
    }

    /// No more of them come.
    pub fn end(&mut self) {
        self.step.ended = true;
        (self.hear)(&self.report, self.step);
    }

    /// A row of the topic at hand.
    pub fn row(&mut self, row: KernelRow) {
        self.report.rows.push(row);
        self.step.done += 1;
        (self.hear)(&self.report, self.step);
    }
}

/// Threads that make inputs and references.
pub(super) fn processors() -> anyhow::Result<ThreadPool> {
    let all = thread::available_parallelism().map_or(1, usize::from);
    Ok(ThreadPoolBuilder::new().num_threads(all.saturating_sub(1).max(1)).build()?)
}

/// Makes what each case needs ahead of its turn, on `pool`, and lets the cases have their turns here, one after the other. Cases that are held together have
/// at most `room` elements, but for a single one.
fn ahead<C: Sync, D: Send>(
    pool: &ThreadPool,
    room: usize,
    cases: &[Planned<C>],
    make: impl Fn(&C) -> D + Sync,
    mut turn: impl FnMut(&C, D),
) {
    // Enough that no processor waits for the GPU to take a case.
    let most = 2 * pool.current_num_threads();
    let make = &make;
    pool.in_place_scope(|scope| {
        let (mut held, mut waiting) = (0, VecDeque::new());
        let mut next = cases.iter().peekable();
        loop {
            let fits = |held: usize, planned: &Planned<C>| held + planned.elements <= room;
            while let Some(planned) = next
                .next_if(|next| waiting.is_empty() || (waiting.len() < most && fits(held, next)))
            {
                let (give, take) = mpsc::sync_channel(1);
                // Nobody takes it where a turn has panicked.
                scope.spawn(move |_| _ = give.send(make(&planned.case)));
                held += planned.elements;
                waiting.push_back((planned, take));
            }
            let Some((planned, take)) = waiting.pop_front() else { break };
            // What panicked there panics here at the end of the scope.
            let Ok(made) = take.recv() else { break };
            turn(&planned.case, made);
            held -= planned.elements;
        }
    });
}

impl Bench<'_, '_> {
    /// Whether this many elements are too many; counts the `cases` that are then left out, or planned. To be asked before inputs and
    /// references are made, which take longer than the kernels.
    pub(super) fn leaves_out(&self, elements: usize, cases: usize) -> bool {
        let beyond = self.max_elements.is_some_and(|most| elements > most);
        let count = |counted: &Cell<usize>| counted.set(counted.get() + cases);
        if beyond {
            count(&self.left_out);
        } else {
            self.told.borrow_mut().step.cases += cases;
        }
        beyond
    }

    /// The cases that are not left out; `size` says the elements of a case's output, and how many rows it has.
    pub(super) fn planned<C>(
        &self,
        cases: impl IntoIterator<Item = C>,
        size: impl Fn(&C) -> (usize, usize),
    ) -> Vec<Planned<C>> {
        let planned = cases.into_iter().filter_map(|case| {
            let (elements, rows) = size(&case);
            (!self.leaves_out(elements, rows)).then_some(Planned { case, elements })
        });
        planned.collect()
    }

    /// Each case has its turn, with what was made for it ahead.
    pub(super) fn each<C: Sync, D: Send>(
        &self,
        cases: &[Planned<C>],
        make: impl Fn(&C) -> D + Sync,
        turn: impl FnMut(&C, D),
    ) {
        ahead(&self.processors, ROOM, cases, make, turn);
    }

    /// What a case found.
    pub(super) fn found(&self, row: KernelRow) {
        self.told.borrow_mut().row(row);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    fn planned(sizes: &[usize]) -> Vec<Planned<usize>> {
        sizes
            .iter()
            .enumerate()
            .map(|(case, elements)| Planned { case, elements: *elements })
            .collect()
    }

    fn pool(threads: usize) -> ThreadPool {
        ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
    }

    #[test]
    fn cases_are_made_by_several_threads_at_once_and_judged_in_their_order() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let make = |case: &usize| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // The later ones are done first.
            thread::sleep(Duration::from_millis(40 - 5 * *case as u64));
            now.fetch_sub(1, Ordering::SeqCst);
            10 * case
        };
        let mut judged = Vec::new();
        ahead(&pool(4), 100, &planned(&[1; 8]), make, |case, made| judged.push((*case, made)));
        assert_eq!(judged, (0..8).map(|case| (case, 10 * case)).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) > 1, "all were made one after the other");
    }

    #[test]
    fn what_is_held_at_once_has_room_or_is_a_single_case() {
        let (held, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let sizes = [3, 3, 50, 3, 3, 9, 1];
        let make = |case: &usize| {
            let now = held.fetch_add(sizes[*case], Ordering::SeqCst) + sizes[*case];
            most.fetch_max(now, Ordering::SeqCst);
        };
        let mut judged = 0;
        ahead(&pool(4), 10, &planned(&sizes), make, |case, ()| {
            held.fetch_sub(sizes[*case], Ordering::SeqCst);
            judged += 1;
        });
        assert_eq!((judged, most.load(Ordering::SeqCst)), (7, 50));
    }

    #[test]
    fn a_panic_while_a_case_is_made_is_no_hang() {
        let all = std::panic::catch_unwind(|| {
            let make = |case: &usize| assert!(*case < 1, "made to fail");
            ahead(&pool(2), 10, &planned(&[1; 3]), make, |_, ()| ());
        });
        assert!(all.is_err());
    }
}
