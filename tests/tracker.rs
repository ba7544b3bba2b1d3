//! The tracker against Meta's own predictor: `onnx/make_tracker_golden.py` ran it with the same weights.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use runtime::backend::OrtNetwork;
use runtime::backend::Provider;
use serde_json::Value;
use vos::bundle::Bundle;
use vos::decode::RgbImage;
use vos::geometry::{Geometry, GeometryKind};
use vos::mask::Mask;
use vos::prompt::{Click, Clicks, Prompt};
use vos::tracker::{BankSchedule, Network, NetworkPrompt, Tracker};

use crate::support::{onnxruntime, small_bundle};

fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tracker").join(name);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Frame `t` of the golden clip, by the formula that the golden file states.
fn frame(side: usize, t: usize) -> RgbImage {
    let (cx, cy) = ((side / 3 + 4 * t) as i64, (side / 2 + 2 * t - t * t / 8) as i64);
    let radius = (side / 6) as i64;
    let mut data = Vec::with_capacity(3 * side * side);
    for y in 0..side {
        for x in 0..side {
            let (dx, dy) = (x as i64 - cx, y as i64 - cy);
            let pixel = if dx * dx + dy * dy <= radius * radius {
                [200 + (3 * x + y) % 48, 40 + (x + 5 * y) % 24, 60]
            } else {
                [(2 * x + 3 * t) % 128, (x + 2 * y) % 128, ((x ^ y) + 5 * t) % 128]
            };
            data.extend(pixel.map(|value| value as u8));
        }
    }
    RgbImage { width: side, height: side, data }
}

#[test]
fn a_closed_loop_of_twenty_frames_equals_the_original_predictor() {
    let golden = golden("edgetam_mini_20.json");
    let bundle = Bundle::open(&small_bundle()).unwrap();
    let mut network = OrtNetwork::open(onnxruntime(), &bundle, Provider::Cpu, 1, false).unwrap();
    let side = bundle.manifest.model.imgsz;
    let geometry = Geometry::new(GeometryKind::Stretch, side, side, side);
    let frames = golden["frames"].as_array().unwrap();
    let [x, y] = [0, 1].map(|i| golden["click"][i].as_f64().unwrap() as f32);
    let click = NetworkPrompt::new(&Prompt::Point { x, y }, &geometry);
    let mut tracker = Tracker::new(&mut network, &geometry, frames.len()).unwrap();
    for (t, expected) in frames.iter().enumerate() {
        let image = frame(side, t);
        let step = if t == 0 { tracker.prompt(&image, &click) } else { tracker.track(&image) };
        let output = step.unwrap().output;
        let low = tracker.network().logits().unwrap();
        let places = golden["sampled_logits"].as_array().unwrap();
        for (place, value) in places.iter().zip(expected["logits"].as_array().unwrap()) {
            let found = f64::from(low[place.as_u64().unwrap() as usize]);
            let difference = (found - value.as_f64().unwrap()).abs();
            // The original rounds memories to bfloat16 (8 bits); everything else is exact to f32.
            assert!(difference < 0.02, "frame {t}, logit {place}: {found} instead of {value}");
        }
        let area = low.iter().filter(|&&v| v > 0.0).count() as f64;
        let expected_area = expected["area"].as_f64().unwrap();
        assert!(
            (area - expected_area).abs() <= 0.02 * expected_area + 4.0,
            "frame {t}: area {area}"
        );
        let score = expected["score"].as_f64().unwrap();
        assert!((f64::from(output.objectness) - score).abs() < 0.02, "frame {t}: {output:?}");
        let iou = expected["iou"].as_f64().unwrap();
        assert!((f64::from(output.predicted_iou) - iou).abs() < 0.01, "frame {t}: {output:?}");
    }
}

