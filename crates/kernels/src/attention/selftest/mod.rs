/*!
Cases of the fused attention: against float64 on the host, for a sample of the queries, as all of
them would take minutes.

The kernels round the softmax weights to f16. So a small error is required, and the same bits from
every run.
*/

mod cases;
mod groups;

use anyhow::Result;
use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;
use zerocopy::IntoBytes;

use super::kernels::Form;
use super::{Attended, Attention, AttentionKernels, AttentionShape, Values};
use crate::Source;
use crate::kernel::Chain;
use crate::selftest::f64_reference::{add, dot};
use crate::selftest::{Bench, CaseRow, Checked, Limits, Topic, row};
use cases::CASES;
use cuda::{LaunchMode, Stream, View};
use vos::noise::Noise;

/// The softmax weights and the result are rounded to f16.
const LIMITS: Limits = Limits { error: 1e-3, deviation: 2e-2 };
/// Compared queries of each object, about.
const SAMPLE: usize = 64;
/// Runs that must give the same bits.
const RUNS: usize = 3;

struct Case {
    name: &'static str,
    values: Values,
    /// Heads side by side in an encoder's tokens, instead of tensors of their own.
    tokens: bool,
    objects: usize,
    queries: usize,
    keys: usize,
    /// Which of eight parts of the keys the bias masks: it is 0 elsewhere. Without, no bias.
    masked: Option<&'static [usize]>,
    /// Deviation of the scores.
    scale: f32,
}

