/*!
Work recorded once and launched as a whole.
*/

use std::fmt::Display;

use cudarc::driver::CudaGraph;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};

use super::error::{GpuError, Result, Tried};
use super::stream::Stream;

/// A recorded piece of work, bound to the stream it was recorded on.
pub(super) struct Graph {
    inner: CudaGraph,
}

impl Graph {
    /// Records what `enqueue` enqueues on `stream`, without running it.
    ///
    /// # Errors
    /// `enqueue`'s own, work that cannot be recorded, or nothing recorded. The stream records no longer after any.
    pub(super) fn record<E: Display>(
        stream: &Stream,
        enqueue: impl FnOnce() -> std::result::Result<(), E>,
    ) -> Result<Self> {
        let what = || "record a CUDA graph".to_owned();
        // Other threads may go on calling the driver; this one must not do what cannot be recorded.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        stream.inner().begin_capture(mode).tried(what)?;
        let enqueued = enqueue();
        // Ended in any case: a stream that still records takes no other work.
        let ended = stream.inner().end_capture(CUgraphInstantiate_flags(0));
        if let Err(error) = enqueued {
            return Err(GpuError::Failed { what: what(), code: error.to_string() });
        }
        let nothing = || GpuError::Failed { what: what(), code: "nothing was recorded".to_owned() };
        let inner = ended.tried(what)?.ok_or_else(nothing)?;
        inner.upload().tried(|| "bring a CUDA graph to the device".into())?;
        Ok(Self { inner })
    }

    /// Enqueues the work on the stream on which it was recorded.
    ///
    /// # Safety
    /// All memory that the recorded work touches is still there, and stays until the work is done.
    pub(super) unsafe fn launch(&self) -> Result<()> {
        self.inner.launch().tried(|| "launch a CUDA graph".into())
    }
}
