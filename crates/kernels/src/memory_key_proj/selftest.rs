/*!
The memory attention's keys against float64 on the host, for a sample of the keys of every layer.
*/

use anyhow::Result;
use half::f16;
use rayon::prelude::*;

use crate::attention::compare as near;
use crate::selftest::{Bench, Checked, Topic, bytes_of, row};
use crate::{MemoryKeyProj, Source};
use vos::bundle::{MemoryKeyProjShape, MemoryKeyProjWeights, TimeWeights};
use vos::noise::Noise;

/// About how many keys of each layer are looked at.
const SAMPLE: usize = 64;
/// As in the source.
const TOKEN: usize = 64;
const KEY: usize = 256;
const PAIRS: usize = KEY / 2;
const QUARTERS: usize = KEY / TOKEN;

const SAM2: MemoryKeyProjShape =
    MemoryKeyProjShape { layers: 4, memories: 7, tokens: 4096, pointers: 16, pointer_times: true };

/// SAM 2.1 at 1024 and 512 pixels, EdgeTAM's sizes, then places and quarters of pointers that fill
/// no tile.
const CASES: [MemoryKeyProjShape; 5] = [
    SAM2,
    MemoryKeyProjShape { tokens: 1024, ..SAM2 },
    MemoryKeyProjShape { layers: 2, tokens: 512, pointer_times: false, ..SAM2 },
    MemoryKeyProjShape { layers: 3, memories: 2, tokens: 41, pointers: 5, pointer_times: true },
    MemoryKeyProjShape { layers: 1, memories: 2, tokens: 1, pointers: 3, pointer_times: false },
];

