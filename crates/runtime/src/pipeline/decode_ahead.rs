/*!
Decoding ahead: worker threads turn JPEG files into pixels in pinned memory, or into what nvJPEG makes pixels of on the device,
while the device is busy with earlier frames.

Frames come out in order. A worker takes a free slot and the next frame's number together, so the frame that is waited
for always has a slot, however few there are.
*/

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;
use std::time::Instant;

use anyhow::anyhow;

use super::PassError;
use super::slot::Slot;
use vos::dataset::Clip;

/// A decoded frame.
pub struct Decoded {
    /// Where it lies.
    pub slot: Slot,
    /// Before its file was opened.
    pub read_begun: Instant,
    /// The host's part of decoding was done.
    pub decoded: Instant,
}

impl Decoded {
    /// From the file to what the host makes of it, ms.
    pub fn decode_ms(&self) -> f64 {
        (self.decoded - self.read_begun).as_secs_f64() * 1e3
    }
}

/// What the workers share: frames to be decoded and slots to put them in.
pub struct Work {
    next: Mutex<(usize, Receiver<Slot>)>,
    frames: Vec<usize>,
    size: (usize, usize),
}

/// The taking end.
pub struct DecodeAhead {
    done: Receiver<(usize, Result<Decoded, PassError>)>,
    free: Sender<Slot>,
    early: BTreeMap<usize, Result<Decoded, PassError>>,
    next: usize,
}

impl Work {
    /// For the frames with these indices, in this order, of `size` pixels; the sender takes free slots.
    pub fn new(frames: Vec<usize>, size: (usize, usize)) -> (Self, Sender<Slot>) {
        let (free, slots) = channel();
        (Self { next: Mutex::new((0, slots)), frames, size }, free)
    }

    /// The next frame and a slot for it; none at the end, or where nobody gives slots any more.
    fn take(&self) -> Option<(usize, usize, Slot)> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let frame = *self.frames.get(next.0)?;
        let slot = next.1.recv().ok()?;
        next.0 += 1;
        Some((next.0 - 1, frame, slot))
    }

    fn decode(&self, clip: &Clip, frame: usize, mut slot: Slot) -> Result<Decoded, PassError> {
        let read_begun = Instant::now();
        slot.decode(clip, frame, self.size)?;
        Ok(Decoded { slot, read_begun, decoded: Instant::now() })
    }

    /// The slots that are free at the end.
    pub fn into_slots(self) -> Vec<Slot> {
        let (_, slots) = self.next.into_inner().unwrap_or_else(PoisonError::into_inner);
        slots.try_iter().collect()
    }
}

/// A panic in decoding becomes the frame's failure: nobody else would tell whoever waits for it.
fn told<T>(frame: usize, decode: impl FnOnce() -> Result<T, PassError>) -> Result<T, PassError> {
    let caught = catch_unwind(AssertUnwindSafe(decode));
    caught.unwrap_or_else(|_| {
        let report = "this is a fault of segtrt's, please report it with the file";
        Err(PassError::Other(anyhow!("decoding frame {frame} broke off; {report}")))
    })
}

impl DecodeAhead {
    /// Starts `threads` workers, which end with the frames or with this value.
    pub fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        clip: &'env Clip,
        work: &'env Work,
        free: Sender<Slot>,
        threads: usize,
    ) -> Self {
        let (give, done) = channel();
        for _ in 0..threads.max(1) {
            let give = give.clone();
            let body = move || {
                while let Some((at, frame, slot)) = work.take() {
                    // A frame that fails takes its slot with it: the pass ends there.
                    let decoded = told(frame, || work.decode(clip, frame, slot));
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
        Self { done, free, early: BTreeMap::new(), next: 0 }
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
            let (found, decoded) = self.done.recv().map_err(|_| gone())?;
            self.early.insert(found, decoded);
        }
    }

    /// Gives a slot back; the workers wait by themselves for what the device does with it.
    pub fn free(&self, slot: Slot) {
        // Nobody takes slots after the last frame.
        let _ = self.free.send(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_to_whoever_waits() {
        assert_eq!(told(1, || Ok(7)).ok(), Some(7));
        let error = told(3, || -> Result<(), _> { panic!("no") }).err();
        assert!(error.unwrap().to_string().contains("frame 3"));
    }
}
