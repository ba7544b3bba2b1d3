/*!
The memory encoder, all launches together, against float64 on the host: memories of objects that are
there and of ones that are not, of masks that are 0 or 1 and of ones between, with latents and
without.
*/

mod beside;
mod drawn;
mod fuse;
mod mlp;
mod reference;
mod ways;

use anyhow::Result;
use half::f16;
use rayon::prelude::*;

use super::launches::MODULES;
use crate::MemoryEncoder;
use crate::images::Topic as Source;
use crate::selftest::{Bench, Checked, Limits, POISON, Topic, bytes_of, row};
use cuda::{Branch, Stream, View};
use drawn::Drawn;
use reference::Given;
use vos::bundle::MemoryEncoderShape;
use vos::bundle::memory_encoder::{DEPTH, LATENTS};

const NAME: &str = "memory encoder";
/// Where there are more tokens, and no latents that read all of them, some squares of this side are
/// looked at: all others cost as much again.
const WHOLE: usize = 1024;
const SQUARE: usize = 4;
/// Runs that must give the same bits.
const RUNS: usize = 2;
/// Logits of an object that is not there.
const ABSENT: f32 = -1024.0;

/// What is halves on the way: the mask's channels, tokens between the kernels, hidden columns,
/// normalised tokens, a softmax's weights, and the memory itself. Each is off by 2⁻¹² on average,
/// independently, and none of it is amplified much by what follows: with sums in f32 the host finds
/// 5e-4 of tokens and 6e-4 to 8e-4 of latents.
const LIMITS: Limits = Limits { error: 2e-3, deviation: 2e-2 };

struct Case {
    name: &'static str,
    grid: usize,
    latents: bool,
    frames: &'static [Frame],
}

/// What tells one frame of a case from another.
#[derive(Clone, Copy, Debug)]
struct Frame {
    name: &'static str,
    binary: bool,
    score: f32,
    /// As the mask decoder has them: of an object that is not there all logits are the same.
    absent: bool,
}

const SOFT: Frame = Frame { name: "there", binary: false, score: 1.5, absent: false };
const HARD: Frame = Frame { name: "0 or 1, not there", binary: true, score: -0.5, absent: false };
const FLAT: Frame = Frame { name: "empty, not there", binary: false, score: 0.0, absent: true };

/// One whose windows have a token each, one whose tokens fill no tile, and images of 512, 768 and
/// 1024 pixels. The first two run all kernels: a sanitizer that is stopped later has seen each of
/// them. At 768 a row of tokens ends between two runs of 16 that one block has.
const CASES: [Case; 8] = [
    Case {
        name: "of 16 x 16 tokens, with latents",
        grid: 16,
        latents: true,
        frames: &[SOFT, HARD],
    },
    Case { name: "of 6 x 6 tokens", grid: 6, latents: false, frames: &[SOFT, HARD, FLAT] },
    Case { name: "at 512", grid: 32, latents: false, frames: &[SOFT, HARD] },
    Case { name: "at 512, with latents", grid: 32, latents: true, frames: &[SOFT, HARD] },
    Case { name: "at 768", grid: 48, latents: false, frames: &[HARD] },
    Case { name: "at 768, with latents", grid: 48, latents: true, frames: &[SOFT] },
    Case { name: "at 1024", grid: 64, latents: false, frames: &[SOFT] },
    Case { name: "at 1024, with latents", grid: 64, latents: true, frames: &[HARD] },
];

impl Case {
    fn shape(&self) -> MemoryEncoderShape {
        // Those of SAM 2.1 and EdgeTAM.
        MemoryEncoderShape { grid: self.grid, scale: 20.0, offset: -10.0, latents: self.latents }
    }
}

const SOURCES: [Source; 8] = {
    let [a, b, c, d, e] = MODULES;
    let (mlp, fuse) = (Source::MlpHopper, Source::MemoryEncoderFuseHopper);
    [a, b, c, d, e, mlp, fuse, Source::MemoryEncoderConvnext128]
};

