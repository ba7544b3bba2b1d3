/*!
nvJPEG's pixels against libjpeg-turbo's, on made-up files; and that it neither waits nor asks for
memory in a steady state.

The standard leaves a decoder some freedom: the inverse transform may be off by one, the colours are
rounded, and chroma that was stored at half the size may be blown up by repeating it or by
interpolation. On a smooth picture all of that is small: the limits below hold for libjpeg-turbo's
own other ways (a test beside this), and pixels that are shifted, mixed up or turned are far beyond
them.
*/

use std::path::Path;

use anyhow::{Context, Result};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use super::{Bench, Checked, Topic, row};
use cuda::Missed;
use cuda::nvjpeg::{self, Coefficients, Decoder, NvJpegError};
use cuda::{MemoryTag, View};
use vos::decode::{RgbImage, jpeg_bytes};

/// The name of the rows.
const NAME: &str = "nvjpeg decode";

/// Grey levels that a byte may be off, in the mean.
const MEAN: f64 = 1.5;
/// Grey levels that any byte may be off.
const MOST: u8 = 12;

/// Images that are decoded one after the other before memory must be at rest.
const SETTLED: usize = 2;

/// What keeps the device busy while it is seen whether the host waits for it: so many fills of so
/// many bytes, about a millisecond at 4 TB/s.
const FILLS: usize = 64;
const FILLED: usize = 64 << 20;

/// A made-up file.
#[derive(Clone, Debug)]
pub struct Picture {
    /// What kind it is.
    pub case: String,
    /// The JPEG.
    pub file: Vec<u8>,
}

/// The files that are decoded.
///
/// # Errors
/// None of them can be encoded.
pub fn pictures() -> Result<Vec<Picture>> {
    let half = SamplingFactor::F_2_2;
    [
        ("320x240, 4:2:0", (320, 240), ColorType::Rgb, half, false, false),
        ("317x211, 4:4:4", (317, 211), ColorType::Rgb, SamplingFactor::F_1_1, false, false),
        ("317x211, 4:2:0, progressive", (317, 211), ColorType::Rgb, half, true, false),
        ("320x240, grey", (320, 240), ColorType::Luma, SamplingFactor::F_1_1, false, false),
        ("320x240, 4:2:0, EXIF says turned", (320, 240), ColorType::Rgb, half, false, true),
    ]
    .into_iter()
    .map(|(case, size, color, sampling, progressive, turned)| {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, 90);
        encoder.set_sampling_factor(sampling);
        encoder.set_progressive(progressive);
        if turned {
            encoder.add_exif_metadata(&turned_by_a_quarter())?;
        }
        let (width, height) = size;
        encoder.encode(&smooth(size, color), width, height, color)?;
        Ok(Picture { case: case.to_owned(), file })
    })
    .collect()
}

/// A slope of another direction in each channel, at most 0.6 levels a pixel, and waves in all three
/// alike: colours change so slowly that half of their samples tell as much, and brightness so fast
/// that a pixel's shift shows.
fn smooth((width, height): (u16, u16), color: ColorType) -> Vec<u8> {
    let (w, h) = (f64::from(width), f64::from(height));
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (f64::from(x), f64::from(y))));
    let level = |(x, y): (f64, f64), slope: f64| {
        let wave = 50.0 * (x / 3.0).sin() * (y / 4.0).cos();
        (64.0 + 128.0 * slope + wave).round() as u8
    };
    match color {
        ColorType::Luma => pixels.map(|at| level(at, at.0 / w)).collect(),
        _ => pixels
            .flat_map(|at| {
                let (x, y) = (at.0 / w, at.1 / h);
                [level(at, x), level(at, y), level(at, 1.0 - 0.5 * x - 0.5 * y)]
            })
            .collect(),
    }
}

/// EXIF with one entry: orientation 6, for which viewers turn the picture. The video loader does
/// not, and no decoder here.
fn turned_by_a_quarter() -> Vec<u8> {
    let header = [b'M', b'M', 0, 42, 0, 0, 0, 8];
    let entry = [0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0];
    [&header[..], &entry].concat()
}