pub(crate) const TOPIC: Topic = Topic {
    word: "memory-key-proj",
    help: "The memory attention's keys",
    name: "the memory attention's keys",
    sources: &[Source::MemoryKeyProj],
    used_by: Some("the fused bank"),
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

fn judge(bench: &Bench) {
    let all = |case: &MemoryKeyProjShape| case.memories * case.tokens + case.pointers * QUARTERS;
    let cases = bench.planned(CASES, |case| (case.layers * all(case) * KEY, 1));
    let name = |case: &MemoryKeyProjShape| {
        let MemoryKeyProjShape { layers, memories, tokens, pointers, pointer_times } = case;
        let times = if *pointer_times { "with" } else { "without" };
        format!(
            "{layers} layers, {memories} memories of {tokens}, {pointers} pointers {times} times"
        )
    };
    let seed = bench.seed;
    bench.each(
        &cases,
        |case| {
            let drawn = Drawn::new(seed, *case, &name(case));
            let expected = drawn.expected();
            (drawn, expected)
        },
        |case, (drawn, expected)| {
            let mut checked = row("memory_key_proj", &name(case), check(bench, &drawn, &expected));
            let flops = 2.0 * (case.layers * all(case) * KEY * TOKEN) as f64;
            checked.tflops = checked.timing.as_ref().map(|timing| flops / timing.median_ms / 1e9);
            bench.found(checked);
        },
    );
}

/// What a launch reads, as the host has it.
struct Drawn {
    case: MemoryKeyProjShape,
    memories: Vec<f16>,
    ages: Vec<i32>,
    pointers: Vec<f16>,
    times: Vec<f32>,
    weight: Vec<f16>,
    bias: Vec<f32>,
    positions: Vec<f16>,
    age_rows: Vec<f16>,
    turns: Vec<f16>,
    frequencies: Vec<f32>,
    time_weight: Vec<f32>,
    time_bias: Vec<f32>,
}

impl Drawn {
    fn new(seed: u64, case: MemoryKeyProjShape, name: &str) -> Self {
        let MemoryKeyProjShape { layers, memories, tokens, pointers, .. } = case;
        let mut noise = Noise::new(seed, name);
        let mut normals = |count: usize, scale: f32| -> Vec<f32> {
            noise.normals(count).iter().map(|value| scale * value).collect()
        };
        let halves =
            |values: Vec<f32>| -> Vec<f16> { values.into_iter().map(f16::from_f32).collect() };
        let angles = normals(tokens * PAIRS, 30.0);
        Self {
            case,
            memories: halves(normals(memories * tokens * TOKEN, 1.0)),
            // The conditioning frame has the last row, and the ring begins anywhere.
            ages: (0..memories).map(|at| ((at + memories - 1) % memories) as i32).collect(),
            pointers: halves(normals(pointers * KEY, 1.0)),
            times: (0..pointers).map(|at| (at + 1) as f32 / pointers as f32).collect(),
            weight: halves(normals(layers * KEY * TOKEN, 0.125)),
            bias: normals(layers * KEY, 0.5),
            positions: halves(normals(tokens * TOKEN, 0.5)),
            age_rows: halves(normals(memories * TOKEN, 0.5)),
            turns: halves(angles.iter().flat_map(|angle| [angle.cos(), angle.sin()]).collect()),
            frequencies: (0..PAIRS)
                .map(|at| 10_000.0_f32.powf(-2.0 * (at / 2) as f32 / PAIRS as f32))
                .collect(),
            time_weight: normals(KEY * TOKEN, 0.1),
            time_bias: normals(TOKEN, 0.5),
        }
    }

    fn weights(&self) -> MemoryKeyProjWeights {
        let times = self.case.pointer_times.then(|| TimeWeights {
            frequencies: floats(&self.frequencies),
            weight: floats(&self.time_weight),
            bias: floats(&self.time_bias),
        });
        MemoryKeyProjWeights {
            weight: halves(&self.weight),
            bias: floats(&self.bias),
            positions: halves(&self.positions),
            ages: halves(&self.age_rows),
            turns: halves(&self.turns),
            times,
        }
    }

    /// What is projected for a key.
    fn token(&self, key: usize) -> Vec<f64> {
        let MemoryKeyProjShape { memories, tokens, pointer_times, .. } = self.case;
        let of = |values: &[f16], row: usize, column: usize| {
            f64::from(values[row * TOKEN + column].to_f32())
        };
        let Some(quarter) = key.checked_sub(memories * tokens) else {
            let age = self.ages[key / tokens] as usize;
            let place = key % tokens;
            let sum = |column| {
                of(&self.memories, key, column)
                    + of(&self.positions, place, column)
                    + of(&self.age_rows, age, column)
            };
            return (0..TOKEN).map(sum).collect();
        };
        let time = f64::from(self.times[quarter / QUARTERS]);
        let angle = |at: usize| time * f64::from(self.frequencies[at % PAIRS]);
        let wave = |at: usize| if at < PAIRS { angle(at).sin() } else { angle(at).cos() };
        let waves: Vec<f64> = (0..KEY).map(wave).collect();
        let projected = |column: usize| {
            let product = |at: usize| waves[at] * f64::from(self.time_weight[at * TOKEN + column]);
            (0..KEY).map(product).sum::<f64>() + f64::from(self.time_bias[column])
        };
        let added = |column| if pointer_times { projected(column) } else { 0.0 };
        (0..TOKEN).map(|column| of(&self.pointers, quarter, column) + added(column)).collect()
    }

    fn key(&self, layer: usize, key: usize) -> Vec<f64> {
        let token = self.token(key);
        let product = |column: usize| {
            let row = (layer * KEY + column) * TOKEN;
            let weight = self.weight[row..row + TOKEN].iter();
            let sum: f64 = weight.zip(&token).map(|(w, x)| f64::from(w.to_f32()) * x).sum();
            sum + f64::from(self.bias[layer * KEY + column])
        };
        let plain: Vec<f64> = (0..KEY).map(product).collect();
        let MemoryKeyProjShape { memories, tokens, .. } = self.case;
        if key >= memories * tokens {
            return plain;
        }
        let turned = |column: usize| {
            let pair = column % PAIRS;
            let at = 2 * (key % tokens * PAIRS + pair);
            let [cos, sin] = [self.turns[at], self.turns[at + 1]].map(|x| f64::from(x.to_f32()));
            let (a, b) = (plain[pair], plain[pair + PAIRS]);
            if column < PAIRS { a * cos - b * sin } else { a * sin + b * cos }
        };
        (0..KEY).map(turned).collect()
    }

    /// A sample of the keys of every layer, each with its place.
    fn expected(&self) -> Vec<(usize, Vec<f64>)> {
        let MemoryKeyProjShape { layers, memories, tokens, pointers, .. } = self.case;
        let all = memories * tokens + pointers * QUARTERS;
        let places = (0..all).step_by((all / SAMPLE) | 1);
        // The last ones are pointers'.
        let places: Vec<usize> = places.chain(all - pointers * QUARTERS..all).collect();
        let sample: Vec<(usize, usize)> =
            (0..layers).flat_map(|layer| places.iter().map(move |key| (layer, *key))).collect();
        let of = |(layer, key): (usize, usize)| (layer * all + key, self.key(layer, key));
        sample.into_par_iter().map(of).collect()
    }
}

fn floats(values: &[f32]) -> Vec<u8> {
    bytes_of(values, |value| value.to_le_bytes())
}

fn halves(values: &[f16]) -> Vec<u8> {
    bytes_of(values, |value| value.to_le_bytes())
}

fn check(bench: &Bench, drawn: &Drawn, expected: &[(usize, Vec<f64>)]) -> Result<Checked> {
    let case = drawn.case;
    let keys = MemoryKeyProj::new(bench.gpu, case, &drawn.weights(), &bench.stream)?;
    let all = keys.keys();
    let memories = bench.put(&halves(&drawn.memories))?;
    let ages = bench.put(&bytes_of(&drawn.ages, |age| age.to_le_bytes()))?;
    let pointers = bench.put(&halves(&drawn.pointers))?;
    let times = case.pointer_times.then(|| bench.put(&floats(&drawn.times))).transpose()?;
    let out = bench.poisoned(2 * case.layers * all * KEY)?;
    keys.enqueue([&memories, &ages, &pointers], times.as_ref(), &out, &bench.stream)?;
    let mut checked = near(&out.download(&bench.stream)?, expected, KEY);
    checked.timing = bench.time_recorded(bench.runs, |stream| {
        keys.enqueue([&memories, &ages, &pointers], times.as_ref(), &out, stream)
    })?;
    Ok(checked)
}
