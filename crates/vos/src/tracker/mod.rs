/*!
The tracker: runs a [`Network`] over a clip, frame by frame, and times each stage.

It implements the order of the steps and the schedule of the memory bank, independent of devices.
*/

mod bank;
mod finite;
mod network;

use std::time::Instant;

use anyhow::{Context, Result, bail};
use half::f16;

pub use bank::{BankSchedule, Selection, Slots};
pub use finite::{NonFinite, require_finite};
pub use network::{FrameInput, FrameOutput, Network, NetworkPrompt};

use crate::geometry::Geometry;
use crate::logits::{Exchange, rounded};
use crate::ranges::within;
use crate::record::StageTimes;
use crate::stage::Stage;

/// One frame's result and times.
#[derive(Clone, Debug)]
pub struct Step {
    /// Mask and scores.
    pub output: FrameOutput,
    /// Each stage, ms.
    pub stages: StageTimes,
    /// The whole frame, from pixels on the host to the written memory, ms.
    pub latency_ms: f64,
    /// The network's low-resolution logits, if requested.
    pub logits: Option<Vec<f16>>,
}

/// Tracks objects through one clip. They share each frame's features; every object has a bank.
pub struct Tracker<'a, N> {
    network: &'a mut N,
    objects: Vec<ObjectTrack<'a>>,
}

/// One object's schedule and its place in it.
struct ObjectTrack<'a> {
    bank: BankSchedule,
    next: usize,
    frames: usize,
    exchange: Exchange<'a>,
}

/// A frame whose features the network holds, and the clock of its stages.
pub struct Encoded {
    times: StageTimes,
    clock: StageClock,
}

impl<'a, N: Network> Tracker<'a, N> {
    /// Starts a clip of `frames` frames for one object, the conditioning frame first.
    ///
    /// # Errors
    /// The network cannot prepare for the clip.
    pub fn new(network: &'a mut N, geometry: &Geometry, frames: usize) -> Result<Self> {
        Self::of_objects(network, geometry, [(frames, Exchange::default())])
    }

    /// Starts a clip for several objects: of each the number of its frames, the conditioning frame
    /// first, and the logits that it outputs or takes from a teacher. Logits are inside the frame's
    /// time, which is then not a valid measurement.
    ///
    /// # Errors
    /// The network cannot prepare for the clip.
    pub fn of_objects(
        network: &'a mut N,
        geometry: &Geometry,
        objects: impl IntoIterator<Item = (usize, Exchange<'a>)>,
    ) -> Result<Self> {
        network.begin_clip(geometry)?;
        let contract = &network.manifest().contract;
        let objects = objects.into_iter().map(|(frames, exchange)| {
            let bank = BankSchedule::new(contract, frames);
            ObjectTrack { bank, next: 0, frames, exchange }
        });
        let objects = objects.collect();
        Ok(Self { network, objects })
    }

    /// Outputs the first object's logits or takes a teacher's; see [`Tracker::of_objects`].
    #[must_use]
    pub fn exchanging(mut self, exchange: Exchange<'a>) -> Self {
        self.objects.iter_mut().take(1).for_each(|object| object.exchange = exchange);
        self
    }

    /// The network after the last frame.
    pub fn network(&self) -> &N {
        self.network
    }

    /// The conditioning frame of the first object: prompt, mask, first memory.
    ///
    /// # Errors
    /// It is not the first frame, or the network fails.
    pub fn prompt<'f>(
        &mut self,
        frame: impl Into<FrameInput<'f>>,
        prompt: &NetworkPrompt,
    ) -> Result<Step> {
        self.check(0, Some(prompt))?;
        let mut encoded = self.encode(frame)?;
        self.step(&mut encoded, 0, Some(prompt))
    }

