//! What is no finite number fails its object by name, whoever brought it in: weights, an engine, a
//! file of frames.

use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use vos::bundle::Role;
use vos::files::sha256_of_file;

use crate::bench_gpu::{PADDED, Setting};
use crate::support::{bench, column, copy, segtrt, small_bundle, synth};

const SUMMARY: &str = "sav_benchmark_summary.csv";

/// Writes NaN over all values of a weight of `graph` and corrects the manifest.
fn spoil(bundle: &Path, graph: &str, weight: &str) {
    let path = bundle.join(graph);
    let old = sha256_of_file(&path).unwrap().sha256;
    let mut bytes = fs::read(&path).unwrap();
    // A TensorProto's name (field 8) and its raw data (field 9), of fewer than 128 bytes.
    let field = [&[0x42, weight.len() as u8], weight.as_bytes(), &[0x4a]].concat();
    let at = bytes.windows(field.len()).position(|part| part == field).unwrap() + field.len();
    let length = usize::from(bytes[at]);
    assert!(length < 128 && length % 4 == 0, "{length} bytes of {weight}");
    for value in bytes[at + 1..=at + length].chunks_exact_mut(4) {
        value.copy_from_slice(&f32::NAN.to_le_bytes());
    }
    fs::write(&path, bytes).unwrap();
    let manifest = bundle.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let new = sha256_of_file(&path).unwrap().sha256;
    assert!(text.contains(&old));
    fs::write(&manifest, text.replace(&old, &new)).unwrap();
}

#[test]
fn a_mask_of_no_numbers_fails_its_object_though_its_scores_are_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let bundles = dir.path().join("bundles");
    let name = small_bundle().file_name().unwrap().to_owned();
    copy(&small_bundle(), &bundles.join(&name));
    let out = dir.path().join("out");
    bench(&split, &out).arg("--onnx-dir").arg(&bundles).assert().success();
    assert_eq!(column(&out.join(SUMMARY), "non_finite_logits"), ["0"]);
    // The upscaling of the logits alone: neither score comes by it.
    spoil(&bundles.join(&name), "prompt.onnx", "decoder.up_norm.bias");
    let out = dir.path().join("spoilt");
    bench(&split, &out).arg("--onnx-dir").arg(&bundles).assert().failure();
    let summary = out.join(SUMMARY);
    assert_eq!(column(&summary, "status"), ["failed"]);
    let reason = &column(&summary, "reason")[0];
    assert!(reason.starts_with("non_finite: frame 0 of the clip gave objectness "), "{reason}");
    assert!(!reason.contains("NaN") && reason.contains(" 4096 logits"), "{reason}");
    assert_eq!(column(&summary, "non_finite_logits"), ["4096"]);
    assert_eq!(column(&summary, "J"), [""]);
}

#[test]
fn the_gpus_mask_kernel_counts_what_is_no_number() {
    let Some(setting) = Setting::new(2, 6, &PADDED) else { return };
    setting.gpu("fine").assert().success();
    assert_eq!(setting.column("fine", "non_finite_logits"), ["0", "0"]);
    let spoilt = |spoilt: Role| {
        let behave = |role| if role == spoilt { "nan_logits" } else { "ok" };
        setting.engines(&PADDED.map(|role| (role, behave(role))));
    };
    for (role, frame) in [(Role::Prompt, 0), (Role::TrackPadded, 1)] {
        spoilt(role);
        for mode in ["latency", "throughput"] {
            let out = format!("{mode}{frame}");
            setting.gpu(&out).args(["--mode", mode]).assert().failure();
            assert_eq!(setting.column(&out, "status"), ["failed", "failed"]);
            for reason in setting.column(&out, "reason") {
                let start = format!("non_finite: frame {frame} of the clip gave objectness ");
                assert!(reason.starts_with(&start) && reason.contains(" 2 logits"), "{reason}");
            }
            assert_eq!(setting.column(&out, "non_finite_logits"), ["2", "2"]);
        }
    }
}

#[test]
fn predecoded_frames_of_no_numbers_are_blamed_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let ready = dir.path().join("ready");
    let mut command = segtrt();
    command.args(["predecode", "--imgsz", "256", "--values", "f16", "--out-dir"]).arg(&ready);
    command.arg("--split-dir").arg(&split).assert().success();
    let path = ready.join("synth_000__256_stretch_f16.frames");
    let mut bytes = fs::read(&path).unwrap();
    // The last value of the second frame, and a checksum that is right.
    let end = bytes.len() - 32;
    let at = 4096 + 2 * (2 * 3 * 256 * 256) - 2;
    bytes[at..at + 2].copy_from_slice(&half::f16::NAN.to_le_bytes());
    let hash = Sha256::digest(&bytes[..end]);
    bytes[end..].copy_from_slice(&hash);
    fs::write(&path, bytes).unwrap();
    let out = dir.path().join("out");
    bench(&split, &out).arg("--predecoded").arg(&ready).assert().failure();
    let reason = &column(&out.join(SUMMARY), "reason")[0];
    assert!(reason.starts_with("predecoded_damaged: "), "{reason}");
    for part in ["synth_000__256_stretch_f16.frames", "frame 1 has values", "segtrt predecode"] {
        assert!(reason.contains(part), "no {part:?} in {reason}");
    }
}
