/*!
Work captured once and launched as a whole.
*/

use std::fmt::Display;

use cudarc::driver::result;
use cudarc::driver::sys::{CUgraph, CUgraphExec, CUgraphInstantiate_flags, CUstreamCaptureMode};

use super::cleared_memory;
use super::error::{GpuError, Result, Tried};
use super::recording::recording;
use super::stream::Stream;
use super::view::View;
use super::{graph_nodes, launches};

/// A recorded piece of work, bound to the stream it was recorded on.
pub struct Graph {
    ready: CUgraphExec,
    stream: Stream,
    /// Kernels of a launch, if the driver tells them.
    kernels: Option<u64>,
}

/// A captured graph before it is instantiated.
struct Draft(CUgraph);

impl Graph {
    /// Records what `enqueue` enqueues on `stream`, without running it. `cleared`: what the work
    /// fills with zeros as a whole before anything uses it; parts of it that it fills with zeros
    /// once more are left out.
    ///
    /// # Errors
    /// `enqueue`'s own, work that cannot be recorded, or nothing recorded. The stream records no
    /// longer after any.
    ///
    /// # Safety
    /// The work fills all of `cleared` with zeros before anything else of it uses any of it.
    pub unsafe fn record<E: Display>(
        stream: &Stream,
        cleared: Option<&View>,
        enqueue: impl FnOnce() -> std::result::Result<(), E>,
    ) -> Result<Self> {
        let what = || "record a CUDA graph".to_owned();
        // Other threads may go on calling the driver; this one must not do what cannot be recorded.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let recording = recording();
        stream.inner().begin_capture(mode).tried(what)?;
        let enqueued = launches::not_counted(enqueue);
        // Ended in any case: a stream that still records takes no other work.
        // SAFETY: the stream lives; its context is bound to this thread since the recording began.
        let ended = unsafe { result::stream::end_capture(stream.inner().cu_stream()) };
        drop(recording);
        let draft = ended.map(Draft);
        if let Err(error) = enqueued {
            return Err(GpuError::Failed { what: what(), code: error.to_string() });
        }
        let draft = draft.tried(what)?;
        if draft.0.is_null() {
            return Err(GpuError::Failed { what: what(), code: "nothing was recorded".to_owned() });
        }
        if let Some(cleared) = cleared {
            // SAFETY: the graph lives, and nobody else knows it; what it does with `cleared` is the
            // caller's promise.
            unsafe { cleared_memory::leave_out(draft.0, cleared) };
        }
        // SAFETY: the graph lives.
        let kernels = unsafe { graph_nodes::kernels(draft.0) };
        // SAFETY: the graph lives; what it became does not need it any more.
        let ready = unsafe { result::graph::instantiate(draft.0, CUgraphInstantiate_flags(0)) };
        let graph = Self { ready: ready.tried(what)?, stream: stream.clone(), kernels };
        // SAFETY: both live.
        let brought = unsafe { result::graph::upload(graph.ready, stream.inner().cu_stream()) };
        brought.tried(|| "bring a CUDA graph to the device".into())?;
        Ok(graph)
    }

    /// Enqueues the work on the stream on which it was recorded.
    ///
    /// # Safety
    /// All memory that the recorded work touches is still there, and stays until the work is done.
    pub unsafe fn launch(&self) -> Result<()> {
        let inner = self.stream.inner();
        inner.context().bind_to_thread().tried(|| "use the GPU".into())?;
        // SAFETY: graph and stream live; the rest is the caller's.
        let launched = unsafe { result::graph::launch(self.ready, inner.cu_stream()) };
        launched.tried(|| "launch a CUDA graph".into())?;
        launches::graph(self.kernels);
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let bound = self.stream.inner().context().bind_to_thread();
        // SAFETY: it is this value's own, and launched no more; the driver keeps what still runs.
        let gone = bound.and_then(|()| unsafe { result::graph::exec_destroy(self.ready) });
        if let Err(error) = gone {
            log::debug!("let go of a CUDA graph: {error:?}");
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: it is this value's own; what it became has its own copy.
        if let Err(error) = unsafe { result::graph::destroy(self.0) } {
            log::debug!("let go of a recording: {error:?}");
        }
    }
}