pub(crate) const TOPIC: Topic = Topic {
    word: "memory-encoder",
    help: "The memory encoder",
    name: "the memory encoder",
    sources: &SOURCES,
    used_by: Some("a memory encoder that is ours"),
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

fn judge(bench: &Bench) {
    // The memory in front of latents.
    let cases = bench.planned(CASES, |case| {
        let parts = mlp::rows(bench, case) + fuse::rows(bench, case) + ways::rows(bench, case);
        (case.shape().tokens() * DEPTH, case.frames.len() + parts)
    });
    let seed = bench.seed;
    bench.each(
        &cases,
        |case| {
            let drawn = Drawn::new(case.shape(), seed, case.name);
            let expected: Vec<Vec<f64>> =
                case.frames.par_iter().map(|frame| frame.expected(&drawn)).collect();
            (drawn, expected)
        },
        |case, (drawn, expected)| {
            let works =
                Work::new(bench, &drawn).and_then(|one| Ok([one, Work::new(bench, &drawn)?]));
            let [mut old, mut work] = match works {
                Ok(works) => works,
                Err(error) => return bench.found(row(NAME, case.name, Err(error))),
            };
            (old.encoder.mlp, old.encoder.fuse, work.encoder.mlp) = (None, None, None);
            let Some((last, wanted)) = case.frames.last().zip(expected.last()) else { return };
            // Hopper's kernel for mask and features first: racecheck takes minutes for the rest.
            if let Some(fuse) = fuse::on_hopper(bench, case) {
                work.encoder.fuse = Some(fuse);
                fuse::judge(bench, case, &drawn, (last, wanted), [&old, &work]);
                work.encoder.fuse = None;
            }
            // As any GPU computes it.
            for (frame, expected) in case.frames.iter().zip(&expected) {
                let name = format!("{}, {}", case.name, frame.name);
                let checked = check(bench, &drawn, &old, frame, expected);
                bench.found(row(NAME, &name, checked));
            }
            // Then the last frame with other MLPs, at any size; latents come behind them.
            for (mlp, ways) in mlp::others(bench, case) {
                let name = format!("{}, {}, MLP {}", case.name, last.name, ways[1]);
                match mlp {
                    Ok(mlp) => work.encoder.mlp = Some(mlp),
                    Err(error) => {
                        bench.found(row(NAME, &name, Err(error)));
                        continue;
                    }
                }
                let checked = check(bench, &drawn, &work, last, wanted);
                bench.found(row(NAME, &name, checked));
                mlp::judge(bench, case, ways, [&old, &work]);
            }
            work.encoder.fuse = fuse::on_hopper(bench, case);
            work.encoder.mlp = mlp::on_hopper(bench, case);
            if let Err(error) = work.give(&last.given(&last.low(&drawn)), &bench.stream) {
                return bench.found(row(NAME, case.name, Err(error)));
            }
            ways::judge(bench, case, &work, &drawn);
        },
    );
}

impl Frame {
    fn low(&self, drawn: &Drawn) -> Vec<f32> {
        if self.absent { vec![ABSENT; drawn.low.len()] } else { drawn.low.clone() }
    }

    fn given<'a>(&self, low: &'a [f32]) -> Given<'a> {
        Given { low, binary: self.binary, score: self.score }
    }

    fn expected(&self, drawn: &Drawn) -> Vec<f64> {
        let low = self.low(drawn);
        reference::memory(drawn, &self.given(&low), &looked_at(drawn.shape))
    }
}

/// An encoder, what it takes and what it gives.
struct Work {
    encoder: MemoryEncoder,
    feat: View,
    low: View,
    score: View,
    binary: View,
    memory: View,
}

impl Work {
    fn new(bench: &Bench, drawn: &Drawn) -> Result<Self> {
        let shape = drawn.shape;
        let room = |bytes: usize| View::new(bench.gpu, bytes);
        Ok(Self {
            encoder: MemoryEncoder::new(bench.gpu, shape, &drawn.weights()?, &bench.stream)?,
            feat: bench.put(&bytes_of(&drawn.feat, |value| value.to_le_bytes()))?,
            low: room(4 * drawn.low.len())?,
            score: room(4)?,
            binary: room(4)?,
            memory: room(2 * shape.memory_tokens() * DEPTH)?,
        })
    }

    fn give(&self, given: &Given, stream: &Stream) -> Result<()> {
        let binary = f32::from(u8::from(given.binary));
        self.low.upload(&bytes_of(given.low, |value| value.to_le_bytes()), stream)?;
        self.score.upload(&given.score.to_le_bytes(), stream)?;
        Ok(self.binary.upload(&binary.to_le_bytes(), stream)?)
    }

