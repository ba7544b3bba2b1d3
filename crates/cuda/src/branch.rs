/*!
A branch of recorded work: a part of a CUDA graph that the device may run beside the rest.
*/

use cudarc::driver::sys::CUevent_flags;

use super::error::{Result, Tried};
use super::stream::{Event, Stream};

/// A second stream that takes part in a stream's recording, from a fork to a join.
///
/// Only a recording needs it: the graph keeps the order of the work, not the streams. The driver
/// refuses a recording that ends before each fork is joined.
#[derive(Debug)]
pub struct Branch {
    side: Stream,
    forked: Event,
    joined: Event,
}

impl Branch {
    /// A branch for recordings of `stream`.
    pub(super) fn new(stream: &Stream) -> Result<Self> {
        let context = stream.inner().context();
        let mark = || {
            let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING;
            context.new_event(Some(flags)).map(Event::new).tried(|| "make an event".into())
        };
        let side = context.new_stream().map(Stream::new).tried(|| "make a stream".into())?;
        Ok(Self { side, forked: mark()?, joined: mark()? })
    }

    /// The stream of the branch; what is enqueued there follows what was enqueued on `stream` so
    /// far, and nothing of `stream` that comes later.
    pub fn fork(&self, stream: &Stream) -> Result<&Stream> {
        self.forked.record(stream)?;
        self.side.wait(&self.forked)?;
        Ok(&self.side)
    }

    /// Later work of `stream` follows all work of the branch.
    pub fn join(&self, stream: &Stream) -> Result<()> {
        self.joined.record(&self.side)?;
        stream.wait(&self.joined)
    }
}
