/*!
The tracker: drives a [`Network`] over a clip, frame after frame, and times each stage.

It knows the order of the steps and the memory bank's schedule and nothing of devices.
*/

mod bank;
mod network;

use std::time::Instant;

use anyhow::{Result, bail};

pub use bank::{BankSchedule, Selection, Slots};
pub use network::{FrameOutput, Network, NetworkPrompt};

use crate::decode::RgbImage;
use crate::geometry::Geometry;
use crate::record::StageTimes;

/// One frame's result and what it took.
#[derive(Clone, Debug)]
pub struct Step {
    /// Mask and scores.
    pub output: FrameOutput,
    /// Each stage, ms.
    pub stages: StageTimes,
    /// The whole frame, from pixels on the host to a written memory, ms.
    pub latency_ms: f64,
}

/// One object's way through one clip.
pub struct Tracker<'a, N> {
    network: &'a mut N,
    bank: BankSchedule,
    next: usize,
    frames: usize,
}

impl<'a, N: Network> Tracker<'a, N> {
    /// Starts a clip of `frames` frames, the conditioning frame first.
    pub fn new(network: &'a mut N, geometry: &Geometry, frames: usize) -> Result<Self> {
        network.begin_clip(geometry)?;
        let bank = BankSchedule::new(&network.manifest().contract, frames);
        Ok(Self { network, bank, next: 0, frames })
    }

    /// The conditioning frame: prompt, mask, first memory.
    pub fn prompt(&mut self, frame: &RgbImage, prompt: &NetworkPrompt) -> Result<Step> {
        if self.next != 0 {
            bail!("the prompt belongs to the first frame, frame {} came", self.next);
        }
        self.step(frame, Some(prompt))
    }

    /// The next frame.
    pub fn track(&mut self, frame: &RgbImage) -> Result<Step> {
        if self.next == 0 || self.next >= self.frames {
            bail!("frame {} is outside the tracked frames 1..{}", self.next, self.frames);
        }
        self.step(frame, None)
    }

    fn step(&mut self, frame: &RgbImage, prompt: Option<&NetworkPrompt>) -> Result<Step> {
        let t = self.next;
        let mut times = StageTimes::default();
        let mut clock = StageClock::start();
        self.network.load(frame)?;
        times.preprocess_ms = Some(clock.lap());
        self.network.encode()?;
        times.encoder_ms = Some(clock.lap());
        match prompt {
            Some(prompt) => {
                self.network.prompt(prompt)?;
                times.prompt_ms = Some(clock.lap());
            }
            None => {
                self.network.track(&self.bank.selection(t))?;
                times.track_ms = Some(clock.lap());
            }
        }
        // The mask leaves before the memory is written: whoever waits for it waits less.
        let output = self.network.output()?;
        times.postprocess_ms = Some(clock.lap());
        self.network.memorise(self.bank.write_slots(t), t == 0)?;
        times.memory_ms = Some(clock.lap());
        self.next += 1;
        if !output.objectness.is_finite() || !output.predicted_iou.is_finite() {
            bail!(
                "non_finite: frame {t} of the clip gave objectness {} and predicted IoU {}; the \
                 network overflowed or its weights are damaged",
                output.objectness,
                output.predicted_iou
            );
        }
        Ok(Step { output, stages: times, latency_ms: clock.total() })
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