    /// The next frame of the first object.
    ///
    /// # Errors
    /// There was no prompt, the clip has no such frame, or the network fails.
    pub fn track<'f>(&mut self, frame: impl Into<FrameInput<'f>>) -> Result<Step> {
        self.check(0, None)?;
        let mut encoded = self.encode(frame)?;
        self.step(&mut encoded, 0, None)
    }

    fn check(&self, object: usize, prompt: Option<&NetworkPrompt>) -> Result<()> {
        let track = self.objects.get(object);
        let ObjectTrack { next, frames, .. } =
            track.with_context(|| format!("the clip was not started for object {object}"))?;
        if prompt.is_some() && *next != 0 {
            bail!("the prompt belongs to the first frame, frame {next} came");
        }
        if prompt.is_none() && (*next == 0 || next >= frames) {
            bail!("frame {next} is outside the tracked frames 1..{frames}");
        }
        Ok(())
    }

    /// Runs the image encoder on the next frame, once for all objects.
    ///
    /// # Errors
    /// The network does not take the frame, or fails.
    pub fn encode<'f>(&mut self, frame: impl Into<FrameInput<'f>>) -> Result<Encoded> {
        let mut times = StageTimes::default();
        let mut clock = StageClock::start();
        match frame.into() {
            FrameInput::Pixels(image) => {
                within(Stage::Preprocess, || self.network.load(image))?;
                times[Stage::Preprocess] = Some(clock.lap());
            }
            // The frame is already resized; only the copy to the network remains.
            FrameInput::Prepared(prepared) => {
                within(Stage::Upload, || self.network.load_prepared(&prepared))?;
                times[Stage::Upload] = Some(clock.lap());
            }
        }
        within(Stage::Encoder, || self.network.encode())?;
        times[Stage::Encoder] = Some(clock.lap());
        Ok(Encoded { times, clock })
    }

    /// One object's step on an encoded frame: its prompt step with a `prompt`, else its track step.
    /// The latency counts from the frame's beginning, with the steps of the objects before it.
    ///
    /// # Errors
    /// The object has no such step on this frame, the network fails, or its logits are not finite.
    pub fn step(
        &mut self,
        encoded: &mut Encoded,
        object: usize,
        prompt: Option<&NetworkPrompt>,
    ) -> Result<Step> {
        self.check(object, prompt)?;
        let Encoded { times, clock } = encoded;
        let mut times = *times;
        let track = self.objects.get_mut(object).context("the clip was not started for it")?;
        let t = track.next;
        self.network.select_object(object)?;
        match prompt {
            Some(prompt) => {
                within(Stage::Prompt, || self.network.prompt(prompt))?;
                times[Stage::Prompt] = Some(clock.lap());
            }
            None => {
                within(Stage::Track, || self.network.track(&track.bank.selection(t)))?;
                times[Stage::Track] = Some(clock.lap());
            }
        }
        // The mask is output before the memory is written, so that it is available earlier.
        let output = within(Stage::Postprocess, || self.network.output())?;
        times[Stage::Postprocess] = Some(clock.lap());
        require_finite(output.objectness, output.predicted_iou, output.non_finite_logits)?;
        let logits = match track.exchange.save {
            true => Some(self.network.logits()?.iter().map(|&v| rounded(v)).collect()),
            false => None,
        };
        if let Some(teacher) = track.exchange.teacher {
            let missing = || format!("the teacher has {} frames of logits", teacher.frames());
            self.network.teach(teacher.frame(t).with_context(missing)?)?;
        }
        let slots = track.bank.write_slots(t);
        within(Stage::Memory, || self.network.memorise(slots, t == 0))?;
        times[Stage::Memory] = Some(clock.lap());
        track.next += 1;
        Ok(Step { output, stages: times, latency_ms: clock.total(), logits })
    }
}

struct StageClock {
    first: Instant,
    last: Instant,
}

impl StageClock {
    fn start() -> Self {
        let now = Instant::now();
        Self { first: now, last: now }
    }

    /// Milliseconds since the last lap.
    fn lap(&mut self) -> f64 {
        let now = Instant::now();
        let took = now - self.last;
        self.last = now;
        took.as_secs_f64() * 1e3
    }

    /// Milliseconds from the start to the last lap.
    fn total(&self) -> f64 {
        (self.last - self.first).as_secs_f64() * 1e3
    }
}

#[cfg(test)]
mod tests;
