/*!
Kernel launches that a thread has enqueued: a benchmark's rows tell how many a frame has.

A replayed graph counts with all of its kernels. A library that is given a raw stream enqueues as
many as it likes; then the number is not known, and nobody guesses it.
*/

use std::cell::Cell;

/// What a thread has enqueued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launches {
    kernels: u64,
    graphs: u64,
    /// Pieces of work with an unknown number of kernels.
    uncounted: u64,
}

thread_local! {
    static ENQUEUED: Cell<Launches> = const {
        Cell::new(Launches { kernels: 0, graphs: 0, uncounted: 0 })
    };
}

impl Launches {
    /// All of this thread until now.
    pub fn so_far() -> Self {
        ENQUEUED.get()
    }

    /// Those after an `earlier` moment of the same thread.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            kernels: self.kernels.wrapping_sub(earlier.kernels),
            graphs: self.graphs.wrapping_sub(earlier.graphs),
            uncounted: self.uncounted.wrapping_sub(earlier.uncounted),
        }
    }

    /// Kernels, those of replayed graphs among them; none where a library enqueued some, or where
    /// the driver does not list a graph's nodes.
    pub fn kernels(self) -> Option<u64> {
        (self.uncounted == 0).then_some(self.kernels)
    }

    /// Replayed graphs.
    pub fn graphs(self) -> u64 {
        self.graphs
    }
}

/// One kernel.
pub(super) fn kernel() {
    add(Launches { kernels: 1, ..Launches::default() });
}

/// A graph with this number of kernels, if it is known.
pub(super) fn graph(kernels: Option<u64>) {
    let uncounted = u64::from(kernels.is_none());
    add(Launches { kernels: kernels.unwrap_or_default(), graphs: 1, uncounted });
}

/// Work of a library.
pub(super) fn of_a_library() {
    add(Launches { uncounted: 1, ..Launches::default() });
}

/// Counts nothing of `recorded`, which is recorded and not run.
pub(super) fn not_counted<T>(recorded: impl FnOnce() -> T) -> T {
    let before = ENQUEUED.get();
    let result = recorded();
    ENQUEUED.set(before);
    result
}

fn add(more: Launches) {
    let Launches { kernels, graphs, uncounted } = ENQUEUED.get();
    ENQUEUED.set(Launches {
        kernels: kernels.wrapping_add(more.kernels),
        graphs: graphs.wrapping_add(more.graphs),
        uncounted: uncounted.wrapping_add(more.uncounted),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(work: impl FnOnce()) -> Launches {
        let before = Launches::so_far();
        work();
        Launches::so_far().since(before)
    }

    #[test]
    fn a_graph_counts_with_its_kernels_and_a_recording_does_not() {
        let found = counted(|| {
            kernel();
            not_counted(|| {
                kernel();
                of_a_library();
            });
            graph(Some(40));
            graph(Some(0));
        });
        assert_eq!((found.kernels(), found.graphs()), (Some(41), 2));
    }

    #[test]
    fn nobody_guesses_the_kernels_of_a_library() {
        for unknown in [of_a_library, || graph(None)] {
            let found = counted(|| {
                kernel();
                unknown();
            });
            assert_eq!(found.kernels(), None);
        }
        assert_eq!(counted(kernel).kernels(), Some(1), "earlier work does not matter");
    }

    #[test]
    fn threads_count_apart() {
        let found = counted(|| std::thread::spawn(kernel).join().unwrap());
        assert_eq!(found, Launches::default());
    }
}
