//! The mask decoder's selection among its candidate masks: frames on which two sides selected
//! another one.

use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use serde_json::Value;
use vos::files::sha256_of_file;

use super::judge::changed;
use super::shared::{base, compare, edit_masks, edit_passes, empty, json as read, run, side};
use crate::support::{bench, copy, small_bundle};

/// The last bias of the predicted IoUs, one number a mask token.
const BIAS: &str = "sam_mask_decoder.iou_prediction_head.layers.2.bias";
/// The shift of one mask's bias, in logits: more than some of the small network's margins.
const SHIFT: f32 = 0.006;

#[test]
fn flips_have_the_margin_of_the_reference_and_the_ious_around_them() {
    let dir = tempfile::tempdir().unwrap();
    let said = changed(dir.path(), |run| {
        edit_passes(run, |pass| {
            let times = &mut pass["frame_times"];
            let mask = times["chosen_mask"][3].as_u64().unwrap();
            times["chosen_mask"][3] = (mask % 3 + 1).into();
            // Another's IoUs have no part in the margin.
            times["iou_predictions"][3] = serde_json::json!([0.1, 0.9, 0.5]);
        });
        edit_masks(run, |frames| empty(&mut frames[3]));
    });
    let found = read(&dir.path().join("cmp/comparison.json"));
    let flips = &side(&found, "b")["chosen_mask_flips"];
    assert_eq!((&flips["flipped"], &flips["frames"]), (&2.into(), &16.into()), "{flips}");
    let sidecar = read(&dir.path().join("a/sidecar.json"));
    let times = &sidecar["passes"][0]["frame_times"];
    let b_sidecar = read(&dir.path().join("b/sidecar.json"));
    let b_times = &b_sidecar["passes"][0]["frame_times"];
    let flip = &flips["listed"][0];
    assert_eq!(flip["margin"].as_f64().unwrap(), margin(times, b_times, 3));
    assert_eq!((&flip["frame"], &flip["reference"]), (&3.into(), &as_float(times, 3)));
    assert_eq!((&flip["iou_before"], &flip["iou"]), (&1.0.into(), &0.0.into()), "{flip}");

    let text = fs::read_to_string(dir.path().join("cmp/comparison.md")).unwrap();
    assert!(text.contains("- edgetam_mini_points, b: 2 of 16 frames"), "{text}");
    assert!(text.contains(" | 1.0000 | 0.0000 |"), "{text}");
    assert!(said.out.contains("the selected mask differs on 2 of 16 frames"), "{}", said.out);
}

#[test]
fn a_decoder_with_another_bias_selects_other_masks() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = dir.path().join("bundles/edgetam_mini_256_fp32");
    copy(&small_bundle(), &bundle);
    shift_bias(&bundle, 2);
    let other = dir.path().join("other");
    let mut bench = bench(&base().split, &other);
    bench.args(["--save-masks", "--metrics", "official"]).arg("--onnx-dir").arg(&bundle);
    bench.assert().success();

    let out = dir.path().join("cmp");
    let said = run(compare(&out)
        .arg("--runs")
        .arg(format!("same={}", base().run.display()))
        .arg(format!("other={}", other.display())));
    let found = read(&out.join("comparison.json"));
    let flips = &side(&found, "other")["chosen_mask_flips"];
    assert_eq!(flips["frames"], 16, "{flips} {}", said.err);
    // As the sidecars have it.
    let (same, other) = (read(&base().run.join("sidecar.json")), read(&other.join("sidecar.json")));
    let mut expected = Vec::new();
    for at in 0..2 {
        let [same, other] = [&same, &other].map(|file| &file["passes"][at]["frame_times"]);
        for frame in 0..8 {
            let ious: Vec<f64> =
                serde_json::from_value(other["iou_predictions"][frame].clone()).unwrap();
            let best = ious.iter().copied().fold(0.0, f64::max);
            let chosen = 1 + ious.iter().position(|iou| *iou == best).unwrap();
            assert_eq!(other["chosen_mask"][frame], chosen, "{ious:?}");
            assert!((other["predicted_iou"][frame].as_f64().unwrap() - best).abs() < 1e-6);
            if same["chosen_mask"][frame] != other["chosen_mask"][frame] {
                expected.push((frame, margin(same, other, frame)));
            }
        }
    }
    assert!(!expected.is_empty() && expected.len() < 16, "{expected:?}");
    let listed = flips["listed"].as_array().unwrap();
    assert_eq!(
        (flips["flipped"].as_u64(), listed.len()),
        (Some(expected.len() as u64), expected.len())
    );
    for (flip, (frame, margin)) in listed.iter().zip(&expected) {
        assert_eq!((&flip["frame"], flip["margin"].as_f64()), (&(*frame).into(), Some(*margin)));
        assert_eq!(flip["iou_before"].is_null(), *frame == 0, "{flip}");
        assert!(flip["iou"].as_f64().is_some_and(|iou| iou > 0.5), "{flip}");
    }
}

/// Lowers the predicted IoU of mask token `token` in both graphs that select a mask.
fn shift_bias(bundle: &Path, token: usize) {
    let checkpoint = fs::read(bundle.join("edgetam_mini.safetensors")).unwrap();
    let halves =
        SafeTensors::deserialize(&checkpoint).unwrap().tensor(BIAS).unwrap().data().to_vec();
    let floats = halves.chunks(2).map(|half| half::f16::from_le_bytes([half[0], half[1]]).to_f32());
    let mut values: Vec<f32> = floats.collect();
    let bytes =
        |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let before = bytes(&values);
    values[token] -= SHIFT;
    let after = bytes(&values);
    let manifest = bundle.join("manifest.toml");
    let mut text = fs::read_to_string(&manifest).unwrap();
    for name in ["prompt.onnx", "track.onnx"] {
        let path = bundle.join(name);
        let mut graph = fs::read(&path).unwrap();
        let places: Vec<usize> = (0..graph.len() - before.len())
            .filter(|at| graph[*at..].starts_with(&before))
            .collect();
        assert_eq!(places.len(), 1, "{name}");
        let old = sha256_of_file(&path).unwrap().sha256;
        graph[places[0]..][..after.len()].copy_from_slice(&after);
        fs::write(&path, graph).unwrap();
        text = text.replace(&old, &sha256_of_file(&path).unwrap().sha256);
    }
    fs::write(&manifest, text).unwrap();
}

/// The reference's predicted IoU of its mask minus that of the side's mask.
fn margin(reference: &Value, side: &Value, frame: usize) -> f64 {
    let iou = |times: &Value| {
        let mask = times["chosen_mask"][frame].as_u64().unwrap() as usize;
        reference["iou_predictions"][frame][mask - 1].as_f64().unwrap()
    };
    iou(reference) - iou(side)
}

fn as_float(times: &Value, frame: usize) -> Value {
    times["chosen_mask"][frame].as_f64().unwrap().into()
}
