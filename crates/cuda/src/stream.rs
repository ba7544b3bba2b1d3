/*!
Streams, the order of work on the device, and events, its clock.
*/

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};

use super::error::{Result, Tried};
use super::launches;

/// A stream. Cheap to clone; gone with its last clone.
#[derive(Clone, Debug)]
pub struct Stream {
    inner: Arc<CudaStream>,
}

impl Stream {
    pub(super) fn new(inner: Arc<CudaStream>) -> Self {
        Self { inner }
    }

    pub(super) fn inner(&self) -> &Arc<CudaStream> {
        &self.inner
    }

    /// The `CUstream`, which is also a `cudaStream_t`, for a library that enqueues on it; it lives
    /// as long as this value. [`Launches`](super::Launches) does not know the library's kernels.
    pub fn raw(&self) -> *mut c_void {
        launches::of_a_library();
        self.inner.cu_stream().cast()
    }

    /// It is the same stream as `other`.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Makes later work of this stream wait for `event`; the host goes on.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.inner.wait(&event.inner).tried(|| "let a stream wait for an event".into())
    }

    /// Waits until everything enqueued so far is done.
    ///
    /// # Errors
    /// What went wrong in that work.
    pub fn synchronize(&self) -> Result<()> {
        self.inner.synchronize().tried(|| "finish the work of a stream".into())
    }
}

/// How the host waits for the device.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// By asking again and again: soonest to see the end, and takes a processor.
    #[default]
    Spin,
    /// The same, but other threads may run between two questions.
    Yield,
    /// The driver's default: it may yield or sleep.
    Block,
}

/// A point in a stream's work; it has a time unless it was created as a mark.
#[derive(Debug)]
pub struct Event {
    inner: CudaEvent,
}

impl Event {
    pub(super) fn new(inner: CudaEvent) -> Self {
        Self { inner }
    }

    /// Records the event after everything enqueued so far.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.inner.record(&stream.inner).tried(|| "record an event".into())
    }

    /// Waits, in the manner of `wait`, until the work before it is done. An event that was never
    /// recorded is done.
    ///
    /// # Errors
    /// What went wrong in that work.
    pub fn synchronize(&self, wait: Wait) -> Result<()> {
        let what = || "finish the work before an event".to_owned();
        match wait {
            Wait::Block => self.inner.synchronize().tried(what),
            Wait::Spin | Wait::Yield => {
                while !self.inner.try_is_complete().tried(what)? {
                    match wait {
                        Wait::Yield => std::thread::yield_now(),
                        _ => std::hint::spin_loop(),
                    }
                }
                Ok(())
            }
        }
    }

    /// Whether the work before it is done; waits for nothing. An event that was never recorded is
    /// done.
    ///
    /// # Errors
    /// What went wrong in that work.
    pub fn is_done(&self) -> Result<bool> {
        self.inner
            .try_is_complete()
            .tried(|| "tell whether the work before an event is done".into())
    }

    /// Milliseconds from `start` to this event; waits for both.
    pub fn ms_since(&self, start: &Self) -> Result<f64> {
        let ms = start.inner.elapsed_ms(&self.inner);
        ms.map(f64::from).tried(|| "take the time between two events".into())
    }
}
