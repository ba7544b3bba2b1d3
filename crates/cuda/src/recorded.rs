/*!
Work that is always the same: enqueued once, recorded as a CUDA graph, replayed from then on.
*/

use anyhow::Result;

use super::graph::Graph;
use super::stream::Stream;
use super::view::View;

/// Something that enqueues the same work, on the same memory, each time it is asked.
///
/// # Safety
/// A recording is replayed without asking the value again, as long as it lives. So the value keeps, alone or with others, until it is
/// dropped, everything that the work enqueued so far uses: memory, kernels, engines' contexts, cuBLASLt's handles. Memory that it
/// lets go of, or that it borrows from a place inside of [`Work::enqueue`], would be used after it is gone. None of that memory is
/// [`Pinned`](super::Pinned): the host would not know that a replay uses it. What [`Work::cleared`] promises holds.
///
/// Safe code cannot promise this:
/// ```compile_fail
/// struct Forgetful;
/// impl segtrt::gpu::Work for Forgetful {
///     fn enqueue(&mut self, _: &segtrt::gpu::Stream) -> anyhow::Result<()> {
///         Ok(())
///     }
/// }
/// ```
pub unsafe trait Work {
    /// Enqueues the work; returns before it is done.
    fn enqueue(&mut self, stream: &Stream) -> Result<()>;

    /// Memory that the work fills with zeros, as a whole, before anything else of it uses any of it, each time it is enqueued:
    /// filling parts of it with zeros again is left out of recordings.
    fn cleared(&self) -> Option<View> {
        None
    }
}

/// How often work was enqueued call by call, recorded, and replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Enqueued call by call.
    pub enqueued: u64,
    /// Recorded as a graph.
    pub recorded: u64,
    /// Replayed.
    pub replayed: u64,
}

impl std::ops::Add for Replay {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            enqueued: self.enqueued + other.enqueued,
            recorded: self.recorded + other.recorded,
            replayed: self.replayed + other.replayed,
        }
    }
}

/// Work with the graph that it became.
///
/// Declared in the order of deletion: the graph, then what it runs on.
pub struct Recorded<W> {
    graph: Option<Graph>,
    work: W,
    stream: Stream,
    with_graph: bool,
    count: Replay,
}

impl<W: Work> Recorded<W> {
    /// Work for `stream`. Without `with_graph` it is enqueued anew each time.
    pub fn new(work: W, stream: &Stream, with_graph: bool) -> Self {
        Self { graph: None, work, stream: stream.clone(), with_graph, count: Replay::default() }
    }

    /// Enqueues the work; returns before it is done. The first time it is enqueued call by call, because TensorRT
    /// prepares on first use, and recorded behind that; later it is replayed.
    ///
    /// # Errors
    /// Work that cannot be enqueued, or not recorded: `--no-cuda-graphs` runs without.
    pub fn run(&mut self) -> Result<()> {
        if let Some(graph) = &self.graph {
            self.count.replayed += 1;
            // SAFETY: `work` keeps all that was recorded, as its type promises; nobody can take it out, and it is dropped
            // after the graph; drop waits for the stream.
            return Ok(unsafe { graph.launch() }?);
        }
        self.work.enqueue(&self.stream)?;
        self.count.enqueued += 1;
        if self.with_graph {
            self.stream.synchronize()?;
            let (cleared, work, stream) = (self.work.cleared(), &mut self.work, &self.stream);
            let enqueue = || work.enqueue(stream);
            // SAFETY: the work fills `cleared` with zeros before it uses any of it, as its type promises.
            self.graph = Some(unsafe { Graph::record(stream, cleared.as_ref(), enqueue) }?);
            self.count.recorded += 1;
        }
        Ok(())
    }

    /// What was done so far.
    pub fn count(&self) -> Replay {
        self.count
    }
}

impl<W> Drop for Recorded<W> {
    fn drop(&mut self) {
        if let Err(error) = self.stream.synchronize() {
            log::debug!("{error}");
        }
    }
}
