use super::*;
use crate::bundle::Manifest;
use crate::decode::RgbImage;
use crate::geometry::GeometryKind;
use crate::mask::Mask;
use crate::prompt::{Click, Clicks, Prompt};

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
    fn select_object(&mut self, object: usize) -> Result<()> {
        if object > 0 {
            self.calls.push(format!("object {object}"));
        }
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
fn objects_share_the_encoder_and_have_banks_of_their_own() {
    let mut network = Recorder::new();
    let geometry = Geometry::new(GeometryKind::Stretch, 8, 6, 256);
    let click = NetworkPrompt::new(&Prompt::Point { x: 3.0, y: 2.0 }, &geometry);
    let objects = [(2, Exchange::default()), (1, Exchange::default())];
    let mut tracker = Tracker::of_objects(&mut network, &geometry, objects).unwrap();
    let mut encoded = tracker.encode(&frame(0)).unwrap();
    let first = tracker.step(&mut encoded, 0, Some(&click)).unwrap();
    // The second object begins a frame later.
    let mut encoded = tracker.encode(&frame(1)).unwrap();
    tracker.step(&mut encoded, 0, None).unwrap();
    let last = tracker.step(&mut encoded, 1, Some(&click)).unwrap();
    assert!(first.latency_ms > 0.0 && last.latency_ms > 0.0);
    assert!(tracker.step(&mut encoded, 2, None).is_err(), "there are two objects");
    assert!(tracker.step(&mut encoded, 1, None).is_err(), "it has one frame");
    let calls = network.calls.iter().filter(|call| !call.starts_with("clip"));
    let expected = [
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
        "object 1",
        "prompt [1] multimask true",
        "output",
        "memorise 0 0 true",
    ];
    assert!(calls.eq(expected.iter()), "{:?}", network.calls);
}

#[test]
fn clicks_go_to_the_network_as_metas_predictor_sends_them() {
    let geometry = Geometry::new(GeometryKind::Stretch, 2000, 1000, 500);
    let click = |x, y, positive| Click { x, y, positive };
    let points = |bbox, clicks| {
        let prompt = Prompt::Clicks(Clicks { bbox, clicks });
        match NetworkPrompt::new(&prompt, &geometry) {
            NetworkPrompt::Points { points, multimask } => (points, multimask),
            other => panic!("{other:?}"),
        }
    };
    // Not clipped to the last pixel of the network's input, 499.
    let (one, multimask) = points(None, vec![click(1999.0, 500.0, true)]);
    assert_eq!((one.coords, one.labels, multimask), (vec![[499.75, 250.0]], vec![1], true));
    let two = vec![click(100.0, 500.0, true), click(200.0, 20.0, false)];
    let (with_box, multimask) = points(Some([0.0, 10.0, 400.0, 600.0]), two);
    assert_eq!((with_box.labels, multimask), (vec![2, 3, 1, 0], false));
    let expected = [[0.0, 5.0], [100.0, 300.0], [25.0, 250.0], [50.0, 10.0]];
    assert_eq!(with_box.coords, expected);
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
    assert_eq!(network.calls[taught - 1..=taught + 1], ["output", "teach 2", "memorise 1 1 false"]);
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