pub(super) const TOPIC: Topic = Topic {
    word: "nvjpeg",
    help: "nvJPEG's pixels",
    name: "nvJPEG's pixels",
    sources: &[],
    used_by: None,
    needs_cublaslt: false,
    judge,
};

/// One row for each file; why there are none, where nvJPEG is not here.
fn judge(bench: &Bench) -> Result<(), String> {
    let failed = |case: &str, error: anyhow::Error| bench.found(row(NAME, case, Err(error)));
    let library = match nvjpeg::open(Some(&bench.gpu.facts().driver_cuda)) {
        Ok(library) => library,
        Err(error @ NvJpegError::Library(Missed::NotFound(_))) => return Err(error.to_string()),
        Err(error) => {
            failed("", error.into());
            return Ok(());
        }
    };
    let decoder = Decoder::new(&bench.gpu.tagged(MemoryTag::Frames), &library);
    match (decoder, pictures()) {
        (Ok(decoder), Ok(pictures)) => {
            let first = pictures.first().cloned();
            let waiting = bench.planned(first, |_| (0, 1));
            let pictures = bench.planned(pictures, |_| (0, 1));
            bench.each(
                &pictures,
                |_| (),
                |Picture { case, file }, ()| {
                    bench.found(row(NAME, case, check(bench, &decoder, file)));
                },
            );
            bench.each(
                &waiting,
                |_| (),
                |Picture { case, file }, ()| {
                    bench.found(row("nvjpeg waits", case, waits(bench, &decoder, file)));
                },
            );
        }
        (Err(error), _) => failed(&library.to_string(), error.into()),
        (_, Err(error)) => failed("", error),
    }
    Ok(())
}

/// Decodes `file` several times, compares the last pixels.
fn check(bench: &Bench, decoder: &Decoder, file: &[u8]) -> Result<Checked> {
    let expected = jpeg_bytes(Path::new("made-up.jpg"), file)?;
    let mut coefficients = decoder.coefficients()?;
    let mut found = Vec::new();
    let mut asked = 0;
    for round in 0..=SETTLED {
        let frame = bench.poisoned(expected.data.len())?;
        on_host(&mut coefficients, file)?;
        coefficients.decode_device(&frame, &bench.stream)?;
        found = frame.download(&bench.stream)?;
        if round + 1 == SETTLED {
            asked = decoder.asked_for_memory();
        }
    }
    let mut checked = compare(&found, &expected)?;
    let again = decoder.asked_for_memory() - asked;
    if again > 0 && checked.first.is_none() {
        checked.first = Some(format!(
            "it asked for memory {again} times in decoding a file that it had decoded {SETTLED} times before"
        ));
    }
    Ok(checked)
}

fn on_host(coefficients: &mut Coefficients, file: &[u8]) -> Result<()> {
    let bytes = coefficients.file()?;
    bytes.clear();
    bytes.extend_from_slice(file);
    coefficients.decode_host().context("on the host")?;
    Ok(())
}

/// Whether the device's half lets the host wait for what was enqueued before.
fn waits(bench: &Bench, decoder: &Decoder, file: &[u8]) -> Result<Checked> {
    let size = jpeg_bytes(Path::new("made-up.jpg"), file)?.data.len();
    let mut coefficients = decoder.coefficients()?;
    let (frame, busy) = (View::new(bench.gpu, size)?, View::new(bench.gpu, FILLED)?);
    // Once before: what is made on first use may wait.
    on_host(&mut coefficients, file)?;
    coefficients.decode_device(&frame, &bench.stream)?;
    on_host(&mut coefficients, file)?;
    bench.stream.synchronize()?;
    for _ in 0..FILLS {
        busy.fill(0, &bench.stream)?;
    }
    let before = bench.gpu.mark()?;
    before.record(&bench.stream)?;
    coefficients.decode_device(&frame, &bench.stream)?;
    let waited = before.is_done()?;
    bench.stream.synchronize()?;
    let first = waited.then(|| {
        "the host came back from the device's half only when all earlier work of the stream was \
         done"
            .to_owned()
    });
    let different = usize::from(waited);
    Ok(Checked { elements: 1, different, error: None, first, timing: None })
}

