/*!
Logits between a frame's mask and its memory: the network's own on their way to the host, a teacher's on their way in.

The memory engine reads the logits where the track step wrote them. So a teacher's are copied over the network's own, on
the stream of the object's work: behind the mask kernel and the copy to the host, which read what was there, and in front
of the memory engine. The mask and the scores leave on another stream, but from memory of their own. Recorded work stays as
it is, because the memory step is recorded apart from the track step and reads the same address; what is added to each frame
is two copies, and the host's work on the pinned slot.

One frame is in flight (latency mode), so one slot an object is enough: the copy out of it was done before the frame before
this one was taken.
*/

use anyhow::{Context, Result, ensure};

use cuda::{Gpu, GpuError, Pinned, Stream, View};
use vos::logits::Exchange;

/// Pinned memory for one object's logits, made where it is needed.
#[derive(Debug, Default)]
pub struct LogitSlots {
    own: Option<Pinned>,
    taught: Option<Pinned>,
}

impl LogitSlots {
    /// Makes what `exchange` needs for logits of `bytes` bytes.
    pub fn make_room(
        &mut self,
        gpu: &Gpu,
        exchange: &Exchange<'_>,
        bytes: usize,
    ) -> Result<(), GpuError> {
        let needs = |slot: &Option<Pinned>| slot.as_ref().is_none_or(|slot| slot.len() != bytes);
        if exchange.save && needs(&self.own) {
            self.own = Some(Pinned::new(gpu, bytes)?);
        }
        if exchange.teacher.is_some() && needs(&self.taught) {
            self.taught = Some(Pinned::new(gpu, bytes)?);
        }
        Ok(())
    }

    /// Enqueues the copies of frame `t`, 0 for the prompted one, from and to `low`.
    ///
    /// # Errors
    /// The teacher has no such frame, or logits of another size.
    pub fn enqueue(
        &mut self,
        exchange: &Exchange<'_>,
        t: usize,
        low: &View,
        stream: &Stream,
    ) -> Result<()> {
        if exchange.save {
            self.own.as_mut().context("there is no room for logits")?.download(low, stream)?;
        }
        let Some(teacher) = exchange.teacher else { return Ok(()) };
        let missing = || format!("the teacher has {} frames of logits", teacher.frames());
        let logits = teacher.frame(t).with_context(missing)?;
        ensure!(
            logits.len() * size_of::<f32>() == low.len(),
            "a teacher's {} logits came, the memory engine takes {}",
            logits.len(),
            low.len() / size_of::<f32>()
        );
        let slot = self.taught.as_mut().context("there is no room for a teacher's logits")?;
        for (to, logit) in slot.bytes()?.chunks_exact_mut(size_of::<f32>()).zip(logits) {
            to.copy_from_slice(&logit.to_f32().to_le_bytes());
        }
        Ok(slot.upload(low.len(), low, stream)?)
    }

    /// The network's own logits of the frame that was waited for, little-endian f32.
    pub fn own(&mut self) -> Result<&[u8]> {
        Ok(self.own.as_mut().context("no logits were handed out")?.bytes()?)
    }
}
