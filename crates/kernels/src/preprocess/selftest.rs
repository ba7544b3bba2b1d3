/*!
The preprocessing kernels against `crates/vos/src/preprocess`.
*/

use std::cell::RefCell;

use anyhow::{Result, ensure};
use half::f16;

use super::tiles::Tiles;
use crate::selftest::{Bench, Checked, POISON, Topic, bytes_of, compare, each_of, row};
use crate::{Filter, Frame, Preprocess};
use GeometryKind::{Letterbox, Stretch};
use cuda::{Element, Pinned, Stream};
use vos::decode::RgbImage;
use vos::geometry::{Geometry, GeometryKind};
use vos::noise::Noise;
use vos::preprocess::{IMAGENET_MEAN, IMAGENET_STD, Preprocessor, linear};

/// Frame width and height, side of the input, and how the one fits into the other.
const CASES: [(usize, usize, usize, GeometryKind); 20] = [
    (1, 1, 1, Stretch),
    (1, 1, 17, Stretch),
    (1, 9, 33, Letterbox),
    (7, 2, 64, Stretch),
    (37, 53, 64, Stretch),
    (65, 33, 48, Letterbox),
    // An odd side: no two values are stored at once.
    (100, 75, 51, Letterbox),
    // No resize at all, and along one axis only.
    (64, 64, 64, Stretch),
    (64, 200, 64, Stretch),
    // Supports of thousands of pixels.
    (7680, 2, 16, Stretch),
    (3, 4321, 16, Letterbox),
    (640, 360, 256, Letterbox),
    (854, 480, 1024, Stretch),
    (854, 480, 512, Stretch),
    (1920, 1080, 1024, Stretch),
    (3840, 2160, 1024, Letterbox),
    // Pillow resizes these along the columns first.
    (475, 533, 512, Stretch),
    (720, 1280, 1024, Stretch),
    (480, 848, 768, Stretch),
    // With supports of hundreds of pixels, more than a block has in shared memory at a time.
    (600, 1500, 16, Letterbox),
];
/// Sizes beside these that are drawn from the seed, so that no shape is left out for ever.
const DRAWN: usize = 12;
/// The longest side of those.
const LONGEST: f64 = 100.0;

const ELEMENTS: [(Element, &str); 2] = [(Element::F32, "f32"), (Element::F16, "f16")];

/// The rows of tiles whose input fits into shared memory: bicubic, of halves.
const TILED: &str = "preprocess tiles f16";

/// Both ways of a frame to the device.
const COPIES: [&str; 2] = ["frame by copy engine", "frame by kernel"];

const FILTERS: [(Filter, &str); 3] = [
    (Filter::PillowBicubic, "bicubic"),
    (Filter::AntialiasBilinear, "antialiased"),
    (Filter::Bilinear, "bilinear"),
];