/// Counts the bytes that differ; their mean difference, over 255, is the error.
fn compare(found: &[u8], expected: &RgbImage) -> Result<Checked> {
    let expected = &expected.data;
    anyhow::ensure!(found.len() == expected.len(), "{} bytes came", found.len());
    let apart = || found.iter().zip(expected).map(|(a, b)| a.abs_diff(*b));
    let different = apart().filter(|apart| *apart > 0).count();
    let mean = apart().map(f64::from).sum::<f64>() / expected.len().max(1) as f64;
    let most = apart().max().unwrap_or_default();
    let first = (mean > MEAN || most > MOST).then(|| {
        format!(
            "bytes are {mean:.2} grey levels off libjpeg-turbo's in the mean and {most} at most; \
             {MEAN} and {MOST} are allowed"
        )
    });
    let error = Some(mean / 255.0);
    Ok(Checked { elements: expected.len(), different, error, first, timing: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(picture: &Picture, change: impl Fn(&mut mozjpeg::Decompress<&[u8]>)) -> Vec<u8> {
        let mut decoder = mozjpeg::Decompress::new_mem(&picture.file).unwrap();
        change(&mut decoder);
        let mut decoder = decoder.rgb().unwrap();
        decoder.read_scanlines::<u8>().unwrap()
    }

    #[test]
    fn other_right_ways_to_decode_are_within_the_limits_and_wrong_pixels_are_not() {
        for picture in pictures().unwrap() {
            let expected = jpeg_bytes(Path::new("made-up.jpg"), &picture.file).unwrap();
            let judged = |pixels: &[u8]| compare(pixels, &expected).unwrap();
            assert_eq!(judged(&decoded(&picture, |_| {})).different, 0);
            for dct in [mozjpeg::DctMethod::Float, mozjpeg::DctMethod::IntegerFast] {
                let other = judged(&decoded(&picture, |decoder| {
                    decoder.do_fancy_upsampling(false);
                    decoder.dct_method(dct);
                }));
                assert_eq!(other.first, None, "{}", picture.case);
                assert!(other.different > 0, "{}: another way is another way", picture.case);
            }
            // A pixel to the right, a row down, colours mixed up, blue alone wrong by a little, one
            // pixel wrong by much.
            let row = 3 * expected.width;
            let [mut right, mut down] = [expected.data.clone(), expected.data.clone()];
            right.copy_within(..expected.data.len() - 3, 3);
            down.copy_within(..expected.data.len() - row, row);
            let mut mixed = expected.data.clone();
            mixed.chunks_exact_mut(3).for_each(|pixel| pixel.reverse());
            let mut tinted = expected.data.clone();
            tinted.iter_mut().skip(2).step_by(3).for_each(|byte| *byte ^= 8);
            let mut hole = expected.data.clone();
            hole[row * 5..row * 5 + 3].fill(crate::selftest::POISON);
            let grey = picture.case.contains("grey");
            let wrong = [right, down, mixed, tinted, hole];
            for (name, wrong) in ["right", "down", "mixed", "tinted", "hole"].iter().zip(wrong) {
                let told = judged(&wrong).first;
                assert_eq!(told.is_some(), !(grey && *name == "mixed"), "{}, {name}", picture.case);
            }
        }
    }

    #[test]
    fn pictures_are_what_they_are_called() {
        let pictures = pictures().unwrap();
        let turned = pictures.iter().find(|picture| picture.case.contains("turned")).unwrap();
        let plain = &pictures[0];
        let pixels = |picture: &Picture| jpeg_bytes(Path::new("a.jpg"), &picture.file).unwrap();
        assert!(turned.file.windows(6).any(|bytes| bytes == b"Exif\0\0"));
        assert_eq!(pixels(turned), pixels(plain), "libjpeg-turbo does not turn it");
        for picture in &pictures {
            let size = format!("{}x{}", pixels(picture).width, pixels(picture).height);
            assert!(picture.case.starts_with(&size), "{}", picture.case);
        }
    }
}
