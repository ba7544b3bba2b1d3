/*!
The resizers against the libraries that they stand in for. The golden files are
made by `data/preprocess/make_golden.py`; the inputs are generated on both sides
by the same little generator.
*/

use std::path::Path;
use std::process::Command;

use crate::bench_gpu::{PADDED, Setting};
use sha2::{Digest as _, Sha256};
use vos::decode::RgbImage;
use vos::geometry::{Geometry, GeometryKind};
use vos::mask::Mask;
use vos::preprocess::pillow::{Resizer, columns_first};
use vos::preprocess::{self, Filter, Preprocessor};

/// The golden script's byte stream.
fn pixels(count: usize, salt: usize) -> Vec<u8> {
    let mut state = (salt as u32).wrapping_mul(2_654_435_761).wrapping_add(12345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// The golden script's mask.
fn blobs(width: usize, height: usize) -> Mask {
    let (salt, columns) = (width + height, width / 8 + 1);
    let coarse = pixels(columns * (height / 8 + 1), salt);
    let fine = pixels(width * height, salt + 1);
    Mask::from_fn(width, height, |x, y| {
        (coarse[y / 8 * columns + x / 8] > 127) ^ (fine[y * width + x] > 230)
    })
}

fn sha(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The lines of a golden file: numbers, then a hash.
fn cases(text: &str) -> impl Iterator<Item = (Vec<usize>, &str)> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (numbers, hash) = line.rsplit_once(' ').unwrap();
        (numbers.split(' ').map(|n| n.parse().unwrap()).collect(), hash)
    })
}

const PILLOW: &str = include_str!("data/preprocess/pillow.txt");

/// The golden script's image of a size, resized.
fn resized(from: (usize, usize), to: (usize, usize)) -> Vec<u8> {
    let mut out = Vec::new();
    Resizer::new(from, to).run(&pixels(3 * from.0 * from.1, from.0 * 1000 + from.1), &mut out);
    out
}

#[test]
fn bicubic_resize_is_pillows_bit_for_bit() {
    let mut raw = include_bytes!("data/preprocess/pillow.bin").as_slice();
    let (mut count, mut columns) = (0, 0);
    for (n, hash) in cases(PILLOW) {
        let (from, to) = ((n[0], n[1]), (n[2], n[3]));
        let out = resized(from, to);
        if n[4] == 1 {
            let (expected, rest) = raw.split_at(3 * to.0 * to.1);
            assert_eq!(out, expected, "{from:?} to {to:?}");
            raw = rest;
        }
        assert_eq!(sha(&out), hash, "{from:?} to {to:?}");
        count += 1;
        columns += usize::from(columns_first(from, to));
    }
    assert!(count >= 22 && raw.is_empty());
    assert!(columns >= 4, "portrait frames are among them");
}

/// The order of the passes depends on the sizes and on Pillow's version, and no list of sizes has all shapes.
#[test]
fn bicubic_resize_is_the_installed_pillows_whatever_the_size() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut script = Command::new(folder.join(".venv/bin/python"));
    script.arg(folder.join("tests/data/preprocess/make_golden.py")).args(["drawn", "240", "7"]);
    let said = script.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    let version = |text: &str| text.split_once(':').map(|(head, _)| head.to_owned());
    let (expected, found) = (version(PILLOW).unwrap(), version(&said));
    if found.as_ref() != Some(&expected) {
        let found = found.unwrap_or_else(|| "none".to_owned());
        eprintln!("SKIPPED: no {expected} in .venv (found: {found}); `make test` installs it");
        return;
    }
    let mut columns = 0;
    for (n, hash) in cases(&said) {
        let (from, to) = ((n[0], n[1]), (n[2], n[3]));
        assert_eq!(sha(&resized(from, to)), hash, "{from:?} to {to:?}");
        columns += usize::from(columns_first(from, to));
    }
    assert!(
        (40..200).contains(&columns),
        "both orders are among them, the columns {columns} times"
    );
}

#[test]
fn prompt_masks_are_torchs_antialiased_bilinear_pixel_for_pixel() {
    for (n, hash) in cases(include_str!("data/preprocess/mask.txt")) {
        let [width, height, side, content_width, content_height] = n[..] else { panic!("{n:?}") };
        let whole = (content_width, content_height) == (side, side);
        let kind = if whole { GeometryKind::Stretch } else { GeometryKind::Letterbox };
        let geometry = Geometry::new(kind, width, height, side);
        let content = geometry.content();
        assert_eq!((content.width, content.height), (content_width, content_height));
        let values = preprocess::mask::prompt_mask(&geometry, &blobs(width, height));
        let bytes: Vec<u8> = values.iter().map(|&v| v as u8).collect();
        assert_eq!(sha(&bytes), hash, "{width}x{height} to {side}");
    }
}

#[test]
fn upsampled_masks_are_torchs_pixel_for_pixel() {
    for (n, hash) in cases(include_str!("data/preprocess/upsample.txt")) {
        let [low_side, width, height] = n[..] else { panic!("{n:?}") };
        let bytes = pixels(2 * low_side * low_side, low_side + width);
        let logit = |pair: &[u8]| {
            (f64::from(u16::from_be_bytes([pair[0], pair[1]])) - 32767.5) as f32 / 2048.0
        };
        let low: Vec<f32> = bytes.chunks(2).map(logit).collect();
        let mask = Geometry::new(GeometryKind::Stretch, width, height, 4 * low_side)
            .upsample(&low, low_side);
        let bytes: Vec<u8> = (0..height)
            .flat_map(|y| (0..width).map(move |x| (x, y)))
            .map(|(x, y)| u8::from(mask.get(x, y)))
            .collect();
        assert_eq!(sha(&bytes), hash, "{low_side} to {width}x{height}");
    }
}

