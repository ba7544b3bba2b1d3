/*!
Repeated work as a CUDA graph: enqueued once call by call, captured, and replayed from then on.
*/

use anyhow::Result;

use super::branch::Branch;
use super::graph::Graph;
use super::stream::Stream;
use super::view::View;

/// A value that enqueues the same work, on the same memory, at each call.
///
/// # Safety
/// A captured graph is replayed without calling the value again, as long as the value lives. So
/// until it is dropped, the value keeps, alone or with others, everything that its enqueued work
/// uses: memory, kernels, engines' contexts, cuBLASLt's handles. Memory that it drops earlier, or
/// borrows inside of [`Capturable::enqueue`], would be used after it is freed. None of that memory
/// is [`Pinned`](super::Pinned): the host would not know that a replay uses it.
/// [`Capturable::cleared`] keeps its promise.
///
/// Safe code cannot promise this:
/// ```compile_fail,E0200
/// struct Forgetful;
/// impl cuda::Capturable for Forgetful {
///     fn enqueue(&mut self, _: &cuda::Stream) -> anyhow::Result<()> {
///         Ok(())
///     }
/// }
/// ```
pub unsafe trait Capturable {
    /// Enqueues the work; returns before it is done.
    ///
    /// # Errors
    /// Work that cannot be enqueued.
    fn enqueue(&mut self, stream: &Stream) -> Result<()>;

    /// Whether a recording uses [`Capturable::enqueue_forked`].
    fn forks(&self) -> bool {
        false
    }

    /// Enqueues the same work while it is recorded; a part may go to `branch`, which has joined
    /// `stream` again when this returns.
    ///
    /// # Errors
    /// Work that cannot be enqueued.
    fn enqueue_forked(&mut self, stream: &Stream, _branch: &Branch) -> Result<()> {
        self.enqueue(stream)
    }

    /// Memory that the work fills with zeros, as a whole, before it uses any of it, each time it is
    /// enqueued. Captured graphs leave out later zero fills of its parts.
    fn cleared(&self) -> Option<View> {
        None
    }
}

/// How often work was enqueued call by call, captured, and replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphStats {
    /// Enqueued call by call.
    pub enqueued: u64,
    /// Captured as a graph.
    pub captured: u64,
    /// Replayed.
    pub replayed: u64,
}

impl std::ops::Add for GraphStats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            enqueued: self.enqueued + other.enqueued,
            captured: self.captured + other.captured,
            replayed: self.replayed + other.replayed,
        }
    }
}

/// Work with its captured graph.
///
/// Declared in the order of deletion: the graph, then the memory that it uses.
pub struct CapturedGraph<W> {
    graph: Option<Graph>,
    work: W,
    stream: Stream,
    with_graph: bool,
    count: GraphStats,
}

impl<W: Capturable> CapturedGraph<W> {
    /// Work for `stream`. Without `with_graph` every run enqueues call by call.
    pub fn new(work: W, stream: &Stream, with_graph: bool) -> Self {
        Self { graph: None, work, stream: stream.clone(), with_graph, count: GraphStats::default() }
    }

    /// Enqueues the work; returns before it is done. The first run enqueues call by call, because
    /// TensorRT prepares on first use, and then captures; later runs replay the graph.
    ///
    /// # Errors
    /// Work that cannot be enqueued or captured: `--no-cuda-graphs` runs without graphs.
    pub fn run(&mut self) -> Result<()> {
        if let Some(graph) = &self.graph {
            self.count.replayed += 1;
            // SAFETY: `work` keeps all that was captured, as its type promises; nobody can take it
            // out, and it is dropped after the graph; drop waits for the stream.
            return Ok(unsafe { graph.launch() }?);
        }
        self.work.enqueue(&self.stream)?;
        self.count.enqueued += 1;
        if self.with_graph {
            self.stream.synchronize()?;
            // Made before the recording begins, and gone after it has ended.
            let branch = self.work.forks().then(|| Branch::new(&self.stream)).transpose()?;
            let (cleared, work, stream) = (self.work.cleared(), &mut self.work, &self.stream);
            let enqueue = || match &branch {
                Some(branch) => work.enqueue_forked(stream, branch),
                None => work.enqueue(stream),
            };
            // SAFETY: the work fills `cleared` with zeros before it uses any of it, as its type
            // promises.
            self.graph = Some(unsafe { Graph::record(stream, cleared.as_ref(), enqueue) }?);
            self.count.captured += 1;
        }
        Ok(())
    }

    /// The runs so far.
    pub fn count(&self) -> GraphStats {
        self.count
    }
}

impl<W> Drop for CapturedGraph<W> {
    fn drop(&mut self) {
        if let Err(error) = self.stream.synchronize() {
            log::debug!("{error}");
        }
    }
}
