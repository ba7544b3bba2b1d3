/*!
Streams, the order of work on the device, and events, its clock.
*/

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};

use super::error::{Result, Tried};

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

    /// The `CUstream`, which is also a `cudaStream_t`; it lives as long as this value.
    pub fn raw(&self) -> *mut c_void {
        self.inner.cu_stream().cast()
    }

    /// Waits until everything enqueued so far is done.
    ///
    /// # Errors
    /// What went wrong in that work.
    pub fn synchronize(&self) -> Result<()> {
        self.inner.synchronize().tried(|| "finish the work of a stream".into())
    }
}

/// A point in a stream's work whose time the device takes.
#[derive(Debug)]
pub struct Event {
    inner: CudaEvent,
}

impl Event {
    pub(super) fn new(inner: CudaEvent) -> Self {
        Self { inner }
    }

    /// Puts the event behind everything enqueued so far.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.inner.record(&stream.inner).tried(|| "record an event".into())
    }

    /// Milliseconds from `start` to this event; waits for both.
    pub fn ms_since(&self, start: &Self) -> Result<f64> {
        let ms = start.inner.elapsed_ms(&self.inner);
        ms.map(f64::from).tried(|| "take the time between two events".into())
    }
}
