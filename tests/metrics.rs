/*!
The metrics against two independent judges: slow pixel-by-pixel definitions on random masks, and
numbers that numpy, OpenCV, scikit-image and pycocotools gave (tests/data/metrics/make_golden.py).
*/
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use proptest::prelude::*;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use vos::mask::Mask;
use vos::metrics::{MetricsKind, Scorer, score_frame};
use vos::morphology::{dilate, disk, square};
use vos::rle::{Counts, Rle};

use crate::support;

const KINDS: [MetricsKind; 2] = [MetricsKind::Predecessor, MetricsKind::Official];

/// The definitions, one pixel at a time.
mod slow {
    use super::*;

    /// A pixel, or `None` beyond the image.
    fn at(mask: &Mask, x: isize, y: isize) -> Option<bool> {
        let inside = x >= 0 && y >= 0 && x < mask.width() as isize && y < mask.height() as isize;
        inside.then(|| mask.get(x as usize, y as usize))
    }

    fn map(mask: &Mask, f: impl Fn(isize, isize) -> bool) -> Mask {
        Mask::from_fn(mask.width(), mask.height(), |x, y| f(x as isize, y as isize))
    }

    pub fn dilate(mask: &Mask, inside: impl Fn(isize, isize) -> bool) -> Mask {
        let on: Vec<_> = mask.pixels().map(|(x, y)| (x as isize, y as isize)).collect();
        map(mask, |x, y| on.iter().any(|&(on_x, on_y)| inside(x - on_x, y - on_y)))
    }

    fn thick_boundary(mask: &Mask) -> Mask {
        map(mask, |x, y| {
            let near: Vec<bool> = (-1..=1)
                .flat_map(|dy| (-1..=1).map(move |dx| (dx, dy)))
                .filter_map(|(dx, dy)| at(mask, x + dx, y + dy))
                .collect();
            near.contains(&true) && near.contains(&false)
        })
    }

    fn thin_boundary(mask: &Mask) -> Mask {
        map(mask, |x, y| {
            [(1, 0), (0, 1), (1, 1)].iter().any(|&(dx, dy)| {
                at(mask, x + dx, y + dy).is_some_and(|n| Some(n) != at(mask, x, y))
            })
        })
    }

    fn part(of: &Mask, near: &Mask) -> f64 {
        of.pixels().filter(|&(x, y)| near.get(x, y)).count() as f64 / of.area() as f64
    }

    fn harmonic(precision: f64, recall: f64) -> f64 {
        let total = precision + recall;
        if total == 0.0 { 0.0 } else { 2.0 * precision * recall / total }
    }

    pub fn f(kind: MetricsKind, truth: &Mask, prediction: &Mask) -> f64 {
        let diagonal = (truth.width() as f64).hypot(truth.height() as f64) * 0.008;
        let (edges, radius) = match kind {
            MetricsKind::Predecessor if truth.is_empty() || prediction.is_empty() => {
                return f64::from(truth.is_empty() && prediction.is_empty());
            }
            MetricsKind::Predecessor => {
                // Half way between two integers, Python goes to the even one.
                let even = 2.0 * (diagonal / 2.0).round();
                let radius = if diagonal.fract() == 0.5 { even } else { diagonal.round() };
                ([thick_boundary(truth), thick_boundary(prediction)], radius.max(1.0))
            }
            MetricsKind::Official => {
                ([thin_boundary(truth), thin_boundary(prediction)], diagonal.ceil())
            }
        };
        let radius = radius as isize;
        let near = edges.each_ref().map(|edge| match kind {
            MetricsKind::Predecessor => dilate(edge, |dx, dy| dx.abs().max(dy.abs()) <= radius),
            MetricsKind::Official => dilate(edge, |dx, dy| dx * dx + dy * dy <= radius * radius),
        });
        match edges.each_ref().map(Mask::is_empty) {
            [true, true] => 1.0,
            [true, false] | [false, true] => 0.0,
            _ => harmonic(part(&edges[1], &near[0]), part(&edges[0], &near[1])),
        }
    }

    pub fn j(truth: &Mask, prediction: &Mask) -> f64 {
        let (mut both, mut either) = (0, 0);
        for y in 0..truth.height() {
            for x in 0..truth.width() {
                both += usize::from(truth.get(x, y) && prediction.get(x, y));
                either += usize::from(truth.get(x, y) || prediction.get(x, y));
            }
        }
        if either == 0 { 1.0 } else { both as f64 / either as f64 }
    }
}

/// Rectangles, holes and specks: shapes whose edges meet word and image borders in every way.
fn masks(count: usize) -> impl Strategy<Value = Vec<Mask>> {
    let widths = prop_oneof![1..8usize, 60..70usize, 120..135usize, 1..200usize];
    (widths, 1..40usize).prop_flat_map(move |(width, height)| {
        let rectangle = (0..width, 0..height, 1..=width, 1..=height, prop::bool::weighted(0.7));
        let speck = (0..width, 0..height).prop_map(|(x, y)| (x, y, 1, 1, true));
        let shapes = prop::collection::vec(prop_oneof![3 => rectangle, 1 => speck], 0..6);
        let one = shapes.prop_map(move |shapes| {
            let mut mask = Mask::new(width, height);
            for (left, top, across, down, on) in shapes {
                for y in top..(top + down).min(height) {
                    for x in left..(left + across).min(width) {
                        mask.set(x, y, on);
                    }
                }
            }
            mask
        });
        prop::collection::vec(one, count)
    })
}