    /// As the program does it, where a recording may have a branch.
    fn enqueue(&self, stream: &Stream, branch: Option<&Branch>) -> Result<()> {
        self.encoder.enqueue(self.inputs(), &self.memory, stream, branch)
    }

    fn inputs(&self) -> [&View; 4] {
        [&self.feat, &self.low, &self.score, &self.binary]
    }

    /// Poisons the memory, and makes it.
    fn anew(&self, stream: &Stream) -> Result<Vec<u8>> {
        self.memory.fill(POISON, stream)?;
        self.enqueue(stream, None)?;
        Ok(self.memory.download(stream)?)
    }
}

fn check(
    bench: &Bench,
    drawn: &Drawn,
    work: &Work,
    frame: &Frame,
    expected: &[f64],
) -> Result<Checked> {
    let stream = &bench.stream;
    let low = frame.low(drawn);
    work.give(&frame.given(&low), stream)?;
    let first = work.anew(stream)?;
    let mut checked = near(&first, expected, drawn.shape, &looked_at(drawn.shape));
    for _ in 1..RUNS {
        if work.anew(stream)? != first {
            checked.not_repeated();
        }
    }
    checked.timing = bench.time_recorded(bench.runs, |stream| work.enqueue(stream, None))?;
    Ok(checked)
}

/// Tokens of the image that are computed on the host: all, or squares in the corners, across the
/// middle and across a tile's end beside it.
fn looked_at(shape: MemoryEncoderShape) -> Vec<bool> {
    let MemoryEncoderShape { grid, latents, .. } = shape;
    let tokens = shape.tokens();
    if latents || tokens <= WHOLE {
        return vec![true; tokens];
    }
    let (last, middle) = (grid - SQUARE, (grid - SQUARE) / 2);
    let squares = [(0, 0), (0, last), (last, 0), (last, last), (middle, middle), (middle, 14)];
    let mut wanted = vec![false; tokens];
    for (top, left) in squares {
        for y in top..top + SQUARE {
            wanted[y * grid + left..][..SQUARE].fill(true);
        }
    }
    wanted
}