pub(crate) const TOPIC: Topic = Topic {
    word: "attention",
    help: "Attention of the track step and of encoders",
    name: "attention",
    sources: &[Source::AttentionClusterHopper, Source::AttentionGlobalHopper, Source::Attention],
    used_by: Some("the fused bank"),
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

fn judge(bench: &Bench) {
    let mut forms = vec![Form::Any];
    if bench.gpu.facts().sm == 90 {
        forms.insert(0, Form::Hopper);
    }
    let mut variants = Vec::new();
    for form in forms {
        match AttentionKernels::of(bench.gpu, form) {
            Ok(kernels) => variants.push((form, kernels)),
            Err(error) => {
                let case = if form == Form::Any { "for any GPU" } else { "for Hopper" };
                return bench.found(row("attention", case, Err(error)));
            }
        }
    }
    let cases = bench.planned(&CASES, |case| {
        let rows = variants.iter().filter(|(form, _)| case.is_for(*form)).count();
        let rows = rows + groups::rows(case);
        (case.objects * case.queries * case.values.columns(), rows)
    });
    let seed = bench.seed;
    bench.each(
        &cases,
        |case| Data::new(case, seed),
        |case, data| {
            for (_, kernels) in variants.iter().filter(|(form, _)| case.is_for(*form)) {
                bench.found(case.row(bench, kernels, &data));
            }
            // The last ones are those for any GPU.
            if let Some((_, kernels)) = variants.last() {
                groups::judge(bench, case, kernels, &data);
            }
        },
    );
}

impl Case {
    /// Whether kernels of that form take the case: Hopper's for heads have no bias.
    fn is_for(&self, form: Form) -> bool {
        let heads = matches!(self.values, Values::Heads(_));
        form == Form::Any || !heads || self.masked.is_none()
    }

    fn row(&self, bench: &Bench, kernels: &AttentionKernels, data: &Data) -> CaseRow {
        let Self { name, objects, queries, keys, .. } = self;
        let shape = self.shape();
        let mut what = "attention".to_owned();
        let checked = Attention::new(bench.gpu, kernels, shape).and_then(|made| {
            let merged = if made.splits() > 1 { " and combine" } else { "" };
            what = format!("{}{merged}", made.kernel(data.bias.is_some()));
            check(bench, made, data)
        });
        let mut row = row(&what, &format!("{name}: {objects} x {queries} x {keys}"), checked);
        self.rate(&mut row);
        row
    }

    fn shape(&self) -> AttentionShape {
        let Self { objects, queries, keys, values, .. } = *self;
        AttentionShape { objects, queries, keys, values }
    }

    fn rate(&self, row: &mut CaseRow) {
        let Self { objects, queries, keys, values, .. } = self;
        let products = 2 * objects * queries * keys * (values.width() + values.columns());
        row.tflops = row.timing.map(|timing| products as f64 / timing.median_ms / 1e9);
    }
}

/// Inputs, and what must come out.
struct Data {
    /// q, k and v, or one tensor of tokens.
    inputs: Vec<Vec<f16>>,
    bias: Option<Vec<f32>>,
    /// Place of each looked-at query among all rows of the result, and its result.
    expected: Vec<(usize, Vec<f64>)>,
}

impl Data {
    fn new(case: &Case, seed: u64) -> Self {
        let Case { name, tokens, objects, queries, keys, values, masked, scale } = case;
        let mut noise = Noise::new(seed, name);
        let mut tensor = |rows: usize, columns: usize, scale: f32| -> Vec<f16> {
            noise.halves(objects * rows * columns, scale)
        };
        let (width, columns) = (values.width(), values.columns());
        // Queries come scaled: the score of a key is a sum of `width` products.
        let q = tensor(*queries, width, scale / (width as f32).sqrt());
        let (k, v) = (tensor(*keys, width, 1.0), tensor(*keys, columns, 1.0));
        let bias: Option<Vec<f32>> = masked.map(|masked| {
            let slot = |key: usize| key * 8 / keys;
            (0..*keys).map(|key| if masked.contains(&slot(key)) { -1e4 } else { 0.0 }).collect()
        });
        let (k32, v32) = (k.to_f32_vec(), v.to_f32_vec());
        let sample = (0..*queries).step_by((queries / SAMPLE) | 1);
        let sample: Vec<(usize, usize)> =
            (0..*objects).flat_map(|object| sample.clone().map(move |at| (object, at))).collect();
        let attended = |(object, query): (usize, usize)| {
            let keys_of = &k32[object * keys * width..(object + 1) * keys * width];
            let values_of = &v32[object * keys * columns..(object + 1) * keys * columns];
            let row = object * queries + query;
            let q = q[row * width..(row + 1) * width].to_f32_vec();
            let place = if *tokens { query * objects + object } else { row };
            (place, attend(&q, keys_of, values_of, bias.as_deref(), columns))
        };
        let expected = sample.into_par_iter().map(attended).collect();
        let inputs =
            if *tokens { vec![interleaved([&q, &k, &v], *objects, width)] } else { vec![q, k, v] };
        Self { inputs, bias, expected }
    }
}

/// Tokens `[tokens, q|k|v, heads, columns]` of three tensors `[heads, tokens, columns]`.
fn interleaved(parts: [&[f16]; 3], heads: usize, columns: usize) -> Vec<f16> {
    let tokens = parts[0].len() / heads / columns;
    let mut all = Vec::with_capacity(3 * parts[0].len());
    for (token, part) in (0..tokens).flat_map(|token| parts.map(|part| (token, part))) {
        for head in 0..heads {
            let start = (head * tokens + token) * columns;
            all.extend_from_slice(&part[start..start + columns]);
        }
    }
    all
}

/// One query's result in float64.
fn attend(q: &[f32], k: &[f32], v: &[f32], bias: Option<&[f32]>, columns: usize) -> Vec<f64> {
    let q: Vec<f64> = q.iter().map(|value| f64::from(*value)).collect();
    let mut weights: Vec<f64> = k.chunks_exact(q.len()).map(|key| dot(&q, key)).collect();
    for (weight, bias) in weights.iter_mut().zip(bias.unwrap_or_default()) {
        *weight += f64::from(*bias);
    }
    let top = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut total, mut result) = (0.0, vec![0.0; columns]);
    for (weight, value) in weights.iter().zip(v.chunks_exact(columns)) {
        let weight = (weight - top).exp();
        total += weight;
        add(&mut result, weight, value);
    }
    result.iter_mut().for_each(|sum| *sum /= total);
    result
}

fn check(bench: &Bench, made: Attention, data: &Data) -> Result<Checked> {
    let (mut checked, enqueue) = prepare(bench, made, data)?;
    checked.timing = bench.time_recorded(bench.runs, enqueue)?;
    Ok(checked)
}

