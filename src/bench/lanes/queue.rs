/*!
The queue that all lanes take passes from.

The recorded passes come in order, the first pass of every object before any second one. When they
are all given out, lanes go on with passes that are not recorded, until the last recorded one has
ended: so that the card is full as long as anything is measured, however many clips there are and
however long.
*/

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A pass for a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Recorded pass `run` of an object.
    Recorded {
        /// The object's index.
        item: usize,
        /// Number of the pass, from 0.
        run: usize,
    },
    /// A pass over this object that keeps the card full.
    Filler(usize),
    /// Nothing is left to measure.
    End,
}

/// The queue.
pub struct Queue(Mutex<State>);

struct State {
    waiting: VecDeque<(usize, usize)>,
    /// Recorded passes that lanes are running.
    running: usize,
    failed: Vec<bool>,
    filler: usize,
}

impl Queue {
    /// `runs` passes of each of so many objects.
    pub fn new(items: usize, runs: usize) -> Self {
        let waiting = (0..runs).flat_map(|run| (0..items).map(move |item| (item, run))).collect();
        Self(Mutex::new(State { waiting, running: 0, failed: vec![false; items], filler: 0 }))
    }

    /// The next pass for a lane that has none.
    pub fn next(&self) -> Next {
        let mut state = self.lock();
        if let Some((item, run)) = state.waiting.pop_front() {
            state.running += 1;
            return Next::Recorded { item, run };
        }
        let items = state.failed.len();
        let mut others = (0..items).map(|more| (state.filler + more) % items);
        let filler = others.find(|item| !state.failed[*item]);
        match filler.filter(|_| state.running > 0) {
            Some(item) => {
                state.filler = item + 1;
                Next::Filler(item)
            }
            None => Next::End,
        }
    }

    /// A recorded pass ended, well or not.
    pub fn ended(&self) {
        let mut state = self.lock();
        state.running = state.running.saturating_sub(1);
    }

    /// An object gets no more passes.
    pub fn fail(&self, item: usize) {
        let mut state = self.lock();
        state.waiting.retain(|(waiting, _)| *waiting != item);
        if let Some(failed) = state.failed.get_mut(item) {
            *failed = true;
        }
    }

    /// Whether an object gets no more passes because one failed.
    pub fn has_failed(&self, item: usize) -> bool {
        self.lock().failed.get(item).copied().unwrap_or(true)
    }

    /// No pass begins any more, and nobody waits for one that has broken off.
    pub fn close(&self) {
        let mut state = self.lock();
        state.waiting.clear();
        state.running = 0;
        state.failed.fill(true);
    }

    /// Whether every recorded pass has ended, so that fillers may end too.
    pub fn is_over(&self) -> bool {
        let state = self.lock();
        state.waiting.is_empty() && state.running == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_passes_come_first_and_fillers_until_the_last_of_them_ends() {
        let queue = Queue::new(2, 2);
        let order = [(0, 0), (1, 0), (0, 1)];
        for (item, run) in order {
            assert_eq!(queue.next(), Next::Recorded { item, run });
        }
        (0..3).for_each(|_| queue.ended());
        assert!(!queue.is_over(), "one waits");
        assert_eq!(queue.next(), Next::Recorded { item: 1, run: 1 });
        assert_eq!([queue.next(), queue.next(), queue.next()], [0, 1, 0].map(Next::Filler));
        assert!(!queue.is_over(), "one runs");
        queue.ended();
        assert!(queue.is_over());
        assert_eq!(queue.next(), Next::End);
    }

    #[test]
    fn an_object_that_failed_comes_no_more() {
        let queue = Queue::new(2, 3);
        assert_eq!(queue.next(), Next::Recorded { item: 0, run: 0 });
        queue.fail(0);
        queue.ended();
        assert!(queue.has_failed(0) && !queue.has_failed(1));
        for run in 0..3 {
            assert_eq!(queue.next(), Next::Recorded { item: 1, run });
        }
        assert_eq!(queue.next(), Next::Filler(1));
        queue.close();
        assert_eq!(queue.next(), Next::End);
    }
}
