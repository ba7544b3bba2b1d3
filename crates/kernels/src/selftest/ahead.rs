/*!
Inputs and references computed ahead: those of the next cases on all processors but one, while the
GPU has the case at hand.

A case takes the GPU milliseconds and its float64 reference seconds. One processor is left to the
thread that launches and takes the time.
*/

use std::collections::VecDeque;
use std::sync::mpsc;
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Elements of the outputs of all cases that are held at once; more only where a single case has
/// more. Inputs, references and their intermediate values take about 16 bytes for each.
pub(super) const ROOM: usize = 1 << 26;

/// A case that is to be judged.
pub struct Planned<C> {
    /// The case.
    pub case: C,
    /// Elements of its output.
    pub(super) elements: usize,
}

/// Threads that draw inputs and compute references.
///
/// # Errors
/// The system starts no threads.
pub fn processors() -> anyhow::Result<ThreadPool> {
    let all = thread::available_parallelism().map_or(1, usize::from);
    Ok(ThreadPoolBuilder::new().num_threads(all.saturating_sub(1).max(1)).build()?)
}

/// Computes each case's data ahead on `pool`, and judges the cases here, one after the other. Cases
/// that are held together have at most `room` elements, except a single one.
pub(super) fn ahead<C: Sync, D: Send>(
    pool: &ThreadPool,
    room: usize,
    cases: &[Planned<C>],
    make: impl Fn(&C) -> D + Sync,
    mut judge: impl FnMut(&C, D),
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
                // Nobody takes it where a judge has panicked.
                scope.spawn(move |_| _ = give.send(make(&planned.case)));
                held += planned.elements;
                waiting.push_back((planned, take));
            }
            let Some((planned, take)) = waiting.pop_front() else { break };
            // What panicked there panics here at the end of the scope.
            let Ok(made) = take.recv() else { break };
            judge(&planned.case, made);
            held -= planned.elements;
        }
    });
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
