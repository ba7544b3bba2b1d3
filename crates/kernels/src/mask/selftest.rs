/*!
The mask kernels against `Geometry::upsample` and the metrics.
*/

use anyhow::Result;

use crate::selftest::{Bench, Checked, Topic, row};
use crate::{COUNTERS_BYTES, MaskCounts, MaskMaker, NON_FINITE_BYTES};
use GeometryKind::{Letterbox, Stretch};
use cuda::Stream;
use vos::geometry::{Geometry, GeometryKind};
use vos::mask::Mask;
use vos::metrics::{Counts, MetricsKind};
use vos::noise::Noise;

/// Video width and height, side of the logits, how the video fits, objects at once.
const MASKS: [(usize, usize, usize, GeometryKind, usize); 10] = [
    (1, 1, 1, Stretch, 1),
    (1, 1, 64, Stretch, 1),
    (64, 3, 1, Stretch, 1),
    (65, 33, 64, Letterbox, 2),
    (127, 300, 64, Letterbox, 1),
    (16, 9, 256, Stretch, 3),
    (640, 360, 64, Letterbox, 1),
    (1920, 1080, 256, Stretch, 1),
    (1920, 1080, 256, Letterbox, 4),
    (3840, 2160, 256, Stretch, 1),
];

/// Width and height of masks to count.
const COUNTS: [(usize, usize); 8] =
    [(1, 1), (1, 70), (64, 2), (65, 33), (128, 40), (300, 200), (1920, 1080), (3840, 2160)];

/// How truth and prediction differ.
const WORDS: [&str; 4] = ["apart", "alike", "no truth", "nothing"];

