/*!
Logits between a frame's mask and its memory: the network's on their way to the host, a teacher's on
their way in.

The memory encoder reads the logits where the track step wrote them. A teacher's logits are copied
over the network's on the object's stream: after the copy to the host, before the memory encoder.
The mask kernel reads the network's logits on another stream, so the teacher's wait for it. The mask
and the scores are downloaded on that stream, but from other memory.
The captured graphs stay the same, because the memory step is captured apart from the track step and
reads the same address. Each frame gets two more copies and the host's work on the pinned buffer.

One frame is in flight (latency mode), so one buffer an object is enough: its copy was done before
the previous frame was taken.
*/

use anyhow::{Context, Result, ensure};

use cuda::{Event, Gpu, GpuError, Pinned, Stream, View};
use vos::logits::Exchange;

/// Pinned memory for one object's logits, allocated where it is needed.
#[derive(Debug, Default)]
pub struct LogitBuffers {
    saved: Option<Pinned>,
    taught: Option<Pinned>,
}

impl LogitBuffers {
    /// Allocates what `exchange` needs for logits of `bytes` bytes.
    pub fn make_room(
        &mut self,
        gpu: &Gpu,
        exchange: &Exchange<'_>,
        bytes: usize,
    ) -> Result<(), GpuError> {
        let needs = |buffer: &Option<Pinned>| buffer.as_ref().is_none_or(|it| it.len() != bytes);
        if exchange.save && needs(&self.saved) {
            self.saved = Some(Pinned::new(gpu, bytes)?);
        }
        if exchange.teacher.is_some() && needs(&self.taught) {
            self.taught = Some(Pinned::new(gpu, bytes)?);
        }
        Ok(())
    }

    /// Enqueues the copies of frame `t`, 0 for the prompted one, from and to `low`; it is written
    /// after `mask_made`.
    ///
    /// # Errors
    /// The teacher has no such frame, or logits of another size.
    pub fn enqueue(
        &mut self,
        exchange: &Exchange<'_>,
        t: usize,
        low: &View,
        mask_made: &Event,
        stream: &Stream,
    ) -> Result<()> {
        if exchange.save {
            self.saved.as_mut().context("there is no room for logits")?.download(low, stream)?;
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
        let buffer = self.taught.as_mut().context("there is no room for a teacher's logits")?;
        for (to, logit) in buffer.bytes()?.chunks_exact_mut(size_of::<f32>()).zip(logits) {
            to.copy_from_slice(&logit.to_f32().to_le_bytes());
        }
        stream.wait(mask_made)?;
        Ok(buffer.upload(low.len(), low, stream)?)
    }

    /// The network's logits of the finished frame, little-endian f32.
    pub fn saved(&mut self) -> Result<&[u8]> {
        Ok(self.saved.as_mut().context("no logits were saved")?.bytes()?)
    }
}