/// Nothing is rounded to bytes on the way, so torch's fused operations may differ in the last bits:
/// by less than a hundredth of a byte's step.
#[test]
fn bilinear_frames_are_torchvisions_to_the_last_bits() {
    let golden = include_bytes!("data/preprocess/torchvision.bin");
    let mut values = golden.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
    let (mean, std) = (preprocess::IMAGENET_MEAN, preprocess::IMAGENET_STD);
    let mut largest = 0.0_f32;
    for (width, height, side) in
        [(40, 30, 16), (64, 48, 8), (7, 5, 12), (33, 57, 16), (300, 200, 8), (16, 16, 16)]
    {
        let geometry = Geometry::new(GeometryKind::Stretch, width, height, side);
        let data = pixels(3 * width * height, width * 1000 + height);
        let image = RgbImage { width, height, data };
        let mut out = Vec::new();
        Preprocessor::with_filter(&geometry, Filter::AntialiasBilinear, mean, std)
            .run(&image, &mut out)
            .unwrap();
        assert_eq!(out.len(), 3 * side * side);
        for found in out {
            largest = largest.max((found - values.next().unwrap()).abs());
        }
    }
    assert!(values.next().is_none() && largest < 4e-6, "{largest}");
}

#[test]
fn a_run_resizes_as_its_rows_say() {
    let Some(setting) = Setting::new(1, 6, &PADDED) else { return };
    let torchvision = ["--resize", "torchvision"];
    let log = setting.path("log");
    setting.cpu("cpu").args(torchvision).assert().success();
    let mut command = setting.gpu("gpu");
    command.args(torchvision).env("FAKE_CUDA_LOG", &log).assert().success();
    for out in ["cpu", "gpu"] {
        let fidelity = &setting.column(out, "fidelity")[0];
        assert!(fidelity.contains("/torchvision-bilinear/"), "{out}: {fidelity}");
    }
    assert!(setting.masks("gpu") == setting.masks("cpu"));
    let launches = std::fs::read_to_string(log).unwrap();
    assert!(launches.contains("preprocess_linear_f32") && !launches.contains("preprocess_bicubic"));
    // A resumed run has one resize, and predecoded frames have Pillow's.
    let mut resumed = setting.cpu("cpu");
    resumed.arg("--resume").assert().code(1).stderr(predicates::str::contains("resize was"));
    let mut predecoded = setting.cpu("other");
    predecoded.args(torchvision).args(["--predecoded", "frames"]).assert().code(2);
}

#[test]
fn letterboxed_logits_land_where_their_content_was() {
    // A 2:1 video in a square of 64: content rows 16..48. A blob around network pixel (32, 40).
    let geometry = Geometry::new(GeometryKind::Letterbox, 200, 100, 64);
    let low: Vec<f32> = (0..64 * 64)
        .map(|i| {
            let (dx, dy) = ((i % 64) as f32 + 0.5 - 32.0, (i / 64) as f32 + 0.5 - 40.0);
            36.0 - dx * dx - dy * dy
        })
        .collect();
    let mask = geometry.upsample(&low, 64);
    let b = mask.extents().unwrap();
    let scale = 200.0 / 64.0;
    let centre = ((b.x_min + b.x_max + 1) as f64 / 2.0, (b.y_min + b.y_max + 1) as f64 / 2.0);
    assert!((centre.0 - 100.0).abs() < 1.0 && (centre.1 - 24.0 * scale).abs() < 1.0, "{centre:?}");
    assert!((b.x_max - b.x_min) as f64 > 11.0 * scale, "{b:?}");
}

#[test]
fn the_network_input_is_resized_padded_and_normalised() {
    let geometry = Geometry::new(GeometryKind::Letterbox, 40, 20, 16);
    let image = RgbImage { width: 40, height: 20, data: [200, 100, 0].repeat(800) };
    let (mean, std) = (preprocess::IMAGENET_MEAN, preprocess::IMAGENET_STD);
    let mut preprocessor = Preprocessor::new(&geometry, mean, std);
    let mut out = vec![9.0; 7];
    preprocessor.run(&image, &mut out).unwrap();
    assert_eq!(out.len(), 3 * 16 * 16);
    for (c, byte) in [200.0_f32, 100.0, 0.0].into_iter().enumerate() {
        let plane = &out[c * 256..(c + 1) * 256];
        let (black, shown) = ((0.0 - mean[c]) / std[c], (byte / 255.0 - mean[c]) / std[c]);
        for (i, &value) in plane.iter().enumerate() {
            let expected = if (4..12).contains(&(i / 16)) { shown } else { black };
            assert_eq!(value, expected, "channel {c}, pixel {i}");
        }
    }
    let other = RgbImage { width: 20, height: 40, data: vec![0; 2400] };
    let error = preprocessor.run(&other, &mut out).unwrap_err().to_string();
    assert!(error.contains("20x40") && error.contains("40x20"), "{error}");
}