pub(crate) const TOPIC: Topic = Topic {
    word: "preprocess",
    help: "Frames to the network's input",
    name: "preprocessing",
    sources: &[],
    used_by: None,
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

fn judge(bench: &Bench) {
    let rows = FILTERS.len() * ELEMENTS.len();
    let all = CASES.into_iter().chain(drawn(bench.seed));
    let cases = bench.planned(all, |(width, height, side, kind)| {
        let tiled = Tiles::of(&Geometry::new(*kind, *width, *height, *side)).is_some();
        (3 * side * side, COPIES.len() + rows + usize::from(tiled))
    });
    let seed = bench.seed;
    bench.each(
        &cases,
        |case| Given::new(*case, seed),
        |_, given| {
            for (name, checked) in COPIES.iter().zip(each_of(copies(bench, &given))) {
                bench.found(row(name, &given.case, checked));
            }
            for ((filter, word), expected) in FILTERS.iter().zip(&given.expected) {
                for (element, suffix) in ELEMENTS {
                    let name = format!("preprocess {word} {suffix}");
                    let bicubic = (*filter, element) == (Filter::PillowBicubic, Element::F16);
                    if bicubic && Tiles::of(&given.geometry).is_some() {
                        let both = each_of(of_tiles(bench, &given, expected));
                        for (name, checked) in [name.as_str(), TILED].iter().zip(both) {
                            bench.found(row(name, &given.case, checked));
                        }
                        continue;
                    }
                    let checked = expected_of(expected)
                        .and_then(|expected| check(bench, &given, *filter, element, expected));
                    bench.found(row(&name, &given.case, checked));
                }
            }
        },
    );
}

/// A frame, and what each filter must make of it.
struct Given {
    case: String,
    geometry: Geometry,
    frame: RgbImage,
    expected: [Result<Vec<f32>>; FILTERS.len()],
}

impl Given {
    fn new((width, height, side, kind): (usize, usize, usize, GeometryKind), seed: u64) -> Self {
        let geometry = Geometry::new(kind, width, height, side);
        let case = format!("{width}x{height} to {side}, {}", kind.name());
        let mut noise = Noise::new(seed, &case);
        let data = (0..3 * width * height).map(|_| noise.between(0.0, 256.0) as u8).collect();
        let frame = RgbImage { width, height, data };
        let expected = FILTERS.map(|(filter, _)| reference(&geometry, filter, &frame));
        Self { case, geometry, frame, expected }
    }
}

/// As [`CASES`].
fn drawn(seed: u64) -> impl Iterator<Item = (usize, usize, usize, GeometryKind)> {
    let mut noise = Noise::new(seed, "sizes of frames");
    let mut length = move || noise.between(1.0, LONGEST) as usize;
    let kinds = [Stretch, Letterbox].into_iter().cycle();
    kinds.take(DRAWN).map(move |kind| (length(), length(), length(), kind))
}

fn reference(geometry: &Geometry, filter: Filter, frame: &RgbImage) -> Result<Vec<f32>> {
    let (mean, std) = (IMAGENET_MEAN, IMAGENET_STD);
    let antialias = filter == Filter::AntialiasBilinear;
    if filter != Filter::PillowBicubic {
        return Ok(linear::run(geometry, antialias, frame, mean, std)?);
    }
    let mut values = Vec::new();
    Preprocessor::new(geometry, mean, std).run(frame, &mut values)?;
    Ok(values)
}

fn expected_of(expected: &Result<Vec<f32>>) -> Result<&[f32]> {
    expected.as_deref().map_err(|error| anyhow::anyhow!("{error:#}"))
}

/// A frame out of pinned memory, by a copy engine and by a kernel, with times that are taken in turn.
fn copies(bench: &Bench, given: &Given) -> Result<[Checked; 2]> {
    let (Given { geometry, frame, .. }, stream) = (given, &bench.stream);
    let (filter, element) = (Filter::PillowBicubic, Element::F16);
    let (mean, std, kernels) = (IMAGENET_MEAN, IMAGENET_STD, &bench.kernels);
    let made = Preprocess::new(bench.gpu, kernels, geometry, filter, element, mean, std, stream)?;
    let bytes = frame.data.len();
    let mut pinned = Pinned::new(bench.gpu, bytes)?;
    pinned.bytes()?.copy_from_slice(&frame.data);
    let pinned = RefCell::new(pinned);
    let view = bench.poisoned(bytes)?;
    let one = |by_kernel: bool, stream: &Stream| -> Result<()> {
        let mut pinned = pinned.borrow_mut();
        if by_kernel {
            return made.fetch(&mut pinned, &view, stream);
        }
        Ok(pinned.upload(bytes, &view, stream)?)
    };
    let checked = |by_kernel| -> Result<Checked> {
        view.fill(POISON, stream)?;
        one(by_kernel, stream)?;
        compare(&view.download(stream)?, &frame.data, 1)
    };
    let both = [checked(false)?, checked(true)?];
    let one = &one;
    bench.timed_in_turn(both, [false, true].map(|by| move |stream: &Stream| one(by, stream)))
}

/// The kernel for any size and that of tiles, with times that are taken in turn.
fn of_tiles(bench: &Bench, given: &Given, expected: &Result<Vec<f32>>) -> Result<[Checked; 2]> {
    let expected = bytes_of(expected_of(expected)?, |value| f16::from_f32(*value).to_le_bytes());
    let (filter, element, stream) = (Filter::PillowBicubic, Element::F16, &bench.stream);
    let make = || {
        let (mean, std, kernels) = (IMAGENET_MEAN, IMAGENET_STD, &bench.kernels);
        Preprocess::new(bench.gpu, kernels, &given.geometry, filter, element, mean, std, stream)
    };
    let (mut any, tiled) = (make()?, make()?);
    ensure!(tiled.tiled.is_some(), "the kernel of tiles does not take these sizes");
    any.tiled = None;
    let input = bench.put(&given.frame.data)?;
    let image = bench.poisoned(any.image_bytes())?;
    let one = |made: &Preprocess| -> Result<Checked> {
        image.fill(POISON, stream)?;
        made.enqueue(Frame::Device(&input), &image, stream)?;
        compare(&image.download(stream)?, &expected, element.bytes())
    };
    let both = [one(&any)?, one(&tiled)?];
    let ways = [&any, &tiled].map(|made| {
        let (input, image) = (&input, &image);
        move |stream: &Stream| made.enqueue(Frame::Device(input), image, stream)
    });
    bench.timed_in_turn(both, ways)
}

fn check(
    bench: &Bench,
    given: &Given,
    filter: Filter,
    element: Element,
    expected: &[f32],
) -> Result<Checked> {
    let (mean, std) = (IMAGENET_MEAN, IMAGENET_STD);
    let expected: Vec<u8> = match element {
        Element::F32 => bytes_of(expected, |value| value.to_le_bytes()),
        Element::F16 => bytes_of(expected, |value| f16::from_f32(*value).to_le_bytes()),
    };
    let (Given { geometry, frame, .. }, stream) = (given, &bench.stream);
    let made =
        Preprocess::new(bench.gpu, &bench.kernels, geometry, filter, element, mean, std, stream)?;
    let input = bench.put(&frame.data)?;
    let image = bench.poisoned(made.image_bytes())?;
    bench.check(&image, &expected, element.bytes(), |stream| {
        made.enqueue(Frame::Device(&input), &image, stream)
    })
}