/// Each kind of token within its limits.
fn near(came: &[u8], expected: &[f64], shape: MemoryEncoderShape, wanted: &[bool]) -> Checked {
    let halves = came.as_chunks::<2>().0;
    let value =
        |at: usize| halves.get(at).map_or(f64::NAN, |two| f16::from_le_bytes(*two).to_f64());
    let judged = |taken: &dyn Fn(usize) -> bool| {
        let sample = expected.iter().copied().enumerate();
        let sample: Vec<(usize, f64)> = sample.filter(|(at, _)| taken(at / DEPTH)).collect();
        LIMITS.judge(&sample, value)
    };
    let found = if shape.latents {
        vec![
            ("the latents of all tokens", judged(&|token| token < LATENTS)),
            ("the latents of windows", judged(&|token| token >= LATENTS)),
        ]
    } else {
        vec![("the tokens", judged(&|token| wanted.get(token) == Some(&true)))]
    };
    Checked::of_outputs(&found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: MemoryEncoderShape =
        MemoryEncoderShape { grid: 6, scale: 20.0, offset: -10.0, latents: false };

    fn given<'a>(low: &'a [f32], frame: &Frame) -> Given<'a> {
        Given { low, binary: frame.binary, score: frame.score }
    }

    fn came(expected: &[f64]) -> Vec<u8> {
        bytes_of(expected, |value| f16::from_f64(*value).to_le_bytes())
    }

    #[test]
    fn a_sample_is_computed_as_in_the_whole() {
        let drawn = Drawn::new(SMALL, 1, "test");
        let given = given(&drawn.low, &SOFT);
        let whole = reference::memory(&drawn, &given, &[true; 36]);
        let mut wanted = vec![false; 36];
        wanted[7] = true;
        let sample = reference::memory(&drawn, &given, &wanted);
        assert_eq!(sample[7 * DEPTH..8 * DEPTH], whole[7 * DEPTH..8 * DEPTH]);
        // Of others nothing is known, and nothing asked.
        let bytes = came(&sample);
        assert_eq!(near(&bytes, &whole, SMALL, &wanted).first, None);
        let said = near(&bytes, &whole, SMALL, &[true; 36]).first.unwrap();
        assert!(said.starts_with("the tokens: "), "{said}");
        // At 1024 all four corners.
        let wanted = looked_at(MemoryEncoderShape { grid: 64, ..SMALL });
        let corners = [0, 63, 63 * 64, 64 * 64 - 1];
        assert!(corners.iter().all(|at| wanted[*at]) && wanted.contains(&false));
        assert_eq!(wanted.iter().filter(|wanted| **wanted).count(), 6 * SQUARE * SQUARE);
        assert_eq!(
            looked_at(MemoryEncoderShape { latents: true, grid: 64, ..SMALL }),
            vec![true; 4096]
        );
    }

    #[test]
    fn score_and_kind_of_mask_change_every_token() {
        let drawn = Drawn::new(SMALL, 1, "test");
        let of = |binary: bool, score: f32| {
            let given = Given { low: &drawn.low, binary, score };
            reference::memory(&drawn, &given, &[true; 36])
        };
        let (soft, hard) = (of(false, 1.0), of(true, 1.0));
        let differs = |a: &[f64], b: &[f64]| {
            a.chunks(DEPTH).zip(b.chunks(DEPTH)).all(|(a, b)| a.iter().zip(b).any(|(a, b)| a != b))
        };
        assert!(differs(&soft, &hard) && differs(&soft, &of(false, 0.0)));
        // At 0 the object is not there, as below.
        assert_eq!(of(false, 0.0), of(false, -3.0));
        let shift: Vec<f64> = of(false, 0.0).iter().zip(&soft).map(|(a, b)| a - b).collect();
        let absent = drawn.get("memory.absent").iter().cycle();
        assert!(shift.iter().zip(absent).all(|(a, b)| (a - f64::from(*b)).abs() < 1e-9));
    }

    #[test]
    fn both_kinds_of_latents_are_held_to_what_is_expected() {
        let shape = MemoryEncoderShape { grid: 16, latents: true, ..SMALL };
        // As if they were a memory.
        let expected = Drawn::new(shape, 1, "test").doubles("latents.flat").repeat(2);
        assert_eq!(expected.len(), shape.memory_tokens() * DEPTH);
        assert_eq!(near(&came(&expected), &expected, shape, &[]).first, None);
        for (element, kind) in [(5, "all tokens"), (256 * DEPTH + 5, "windows")] {
            let mut wrong = came(&expected);
            wrong[2 * element + 1] ^= 0x80;
            let said = near(&wrong, &expected, shape, &[]).first.unwrap();
            assert!(said.starts_with(&format!("the latents of {kind}: 1 element")), "{said}");
        }
        let short = came(&expected[..expected.len() - 1]);
        assert!(near(&short, &expected, shape, &[]).first.is_some(), "an element is missing");
    }

    #[test]
    fn what_is_folded_gives_what_it_is_folded_from() {
        let shape = MemoryEncoderShape { grid: 16, latents: true, ..SMALL };
        let drawn = Drawn::new(shape, 1, "test");
        assert_eq!(drawn.get("latents.windows.halves").len(), 155_648);
        assert_eq!(drawn.get("latents.windows.floats").len(), 1408);
        let square = DEPTH * DEPTH;
        let of = |name: &str| drawn.doubles(&format!("latents.layers.0.{name}"));
        let times = |weight: &[f64], x: &[f64]| -> Vec<f64> {
            let row = |row: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum();
            weight.chunks(DEPTH).map(row).collect()
        };
        let near = |a: &[f64], b: &[f64]| {
            let size = b.iter().map(|b| b * b).sum::<f64>().sqrt();
            let off = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
            assert!(off < 1e-3 * size, "{off} of {size}");
        };
        let x: Vec<f64> = (0..DEPTH).map(|at| (at as f64).sin()).collect();
        let y: Vec<f64> = (0..DEPTH).map(|at| (at as f64 * 0.7).cos()).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (kv, halves) = (of("kv"), drawn.doubles("latents.windows.halves"));
        // A score: query and key of two rows.
        let score = dot(&times(&of("query.weight"), &x), &times(&kv[..square], &y));
        near(&[dot(&times(&halves[..square], &x), &y)], &[score]);
        let answer = times(&of("out"), &times(&kv[square..], &y));
        near(&times(&halves[square..2 * square], &y), &answer);
        let alone = times(&of("self.out"), &times(&of("self.qkv")[2 * square..], &x));
        near(&times(&halves[2 * square + 8 * square..][..square], &x), &alone);
        assert_eq!(halves[2 * square..6 * square], of("ff.up"));
    }
}
