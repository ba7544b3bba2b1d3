/*!
The mask decoder, all launches together, against float64 on the host: logits, IoUs, pointer and
score, of objects that are there and of ones that are not.
*/

mod drawn;
mod reference;
mod ways;

use anyhow::Result;
use half::f16;

use super::launches::MODULES;
use crate::kernel::Chain;
use crate::selftest::chain_modes::{self, Chained};
use crate::selftest::{Bench, Checked, Limits, POISON, Topic, bytes_of, compare, row};
use crate::{MaskDecoder, MaskDecoderOutputs};
use cuda::{LaunchMode, Stream, View};
use drawn::Drawn;
use reference::Expected;
use vos::bundle::MaskDecoderShape;
use vos::bundle::mask_decoder::{CHOICES, WIDTH};

const NAME: &str = "mask decoder";
const MODES: &str = "mask decoder modes";
/// About how many image tokens' pixels are looked at where all would be more than [`WHOLE`].
const SAMPLE: usize = 128;
const WHOLE: usize = 1024;
/// Runs that must give the same bits.
const RUNS: usize = 3;
/// Logits of an object that is not there.
const ABSENT: f32 = -1024.0;

/// What is halves on the way: weights that are folded, the image between the kernels and with its
/// positions, its values, a softmax's weights, the image upscaled once. Each is off by 2⁻¹² on
/// average, independently, and none of it is amplified much by what follows: with sums in f32 the
/// host finds 3e-4 to 6e-4 of logits and 1e-4 to 4e-4 of what is read from tokens.
const LOW: Limits = Limits { error: 2e-3, deviation: 2e-2 };
const TOKENS: Limits = Limits { error: 1.5e-3, deviation: 1e-2 };

struct Case {
    name: &'static str,
    shape: MaskDecoderShape,
    /// The mask whose IoU is the best; none where all have the same.
    chosen: Option<usize>,
}

/// Images of 1024 and 512 pixels, then tokens that fill no tile, and fewer than one has.
const CASES: [Case; 4] = [
    Case {
        name: "at 1024",
        shape: MaskDecoderShape { grid: 64, iou_sigmoid: true },
        chosen: Some(2),
    },
    Case {
        name: "at 512",
        shape: MaskDecoderShape { grid: 32, iou_sigmoid: false },
        chosen: Some(1),
    },
    Case {
        name: "of 10 x 10 tokens, equal IoUs",
        shape: MaskDecoderShape { grid: 10, iou_sigmoid: false },
        chosen: None,
    },
    Case {
        name: "of 4 x 4 tokens",
        shape: MaskDecoderShape { grid: 4, iou_sigmoid: true },
        chosen: Some(3),
    },
];