pub(crate) const TOPIC: Topic = Topic {
    word: "mask",
    help: "Logits to masks, and counts against a ground truth",
    name: "masks",
    sources: &[],
    used_by: None,
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

fn judge(bench: &Bench) {
    let masks = bench
        .planned(MASKS, |(width, height, _, _, objects)| (objects * words_of(*width, *height), 1));
    // Nothing depends on large masks but the time.
    let words = |width: usize| if width > 1000 { &WORDS[..1] } else { &WORDS[..] };
    let kinds = [MetricsKind::Predecessor, MetricsKind::Official];
    // The counters are few whatever is counted.
    let sizes = bench.planned(COUNTS, |(width, height)| {
        (words_of(*width, *height), kinds.len() * words(*width).len())
    });
    bench.each(
        &masks,
        |_| (),
        |(width, height, low_side, kind, objects), ()| {
            let (low_side, objects) = (*low_side, *objects);
            let geometry = Geometry::new(*kind, *width, *height, 4 * low_side);
            let shape = match objects {
                1 => String::new(),
                more => format!(", {more} objects"),
            };
            let case = format!("{low_side} to {width}x{height}, {}{shape}", kind.name());
            bench.found(row("mask", &case, mask(bench, &geometry, low_side, objects, &case)));
        },
    );
    let seed = bench.seed;
    let pairs = |size: &(usize, usize)| {
        let of =
            |kind| (0..words(size.0).len()).map(move |which| Pair::new(*size, kind, which, seed));
        kinds.into_iter().flat_map(of).collect::<Vec<Pair>>()
    };
    bench.each(&sizes, pairs, |_, pairs| {
        for pair in pairs {
            bench.found(row("mask counts", &pair.case, counts(bench, &pair)));
        }
    });
}

/// Words of 64 pixels in a mask.
fn words_of(width: usize, height: usize) -> usize {
    width.div_ceil(64) * height
}

fn bytes_of(words: &[u64]) -> impl Iterator<Item = u8> {
    words.iter().flat_map(|word| word.to_le_bytes())
}

fn mask(
    bench: &Bench,
    geometry: &Geometry,
    low_side: usize,
    objects: usize,
    name: &str,
) -> Result<Checked> {
    let mut noise = Noise::new(bench.seed, name);
    let mut logits = noise.normals(objects * low_side * low_side);
    // Exact zeros are no foreground, nor is what is no number.
    for at in (0..logits.len()).step_by(7) {
        logits[at] = 0.0;
    }
    for (at, bad) in
        (0..logits.len()).step_by(1001).skip(1).zip([f32::NAN, f32::INFINITY].iter().cycle())
    {
        logits[at] = *bad;
    }
    let expected: Vec<u8> = logits
        .chunks(low_side * low_side)
        .flat_map(|low| bytes_of(geometry.upsample(low, low_side).words()).collect::<Vec<u8>>())
        .collect();
    let made = MaskMaker::new(bench.gpu, &bench.kernels, geometry, low_side, &bench.stream)?;
    let bytes: Vec<u8> = logits.iter().flat_map(|value| value.to_le_bytes()).collect();
    let low = bench.put(&bytes)?;
    let words = bench.poisoned(objects * made.words_bytes())?;
    let non_finite = bench.put(&vec![0; objects * NON_FINITE_BYTES])?;
    let enqueue = |stream: &Stream| made.enqueue(&low, &words, &non_finite, stream);
    let checked = bench.check(&words, &expected, 8, enqueue)?;
    non_finite.fill(0, &bench.stream)?;
    enqueue(&bench.stream)?;
    let of_object = |low: &[f32]| low.iter().filter(|logit| !logit.is_finite()).count() as u32;
    let expected: Vec<u8> =
        logits.chunks(low_side * low_side).flat_map(|low| of_object(low).to_le_bytes()).collect();
    anyhow::ensure!(
        non_finite.download(&bench.stream)? == expected,
        "the logits that are no finite numbers are counted wrongly"
    );
    Ok(checked)
}

/// Two masks, and how they differ.
struct Pair {
    case: String,
    size: (usize, usize),
    kind: MetricsKind,
    truth: Mask,
    prediction: Mask,
    counted: Counts,
}

impl Pair {
    fn new(size: (usize, usize), kind: MetricsKind, which: usize, seed: u64) -> Self {
        let (width, height) = size;
        let case = format!("{width}x{height}, {}, {}", kind.as_str(), WORDS[which]);
        let mut noise = Noise::new(seed, &case);
        // An ellipse with a frayed edge and dust around it.
        let mut blob = |x0: f64, y0: f64, shown: bool| {
            Mask::from_fn(width, height, |x, y| {
                let dx = (x as f64 + 0.5) / width as f64 - x0;
                let dy = (y as f64 + 0.5) / height as f64 - y0;
                let rare = noise.between(0.0, 1.0);
                shown && ((dx * dx + dy * dy < 0.06 + 0.004 * rare) ^ (rare < 0.001))
            })
        };
        let truth = blob(0.45, 0.5, which < 2);
        let prediction = match which {
            0 => blob(0.6, 0.4, true),
            1 => truth.clone(),
            2 => blob(0.5, 0.5, true),
            _ => blob(0.5, 0.5, false),
        };
        let counted = Counts::of(kind, &truth, &prediction);
        Self { case, size, kind, truth, prediction, counted }
    }
}

fn counts(bench: &Bench, pair: &Pair) -> Result<Checked> {
    let Pair { size, kind, truth, prediction, counted, .. } = pair;
    let expected: Vec<u8> = [
        counted.intersection,
        counted.union,
        counted.truth,
        counted.prediction,
        counted.truth_boundary,
        counted.prediction_boundary,
        counted.truth_near,
        counted.prediction_near,
    ]
    .iter()
    .flat_map(|count| (*count as u32).to_le_bytes())
    .collect();
    let made = MaskCounts::new(bench.gpu, &bench.kernels, *size, *kind, &bench.stream)?;
    let put = |mask: &Mask| bench.put(&bytes_of(mask.words()).collect::<Vec<u8>>());
    let (truth, prediction) = (put(truth)?, put(prediction)?);
    let counters = bench.poisoned(COUNTERS_BYTES)?;
    let enqueue = |stream: &Stream| made.enqueue(&truth, &prediction, &counters, stream);
    let checked = bench.check(&counters, &expected, 4, enqueue)?;
    anyhow::ensure!(
        checked.different > 0 || MaskCounts::read(&expected)? == *counted,
        "the counters are read in another order than they are written"
    );
    Ok(checked)
}
