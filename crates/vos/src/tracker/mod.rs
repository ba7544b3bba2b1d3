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

/// Tracks one object through one clip.
pub struct Tracker<'a, N> {
    network: &'a mut N,
    bank: BankSchedule,
    next: usize,
    frames: usize,
    exchange: Exchange<'a>,
}

impl<'a, N: Network> Tracker<'a, N> {
    /// Starts a clip of `frames` frames, the conditioning frame first.
    pub fn new(network: &'a mut N, geometry: &Geometry, frames: usize) -> Result<Self> {
        network.begin_clip(geometry)?;
        let bank = BankSchedule::new(&network.manifest().contract, frames);
        Ok(Self { network, bank, next: 0, frames, exchange: Exchange::default() })
    }

    /// Also outputs logits or takes a teacher's. Both are inside the frame's time, which is then
    /// not a valid measurement.
    #[must_use]
    pub fn exchanging(mut self, exchange: Exchange<'a>) -> Self {
        self.exchange = exchange;
        self
    }

    /// The network after the last frame.
    pub fn network(&self) -> &N {
        self.network
    }

    /// The conditioning frame: prompt, mask, first memory.
    pub fn prompt<'f>(
        &mut self,
        frame: impl Into<FrameInput<'f>>,
        prompt: &NetworkPrompt,
    ) -> Result<Step> {
        if self.next != 0 {
            bail!("the prompt belongs to the first frame, frame {} came", self.next);
        }
        self.step(frame.into(), Some(prompt))
    }

    /// The next frame.
    pub fn track<'f>(&mut self, frame: impl Into<FrameInput<'f>>) -> Result<Step> {
        if self.next == 0 || self.next >= self.frames {
            bail!("frame {} is outside the tracked frames 1..{}", self.next, self.frames);
        }
        self.step(frame.into(), None)
    }

    fn step(&mut self, frame: FrameInput<'_>, prompt: Option<&NetworkPrompt>) -> Result<Step> {
        let t = self.next;
        let mut times = StageTimes::default();
        let mut clock = StageClock::start();
        match frame {
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
        match prompt {
            Some(prompt) => {
                within(Stage::Prompt, || self.network.prompt(prompt))?;
                times[Stage::Prompt] = Some(clock.lap());
            }
            None => {
                within(Stage::Track, || self.network.track(&self.bank.selection(t)))?;
                times[Stage::Track] = Some(clock.lap());
            }
        }
        // The mask is output before the memory is written, so that it is available earlier.
        let output = within(Stage::Postprocess, || self.network.output())?;
        times[Stage::Postprocess] = Some(clock.lap());
        require_finite(output.objectness, output.predicted_iou, output.non_finite_logits)?;
        let logits = match self.exchange.save {
            true => Some(self.network.logits()?.iter().map(|&v| rounded(v)).collect()),
            false => None,
        };
        if let Some(teacher) = self.exchange.teacher {
            let missing = || format!("the teacher has {} frames of logits", teacher.frames());
            self.network.teach(teacher.frame(t).with_context(missing)?)?;
        }
        let slots = self.bank.write_slots(t);
        within(Stage::Memory, || self.network.memorise(slots, t == 0))?;
        times[Stage::Memory] = Some(clock.lap());
        self.next += 1;
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
mod tests {
    use super::*;
    use crate::bundle::Manifest;
    use crate::decode::RgbImage;
    use crate::geometry::GeometryKind;
    use crate::mask::Mask;
    use crate::prompt::Prompt;

    /// A network that records its calls.
    struct Recorder {
        manifest: Manifest,
        calls: Vec<String>,
        objectness: f32,
        logits: Vec<f32>,
    }

    impl Recorder {
        fn new() -> Self {
            let text = include_str!("../../../../tests/data/manifest/complete.toml");
            let manifest = toml::from_str(text).unwrap();
            Self { manifest, calls: Vec::new(), objectness: 3.0, logits: Vec::new() }
        }
    }

    impl Network for Recorder {
        fn manifest(&self) -> &Manifest {
            &self.manifest
        }
        fn begin_clip(&mut self, geometry: &Geometry) -> Result<()> {
            self.calls.push(format!("clip {:?}", geometry.video_size()));
            Ok(())
        }
        fn load(&mut self, frame: &RgbImage) -> Result<()> {
            self.calls.push(format!("load {}", frame.data[0]));
            Ok(())
        }
        fn encode(&mut self) -> Result<()> {
            self.calls.push("encode".into());
            Ok(())
        }
        fn prompt(&mut self, prompt: &NetworkPrompt) -> Result<()> {
            let text = match prompt {
                NetworkPrompt::Points { points, multimask } => {
                    format!("prompt {:?} multimask {multimask}", points.labels)
                }
                NetworkPrompt::Mask(_) => "prompt mask".into(),
            };
            self.calls.push(text);
            Ok(())
        }
        fn track(&mut self, selection: &Selection) -> Result<()> {
            self.calls.push(format!("track {:?}", selection.temporal_rows));
            Ok(())
        }
        fn output(&mut self) -> Result<FrameOutput> {
            self.calls.push("output".into());
            Ok(FrameOutput {
                mask: Mask::new(8, 6),
                objectness: self.objectness,
                predicted_iou: 0.5,
                selection: None,
                non_finite_logits: self.logits.iter().filter(|logit| !logit.is_finite()).count(),
            })
        }
        fn logits(&self) -> Result<&[f32]> {
            Ok(&self.logits)
        }
        fn teach(&mut self, logits: &[f16]) -> Result<()> {
            self.calls.push(format!("teach {}", logits[0]));
            Ok(())
        }
        fn memorise(&mut self, slots: Slots, binarise: bool) -> Result<()> {
            self.calls.push(format!("memorise {} {} {binarise}", slots.memory, slots.pointer));
            Ok(())
        }
    }

    fn frame(value: u8) -> RgbImage {
        RgbImage { width: 8, height: 6, data: vec![value; 8 * 6 * 3] }
    }

    #[test]
    fn each_frame_runs_its_steps_in_order() {
        let mut network = Recorder::new();
        let geometry = Geometry::new(GeometryKind::Stretch, 8, 6, 256);
        let click = NetworkPrompt::new(&Prompt::Point { x: 3.0, y: 2.0 }, &geometry);
        let mut tracker = Tracker::new(&mut network, &geometry, 3).unwrap();
        assert!(tracker.track(&frame(9)).is_err(), "the prompt comes first");
        let first = tracker.prompt(&frame(0), &click).unwrap();
        assert!(first.stages[Stage::Prompt].is_some() && first.stages[Stage::Track].is_none());
        assert!(tracker.prompt(&frame(0), &click).is_err(), "there is one prompt");
        let later = tracker.track(&frame(1)).unwrap();
        assert!(later.stages[Stage::Prompt].is_none() && later.stages[Stage::Track].is_some());
        tracker.track(&frame(2)).unwrap();
        assert!(tracker.track(&frame(3)).is_err(), "the clip has three frames");
        let expected = [
            "clip (8, 6)",
            "load 0",
            "encode",
            "prompt [1] multimask true",
            "output",
            "memorise 0 0 true",
            "load 1",
            "encode",
            "track [6]",
            "output",
            "memorise 1 1 false",
            "load 2",
            "encode",
            "track [6, 0]",
            "output",
            "memorise 2 2 false",
        ];
        assert_eq!(network.calls, expected);
    }

    #[test]
    fn a_teachers_logits_come_between_the_mask_and_the_memory() {
        use crate::logits::LogitsFile;
        let mut network = Recorder::new();
        network.logits = vec![0.1, -70000.0];
        let values = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0].map(f16::from_f32);
        let teacher = LogitsFile::new(2, values.to_vec()).unwrap();
        let geometry = Geometry::new(GeometryKind::Stretch, 8, 6, 256);
        let click = NetworkPrompt::new(&Prompt::Point { x: 3.0, y: 2.0 }, &geometry);
        let exchange = Exchange { save: true, teacher: Some(&teacher) };
        let mut tracker = Tracker::new(&mut network, &geometry, 3).unwrap().exchanging(exchange);
        let first = tracker.prompt(&frame(0), &click).unwrap();
        assert_eq!(first.logits.unwrap(), [f16::from_f32(0.1), f16::MIN], "its own, rounded");
        tracker.track(&frame(1)).unwrap();
        let error = tracker.track(&frame(2)).unwrap_err().to_string();
        assert!(error.contains("the teacher has 2 frames"), "{error}");
        let taught = network.calls.iter().position(|call| call == "teach 2").unwrap();
        assert_eq!(
            network.calls[taught - 1..=taught + 1],
            ["output", "teach 2", "memorise 1 1 false"]
        );
    }

    #[test]
    fn a_box_takes_the_single_mask_output() {
        let geometry = Geometry::new(GeometryKind::Stretch, 8, 6, 256);
        let prompt = Prompt::Box { x_min: 1.0, y_min: 1.0, x_max: 5.0, y_max: 4.0 };
        match NetworkPrompt::new(&prompt, &geometry) {
            NetworkPrompt::Points { points, multimask } => {
                assert_eq!((points.labels, multimask), (vec![2, 3], false));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_score_that_is_no_number_stops_the_clip() {
        let mut network = Recorder::new();
        network.objectness = f32::NAN;
        let geometry = Geometry::new(GeometryKind::Stretch, 8, 6, 256);
        let click = NetworkPrompt::new(&Prompt::Point { x: 3.0, y: 2.0 }, &geometry);
        let mut tracker = Tracker::new(&mut network, &geometry, 1).unwrap();
        let error = tracker.prompt(&frame(0), &click).unwrap_err().to_string();
        assert!(error.contains("objectness NaN"), "{error}");
    }

    #[test]
    fn a_logit_that_is_no_number_stops_the_clip_before_it_enters_the_memory() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut network = Recorder::new();
            network.logits = vec![0.5, bad, -0.5];
            let geometry = Geometry::new(GeometryKind::Stretch, 8, 6, 256);
            let click = NetworkPrompt::new(&Prompt::Point { x: 3.0, y: 2.0 }, &geometry);
            let mut tracker = Tracker::new(&mut network, &geometry, 1).unwrap();
            let error = tracker.prompt(&frame(0), &click).unwrap_err();
            assert_eq!(error.downcast_ref::<NonFinite>().unwrap().logits, 1, "{bad}");
            assert!(network.calls.iter().all(|call| !call.starts_with("memorise")), "{bad}");
        }
    }
}