/// Compares without a time, and returns what enqueues the launches.
fn prepare(
    bench: &Bench,
    made: Attention,
    data: &Data,
) -> Result<(Checked, impl Fn(&Stream) -> Result<View> + use<>)> {
    let inputs = data.inputs.iter().map(|tensor| bench.put(tensor.as_bytes()));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let bias = data.bias.as_ref().map(|bias| bench.put(bias.as_bytes())).transpose()?;
    let AttentionShape { objects, queries, values, .. } = made.shape();
    let columns = values.columns();
    let output = bench.poisoned(2 * objects * queries * columns)?;
    let enqueue = move |stream: &Stream| {
        match &inputs[..] {
            [q, k, v] => {
                let chain = Chain::begin(stream, LaunchMode::Ordered);
                let out = Attended::Whole(output.clone());
                made.enqueue_in([q, k, v], bias.as_ref(), &out, &chain)?
            }
            tokens => made.enqueue_tokens([&tokens[0], &output], LaunchMode::Ordered, stream)?,
        }
        Ok(output.clone())
    };
    let first = enqueue(&bench.stream)?.download(&bench.stream)?;
    let mut checked = compare(&first, &data.expected, columns);
    for _ in 1..RUNS {
        let again = enqueue(&bench.stream)?.download(&bench.stream)?;
        if again != first && checked.first.is_none() {
            checked.first = Some("two runs on the same inputs gave other bits".to_owned());
        }
    }
    Ok((checked, enqueue))
}

/// The sample against what is expected of it.
pub(crate) fn compare(found: &[u8], expected: &[(usize, Vec<f64>)], columns: usize) -> Checked {
    let value =
        |at: usize| f64::from(f16::from_le_bytes([found[2 * at], found[2 * at + 1]]).to_f32());
    let row = |(place, row): &(usize, Vec<f64>)| {
        let start = place * columns;
        row.iter().enumerate().map(move |(at, wanted)| (start + at, *wanted)).collect::<Vec<_>>()
    };
    LIMITS.judge(&expected.iter().flat_map(row).collect::<Vec<_>>(), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect()
    }

    #[test]
    fn the_reference_is_a_softmax() {
        let mut q = vec![0.0; 8];
        q[0] = 1.0;
        let mut k = vec![0.0; 16];
        // Scores ln 3 and 0: weights 3/4 and 1/4.
        k[0] = 3.0_f32.ln();
        let found = attend(&q, &k, &[4.0, 8.0, 0.0, 4.0], None, 2);
        assert!((found[0] - 3.0).abs() < 1e-6 && (found[1] - 7.0).abs() < 1e-6, "{found:?}");
        // The bias takes the first key away.
        assert_eq!(attend(&q, &k, &[4.0, 8.0, 0.0, 4.0], Some(&[-1e4, 0.0]), 2), [0.0, 4.0]);
    }

    #[test]
    fn heads_lie_side_by_side_in_tokens() {
        let of = |values: [f32; 4]| values.map(f16::from_f32);
        // Two heads of a column, two tokens: head by head, then token by token.
        let (q, k, v) = (of([1.0, 2.0, 3.0, 4.0]), of([5.0, 6.0, 7.0, 8.0]), of([9.0; 4]));
        let found = interleaved([&q, &k, &v], 2, 1).to_f32_vec();
        assert_eq!(found, [1.0, 3.0, 5.0, 7.0, 9.0, 9.0, 2.0, 4.0, 6.0, 8.0, 9.0, 9.0]);
    }

    #[test]
    fn errors_and_numbers_that_are_none_are_found() {
        let expected = [(1, vec![1.0, -1.0])];
        let of = |values: [f32; 4]| compare(&halves(&values), &expected, 2);
        assert!(of([9.0, 9.0, 1.0, -1.0]).first.is_none());
        assert_eq!(of([9.0, 9.0, 1.0, -0.9]).different, 1);
        assert_eq!(of([0.0, 0.0, f32::NAN, -1.0]).different, 1);
        // Small for each element, too much for all.
        let drift = of([0.0, 0.0, 1.01, -1.01]);
        assert!(drift.different == 0 && drift.first.unwrap().starts_with("the relative error"));
    }
}
