/*!
Decoding ahead: worker threads turn JPEG files into pixels in pinned memory, or into nvJPEG's
coefficients, while the device is busy with earlier frames.

Frames come out in order. A worker takes a free buffer and the next frame's number together, so the
frame that is waited for always has a buffer, however few there are.
*/

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::PassError;
use super::frame_buffer::{FrameBuffer, FrameSource};
use vos::record::{SourceAge, ms_between};

/// A decoded frame.
pub struct Decoded {
    /// Its pixels or coefficients.
    pub buffer: FrameBuffer,
    /// Before its file was opened.
    pub read_begun: Instant,
    /// The host's part of decoding was done.
    pub decoded: Instant,
}

impl Decoded {
    /// The host's part of decoding, ms.
    pub fn decode_ms(&self) -> f64 {
        ms_between(self.read_begun, self.decoded)
    }

    /// Its age when its mask was in host memory.
    pub fn age(&self, mask_at: Instant) -> SourceAge {
        SourceAge {
            decoded_ms: ms_between(self.decoded, mask_at),
            read_ms: ms_between(self.read_begun, mask_at),
        }
    }
}

/// Frames to be decoded and free buffers; the workers share it.
pub struct DecodeQueue {
    next: Mutex<(usize, Receiver<FrameBuffer>)>,
    frames: Vec<usize>,
    size: (usize, usize),
}

/// The taking end.
pub struct DecodeAhead {
    done: Receiver<(usize, Result<Decoded, PassError>)>,
    free: Sender<FrameBuffer>,
    early: BTreeMap<usize, Result<Decoded, PassError>>,
    next: usize,
    /// How long [`DecodeAhead::next`] waited.
    pub waited: Duration,
}

impl DecodeQueue {
    /// For the frames with these indices, in this order, of `size` pixels; the sender takes free
    /// buffers.
    pub fn new(frames: Vec<usize>, size: (usize, usize)) -> (Self, Sender<FrameBuffer>) {
        let (free, buffers) = channel();
        (Self { next: Mutex::new((0, buffers)), frames, size }, free)
    }

    /// The next frame and a buffer for it; none at the end, or when no more buffers come.
    fn take(&self) -> Option<(usize, usize, FrameBuffer)> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let frame = *self.frames.get(next.0)?;
        let buffer = next.1.recv().ok()?;
        next.0 += 1;
        Some((next.0 - 1, frame, buffer))
    }

    fn decode(
        &self,
        source: FrameSource<'_>,
        frame: usize,
        mut buffer: FrameBuffer,
    ) -> Result<Decoded, PassError> {
        let read_begun = Instant::now();
        buffer.decode(source, frame, self.size)?;
        Ok(Decoded { buffer, read_begun, decoded: Instant::now() })
    }

    /// The buffers that are free at the end.
    pub fn into_buffers(self) -> Vec<FrameBuffer> {
        let (_, buffers) = self.next.into_inner().unwrap_or_else(PoisonError::into_inner);
        buffers.try_iter().collect()
    }
}

/// A panic in decoding becomes the frame's failure; else the receiver would wait for ever.
fn caught<T>(frame: usize, decode: impl FnOnce() -> Result<T, PassError>) -> Result<T, PassError> {
    let result = catch_unwind(AssertUnwindSafe(decode));
    result.unwrap_or_else(|_| {
        let report = "this is a fault of segtrt's, please report it with the file";
        Err(PassError::Other(anyhow!("decoding frame {frame} broke off; {report}")))
    })
}

impl DecodeAhead {
    /// Starts `threads` workers, which end with the frames or with this value.
    pub fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        source: FrameSource<'env>,
        queue: &'env DecodeQueue,
        free: Sender<FrameBuffer>,
        threads: usize,
    ) -> Self {
        let (give, done) = channel();
        for _ in 0..threads.max(1) {
            let give = give.clone();
            let body = move || {
                while let Some((at, frame, buffer)) = queue.take() {
                    // A failed frame drops its buffer: the pass ends there.
                    let decoded = caught(frame, || queue.decode(source, frame, buffer));
                    if give.send((at, decoded)).is_err() {
                        return;
                    }
                }
            };
            // Without any, the first frame says that they ended.
            if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, body) {
                log::warn!("a decoding thread less: {error}");
                break;
            }
        }
        Self { done, free, early: BTreeMap::new(), next: 0, waited: Duration::ZERO }
    }

    /// The next frame in order; waits for it.
    ///
    /// # Errors
    /// A frame that cannot be decoded, or workers that gave up.
    pub fn next(&mut self) -> Result<Decoded, PassError> {
        let at = self.next;
        self.next += 1;
        loop {
            if let Some(decoded) = self.early.remove(&at) {
                return decoded;
            }
            let gone = || PassError::Other(anyhow!("the decoding threads ended early"));
            let begun = Instant::now();
            let received = self.done.recv();
            self.waited += begun.elapsed();
            let (found, decoded) = received.map_err(|_| gone())?;
            self.early.insert(found, decoded);
        }
    }

    /// Gives a buffer back; the workers wait until the device has read it.
    pub fn free(&self, buffer: FrameBuffer) {
        // Nobody takes buffers after the last frame.
        let _ = self.free.send(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_reaches_the_receiver() {
        assert_eq!(caught(1, || Ok(7)).ok(), Some(7));
        let error = caught(3, || -> Result<(), _> { panic!("no") }).err();
        assert!(error.unwrap().to_string().contains("frame 3"));
    }
}