/// Clicks of both kinds, with and without a box, and a mask: Meta's predictor was given each in one call.
#[test]
fn every_kind_of_prompt_gives_the_logits_of_the_original_predictor() {
    let golden = golden("edgetam_mini_prompts.json");
    let bundle = Bundle::open(&small_bundle()).unwrap();
    let mut network = OrtNetwork::open(onnxruntime(), &bundle, Provider::Cpu, 1, true).unwrap();
    let side = bundle.manifest.model.imgsz;
    let geometry = Geometry::new(GeometryKind::Stretch, side, side, side);
    let numbers = |value: &Value| -> Vec<f32> {
        value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect()
    };
    let places = golden["sampled_logits"].as_array().unwrap();
    for clip in golden["clips"].as_array().unwrap() {
        let name = clip["name"].as_str().unwrap();
        let points = clip["points"].as_array().unwrap().iter().map(&numbers);
        let clicks = points.zip(numbers(&clip["labels"])).map(|(at, label)| Click {
            x: at[0],
            y: at[1],
            positive: label == 1.0,
        });
        let corners = clip["box"].is_array().then(|| numbers(&clip["box"]));
        let bbox = corners.map(|corners| <[f32; 4]>::try_from(corners).unwrap());
        let prompt = match clip["disc"].is_array().then(|| numbers(&clip["disc"])) {
            Some(disc) => Prompt::Mask(Mask::from_fn(side, side, |x, y| {
                (x as f32 - disc[0]).hypot(y as f32 - disc[1]) <= disc[2]
            })),
            None => Prompt::Clicks(Clicks { bbox, clicks: clicks.collect() }),
        };
        let prompt = NetworkPrompt::new(&prompt, &geometry);
        let frames = clip["frames"].as_array().unwrap();
        let mut tracker = Tracker::new(&mut network, &geometry, frames.len()).unwrap();
        for (t, expected) in frames.iter().enumerate() {
            let image = frame(side, t);
            let step = if t == 0 { tracker.prompt(&image, &prompt) } else { tracker.track(&image) };
            let output = step.unwrap().output;
            let low = tracker.network().logits().unwrap();
            // The prompted frame has no memory, which the original rounds to bfloat16.
            let limit = if t == 0 { 1e-3 } else { 0.02 };
            for (place, value) in places.iter().zip(expected["logits"].as_array().unwrap()) {
                let found = f64::from(low[place.as_u64().unwrap() as usize]);
                let difference = (found - value.as_f64().unwrap()).abs();
                assert!(difference < limit, "{name}, frame {t}, logit {place}: {found}, {value}");
            }
            let score = expected["score"].as_f64().unwrap();
            let found = f64::from(output.objectness);
            assert!((found - score).abs() < limit, "{name}, frame {t}: {output:?}, {score}");
            let iou = expected["iou"].as_f64().unwrap();
            let found = f64::from(output.predicted_iou);
            assert!((found - iou).abs() < 0.01, "{name}, frame {t}: {output:?}, {iou}");
        }
    }
}

#[test]
fn the_bank_reads_the_frames_that_the_original_reads() {
    let mut contract = Bundle::open(&small_bundle()).unwrap().manifest.contract;
    contract.pointer_times = true;
    for clip in golden("bank_sam2.1.json")["clips"].as_array().unwrap() {
        let frames = clip["num_frames"].as_u64().unwrap() as usize;
        let bank = BankSchedule::new(&contract, frames);
        let (mut memories, mut pointers) = (BTreeMap::new(), BTreeMap::new());
        for t in 0..frames {
            if let Some(expected) = clip["frames"].as_array().unwrap().get(t.wrapping_sub(1)) {
                assert_eq!(expected["frame"].as_u64(), Some(t as u64));
                let selection = bank.selection(t);
                let rows = selection.temporal_rows.iter().enumerate();
                let mut read: Vec<[i64; 2]> =
                    rows.map(|(slot, &row)| [memories[&slot], i64::from(row)]).collect();
                let mut wanted: Vec<[i64; 2]> =
                    serde_json::from_value(expected["memories"].clone()).unwrap();
                read.sort_unstable();
                wanted.sort_unstable();
                assert_eq!(read, wanted, "memories of frame {t} of {frames}");
                let wanted: BTreeMap<i64, f64> = expected["pointers"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .zip(expected["ptr_t"].as_array().unwrap())
                    .map(|(frame, time)| (frame.as_i64().unwrap(), time.as_f64().unwrap()))
                    .collect();
                assert_eq!(selection.pointers(), wanted.len());
                for (slot, &time) in selection.pointer_times.iter().enumerate() {
                    let difference = (f64::from(time) - wanted[&pointers[&slot]]).abs();
                    assert!(difference < 1e-6, "pointer {slot} of frame {t} of {frames}");
                }
            }
            let slots = bank.write_slots(t);
            memories.insert(slots.memory, t as i64);
            pointers.insert(slots.pointer, t as i64);
        }
    }
}