pub(crate) const TOPIC: Topic = Topic {
    word: "mask-decoder",
    help: "The mask decoder of the track step",
    name: "the mask decoder",
    sources: &MODULES,
    used_by: Some("a track step whose mask decoder is ours"),
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

fn judge(bench: &Bench) {
    // The tokens of the image, of which there are more than of pixels' logits.
    let cases = bench.planned(CASES, |case| {
        (case.shape.tokens() * WIDTH, 2 + chain_modes::rows(bench) + ways::rows(bench))
    });
    let seed = bench.seed;
    bench.each(
        &cases,
        |case| Given::both(case, seed),
        |case, given| {
            let frame = match Frame::new(bench, &given[0].drawn) {
                Ok(frame) => frame,
                Err(error) => return bench.found(row(NAME, case.name, Err(error))),
            };
            for (given, there) in given.iter().zip(["there", "not there"]) {
                let name = format!("{}, {there}", case.name);
                bench.found(row(NAME, &name, check(bench, given, &frame)));
            }
            modes(bench, case, &given[0], &frame);
            ways::judge(bench, case.name, &given[0], &frame);
        },
    );
}

/// A decoder and what it must answer.
struct Given {
    drawn: Drawn,
    expected: Expected,
}

impl Given {
    /// For an object that is there, and one that is not.
    fn both(case: &Case, seed: u64) -> [Self; 2] {
        let drawn = Drawn::new(case.shape, seed, case.name);
        let decoded = reference::decode(&drawn);
        let tokens = case.shape.tokens();
        let step = if tokens > WHOLE { (tokens / SAMPLE) | 1 } else { 1 };
        [true, false].map(|there| {
            let mut drawn = drawn.clone();
            drawn.settle(&decoded.rows, case.chosen, there);
            let expected = reference::expected(&drawn, &decoded, (0..tokens).step_by(step));
            Self { drawn, expected }
        })
    }
}

/// What a launch takes and gives.
struct Frame {
    image: View,
    fine: [View; 2],
    answer: MaskDecoderOutputs,
}

impl Frame {
    fn new(bench: &Bench, drawn: &Drawn) -> Result<Self> {
        let put = |values: &[f16]| bench.put(&bytes_of(values, |value| value.to_le_bytes()));
        let room = |bytes: usize| View::new(bench.gpu, bytes);
        let side = drawn.shape.low_size();
        Ok(Self {
            image: put(&drawn.image)?,
            fine: [put(&drawn.hr0)?, put(&drawn.hr1)?],
            answer: MaskDecoderOutputs {
                low: room(4 * side * side)?,
                iou: room(4)?,
                ious: room(4 * CHOICES)?,
                pointer: room(2 * WIDTH)?,
                score: room(4)?,
            },
        })
    }

    /// Poisons the answer, and enqueues it.
    fn anew(&self, decoder: &MaskDecoder, stream: &Stream) -> Result<Came> {
        let MaskDecoderOutputs { low, iou, ious, pointer, score } = &self.answer;
        for view in [low, iou, ious, pointer, score] {
            view.fill(POISON, stream)?;
        }
        self.enqueue(decoder, stream)?;
        Came::of(&self.answer, stream)
    }

    fn enqueue(&self, decoder: &MaskDecoder, stream: &Stream) -> Result<()> {
        let [hr0, hr1] = &self.fine;
        let chain = Chain::begin(stream, LaunchMode::Ordered);
        decoder.enqueue(&self.image, [hr0, hr1], &self.answer, &chain)
    }
}

/// What came, by name.
struct Came {
    low: Vec<u8>,
    iou: Vec<u8>,
    ious: Vec<u8>,
    pointer: Vec<u8>,
    score: Vec<u8>,
}

impl Came {
    fn of(answer: &MaskDecoderOutputs, stream: &Stream) -> Result<Self> {
        let MaskDecoderOutputs { low, iou, ious, pointer, score } = answer;
        let bytes = |view: &View| view.download(stream);
        Ok(Self {
            low: bytes(low)?,
            iou: bytes(iou)?,
            ious: bytes(ious)?,
            pointer: bytes(pointer)?,
            score: bytes(score)?,
        })
    }

    fn is(&self, other: &Self) -> bool {
        let all = |came: &Self| {
            [&came.low, &came.iou, &came.ious, &came.pointer, &came.score].map(Vec::clone)
        };
        all(self) == all(other)
    }
}

/// A decoder in each launch mode.
fn modes(bench: &Bench, case: &Case, Given { drawn, .. }: &Given, frame: &Frame) {
    let stream = &bench.stream;
    let decoder = drawn
        .weights()
        .and_then(|weights| MaskDecoder::new(bench.gpu, drawn.shape, &weights, stream));
    let decoder = match decoder {
        Ok(decoder) => decoder,
        Err(error) => return bench.found(row(MODES, case.name, Err(error))),
    };
    let MaskDecoderOutputs { low, iou, ious, pointer, score } = &frame.answer;
    let outputs = [low, iou, ious, pointer, score];
    let begin = || outputs.iter().try_for_each(|view| Ok(view.fill(POISON, stream)?));
    let enqueue = |mode: LaunchMode, stream: &Stream| {
        let [hr0, hr1] = &frame.fine;
        let chain = Chain::begin(stream, mode);
        decoder.enqueue_in(&frame.image, [hr0, hr1], &frame.answer, &chain)
    };
    let download = || -> Result<Vec<u8>> {
        let all: Result<Vec<Vec<u8>>> =
            outputs.iter().map(|view| Ok(view.download(stream)?)).collect();
        Ok(all?.concat())
    };
    let (case, image) = (case.name, bytes_of(&drawn.image, |value| value.to_le_bytes()));
    let (begin, enqueue, download) = (&begin, &enqueue, &download);
    let input = (&frame.image, &image[..]);
    chain_modes::judge(bench, &Chained { name: MODES, case, input, begin, enqueue, download });
}

fn check(bench: &Bench, Given { drawn, expected }: &Given, frame: &Frame) -> Result<Checked> {
    let stream = &bench.stream;
    let decoder = MaskDecoder::new(bench.gpu, drawn.shape, &drawn.weights()?, stream)?;
    let first = frame.anew(&decoder, stream)?;
    let mut checked = answer(&first, expected)?;
    // Another one with the same weights must give the same.
    let other = decoder.sharing(bench.gpu)?;
    for run in 1..RUNS {
        let decoder = if run % 2 == 0 { &decoder } else { &other };
        if !frame.anew(decoder, stream)?.is(&first) {
            checked.not_repeated();
        }
    }
    checked.timing = bench.time_recorded(bench.runs, |stream| frame.enqueue(&decoder, stream))?;
    Ok(checked)
}

/// Every output within its limits; what an absent object has instead is exact.
fn answer(came: &Came, expected: &Expected) -> Result<Checked> {
    let near = |limits: Limits, bytes: &[u8], sample: &[(usize, f64)]| {
        let value = |at: usize| {
            let four = bytes.get(4 * at..4 * at + 4).and_then(|four| four.try_into().ok());
            four.map_or(f64::NAN, |four| f64::from(f32::from_le_bytes(four)))
        };
        limits.judge(sample, value)
    };
    let halves = came.pointer.as_chunks::<2>().0;
    let half = |at: usize| {
        halves.get(at).map_or(f64::NAN, |two| f64::from(f16::from_le_bytes(*two).to_f32()))
    };
    let Expected { score, iou, ious, pointer, low } = expected;
    let ious: Vec<(usize, f64)> = ious.iter().copied().enumerate().collect();
    let mut found = vec![
        ("the score", near(TOKENS, &came.score, &[(0, *score)])),
        ("the IoU", near(TOKENS, &came.iou, &[(0, *iou)])),
        ("the three IoUs", near(TOKENS, &came.ious, &ious)),
    ];
    if *score > 0.0 {
        let pointer: Vec<(usize, f64)> = pointer.iter().copied().enumerate().collect();
        found.push(("the pointer", TOKENS.judge(&pointer, half)));
        found.push(("the logits", near(LOW, &came.low, low)));
    } else {
        let pointer = bytes_of(pointer, |value| f16::from_f64(*value).to_le_bytes());
        found.push(("the pointer", compare(&came.pointer, &pointer, 2)?));
        let absent = ABSENT.to_le_bytes().repeat(came.low.len() / 4);
        found.push(("the logits", compare(&came.low, &absent, 4)?));
    }
    Ok(Checked::of_outputs(&found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(expected: &Expected, side: usize) -> Came {
        let float = |value: f64| (value as f32).to_le_bytes().to_vec();
        let mut low = vec![ABSENT; side * side];
        if expected.score > 0.0 {
            expected.low.iter().for_each(|(at, value)| low[*at] = *value as f32);
        }
        Came {
            low: bytes_of(&low, |value| value.to_le_bytes()),
            iou: float(expected.iou),
            ious: expected.ious.iter().flat_map(|iou| float(*iou)).collect(),
            pointer: bytes_of(&expected.pointer, |value| f16::from_f64(*value).to_le_bytes()),
            score: float(expected.score),
        }
    }

    #[test]
    fn the_reference_has_the_mask_and_the_score_that_are_asked_for() {
        let shape = MaskDecoderShape { grid: 4, iou_sigmoid: false };
        let mut drawn = Drawn::new(shape, 1, "test");
        let decoded = reference::decode(&drawn);
        let mut of = |chosen: Option<usize>, there: bool| {
            drawn.settle(&decoded.rows, chosen, there);
            let expected = reference::expected(&drawn, &decoded, 0..16);
            (expected, drawn.get("heads.no_pointer").to_vec())
        };
        let [first, second, third] = [1, 2, 3].map(|mask| of(Some(mask), true).0);
        for expected in [&first, &second, &third] {
            assert!((expected.score - 2.0).abs() < 1e-5, "{}", expected.score);
            assert!((expected.iou - 1.5).abs() < 1e-5, "{}", expected.iou);
            assert_eq!(expected.low.len(), 256);
        }
        assert!(first.pointer != second.pointer && second.pointer != third.pointer);
        assert!(first.low != second.low && second.low != third.low);
        // The first of equals.
        assert_eq!(of(None, true).0.pointer, first.pointer);
        let (absent, no_pointer) = of(Some(2), false);
        assert!((absent.score + 2.0).abs() < 1e-5 && (absent.iou - 1.5).abs() < 1e-5);
        assert!(absent.pointer.iter().zip(&no_pointer).all(|(a, b)| *a == f64::from(*b)));

        // What is expected passes, and none of its parts may be another's.
        for expected in [&second, &absent] {
            assert_eq!(answer(&came(expected, 16), expected).unwrap().first, None);
            let said = |change: &dyn Fn(&mut Came)| {
                let mut came = came(expected, 16);
                change(&mut came);
                answer(&came, expected).unwrap().first.unwrap()
            };
            let nan = f32::NAN.to_le_bytes();
            let (low, pointer) = (4 * expected.low[7].0, 2 * 255);
            assert!(said(&|c| c.low[low..low + 4].copy_from_slice(&nan)).starts_with("the logits"));
            assert!(said(&|c| c.low[low + 3] ^= 0x80).starts_with("the logits: 1 element"));
            assert!(said(&|c| c.pointer[pointer + 1] ^= 0x80).starts_with("the pointer"));
            assert!(said(&|c| c.iou[2] ^= 0x40).starts_with("the IoU"));
            assert!(said(&|c| c.ious[10] ^= 0x40).starts_with("the three IoUs"));
            assert!(said(&|c| c.score[2] ^= 0x40).starts_with("the score"));
        }
    }
}