/// Independent noise: every local pattern of pixels.
fn noise() -> impl Strategy<Value = Mask> {
    (1..140usize, 1..12usize, any::<u64>(), 1..8u64).prop_map(|(width, height, seed, density)| {
        let mut state = seed | 1;
        Mask::from_fn(width, height, |_, _| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) % 8 < density
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn scores_agree_with_the_pixel_by_pixel_definition(pair in masks(2)) {
        for kind in KINDS {
            let score = score_frame(kind, &pair[0], &pair[1]);
            prop_assert_eq!(score.j, slow::j(&pair[0], &pair[1]));
            prop_assert_eq!(score.f, slow::f(kind, &pair[0], &pair[1]), "{:?}", kind);
        }
    }

    #[test]
    fn scores_agree_on_noise_too(truth in noise(), flips in any::<u64>()) {
        let prediction = Mask::from_fn(truth.width(), truth.height(), |x, y| {
            truth.get(x, y) ^ (flips >> ((x * 7 + y * 13) % 64) & 1 == 1)
        });
        for kind in KINDS {
            let score = score_frame(kind, &truth, &prediction);
            prop_assert_eq!(score.f, slow::f(kind, &truth, &prediction), "{:?}", kind);
        }
    }

    #[test]
    fn a_mask_is_its_own_perfect_prediction(found in masks(1)) {
        for kind in KINDS {
            let score = score_frame(kind, &found[0], &found[0]);
            prop_assert_eq!((score.j, score.f), (1.0, 1.0));
        }
    }

    #[test]
    fn rle_brings_a_mask_back(mask in noise(), shapes in masks(1)) {
        for mask in [&mask, &shapes[0]] {
            for rle in [Rle::plain(mask), Rle::compressed(mask)] {
                let json = serde_json::to_string(&rle).unwrap();
                let read: Rle = serde_json::from_str(&json).unwrap();
                prop_assert_eq!(&read, &rle);
                prop_assert_eq!(&read.to_mask().unwrap(), mask);
            }
        }
    }

    #[test]
    fn no_text_makes_the_decoder_panic(text in ".{0,40}", height in 0..9usize, width in 0..9usize) {
        let rle = Rle { size: [height, width], counts: Counts::Compressed(text) };
        if let Ok(mask) = rle.to_mask() {
            prop_assert_eq!((mask.width(), mask.height()), (width, height));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn dilation_agrees_for_every_radius(found in masks(1), radius in 0..150usize) {
        let r = radius as isize;
        prop_assert_eq!(
            dilate(&found[0], &square(radius)),
            slow::dilate(&found[0], |dx, dy| dx.abs().max(dy.abs()) <= r)
        );
        prop_assert_eq!(
            dilate(&found[0], &disk(radius)),
            slow::dilate(&found[0], |dx, dy| dx * dx + dy * dy <= r * r)
        );
    }
}

#[derive(Deserialize)]
struct Golden {
    pairs: Vec<Pair>,
    sequences: Vec<Sequence>,
}

#[derive(Deserialize)]
struct Pair {
    truth: Rle,
    prediction: Rle,
    truth_sha256: String,
    predecessor: Frame,
    official: Frame,
}

#[derive(Deserialize)]
struct Frame {
    j: f64,
    f: f64,
}

#[derive(Deserialize)]
struct Sequence {
    frames: Vec<[Option<Rle>; 2]>,
    predecessor: Option<Means>,
    official: Option<Means>,
}

#[derive(Deserialize)]
struct Means {
    j: f64,
    f: f64,
    scored_frames: usize,
}

fn golden() -> Golden {
    serde_json::from_slice(&support::golden("metrics/golden.json.gz")).unwrap()
}

#[test]
fn python_gives_the_same_scores_bit_for_bit() {
    let pairs = golden().pairs;
    assert!(pairs.len() >= 60);
    for (index, pair) in pairs.iter().enumerate() {
        let (truth, prediction) =
            (pair.truth.to_mask().unwrap(), pair.prediction.to_mask().unwrap());
        for (kind, expected) in KINDS.into_iter().zip([&pair.predecessor, &pair.official]) {
            let score = score_frame(kind, &truth, &prediction);
            assert_eq!((score.j, score.f), (expected.j, expected.f), "pair {index}, {kind:?}");
        }
    }
}

#[test]
fn python_gives_the_same_sequence_means() {
    for (index, sequence) in golden().sequences.iter().enumerate() {
        for (kind, expected) in KINDS.into_iter().zip([&sequence.predecessor, &sequence.official]) {
            let mut scorer = Scorer::new(kind);
            for frame in &sequence.frames {
                let [truth, prediction] =
                    frame.each_ref().map(|rle| rle.as_ref().map(|rle| rle.to_mask().unwrap()));
                scorer.push(truth.as_ref(), prediction.as_ref());
            }
            let found = scorer.finish().map(|q| (q.j, q.f, q.scored_frames));
            let expected = expected.as_ref().map(|m| (m.j, m.f, m.scored_frames));
            assert_eq!(found, expected, "sequence {index}, {kind:?}");
        }
    }
}

#[test]
fn pycocotools_gives_the_same_strings_and_pixels() {
    for pair in golden().pairs {
        let mask = pair.truth.to_mask().unwrap();
        assert_eq!(Rle::compressed(&mask), pair.truth);
        let bytes: Vec<u8> = (0..mask.height())
            .flat_map(|y| (0..mask.width()).map(move |x| (x, y)))
            .map(|(x, y)| u8::from(mask.get(x, y)))
            .collect();
        assert_eq!(format!("{:x}", Sha256::digest(bytes)), pair.truth_sha256);
    }
}
