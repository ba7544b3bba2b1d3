/*!
Cases of Hiera's kernels, at the models' shapes and odd ones. Max pooling must be exact. The others
are compared with float64 on the host: GELU for every f16, LayerNorm and window attention for a
sample of a large shape. The slice of attention has the cases of global attention.
*/

mod any_gpu_trunk;
mod block;
mod layernorm_pdl;
mod stem;
mod transition;
mod two_ways;
mod whole_encoder;
mod whole_trunk;

use anyhow::Result;
use half::f16;

use super::HieraKernels;
use crate::Source;
use crate::attention::compare as near;
use crate::selftest::f64_reference::{gelu as gelu_of, layer_norm};
use crate::selftest::{Bench, Checked, POISON, Topic, bytes_of, compare, row};
use crate::window_attention::selftest as windows;
use cuda::cublaslt::{CublasLt, CublasLtError};
use cuda::{LaunchMode, Missed, Stream, View};
use vos::noise::Noise;

pub(crate) use block::TOPIC as BLOCK;
pub(crate) use stem::TOPIC as STEM;
pub(crate) use transition::TOPIC as TRANSITION;
pub(crate) use whole_trunk::TOPIC as WHOLE_TRUNK;

/// Compared rows of a large tensor, about.
pub(crate) const SAMPLE: usize = 64;
/// Drawn values, which large tensors repeat. No number of columns divides it, so that no two rows
/// are alike.
pub(crate) const DRAWN: usize = 65_521;
/// Epsilon of the LayerNorm.
pub(crate) const EPSILON: f64 = 1e-6;
/// Limits of GELU's error, relative and absolute: f16 has 2⁻¹¹, the polynomial 5·10⁻⁵, and the
/// smallest f16 are 2⁻²⁴ apart.
const GELU_LIMITS: (f64, f64) = (6e-4, 4e-8);

/// Rows and columns: the four stages of tiny, base+ and large, then odd ones (rows that do not fill
/// the last warp, columns that end within a lane's share).
const LAYERNORMS: [(usize, usize); 16] = [
    (65_536, 96),
    (16_384, 192),
    (4096, 384),
    (1024, 768),
    (16_384, 224),
    (4096, 448),
    (1024, 896),
    (65_536, 144),
    (16_384, 288),
    (4096, 576),
    (1024, 1152),
    (33, 8),
    (35, 128),
    (7, 136),
    (5, 640),
    (3, 1000),
];

/// Elements: tiny's first stage, base+'s third, large's third.
const GELUS: [(usize, usize); 3] = [(65_536, 384), (4096, 1792), (4096, 2304)];

/// Output side and columns: tiny's three, then odd ones.
const POOLS: [(usize, usize); 5] = [(128, 192), (64, 384), (32, 768), (3, 8), (7, 56)];

pub(crate) const TOPIC: Topic = Topic {
    word: "hiera",
    help: "LayerNorm, GELU, max pooling and window attention of a Hiera block",
    name: "Hiera",
    sources: &[
        Source::WindowAttention,
        Source::WindowAttentionHopper,
        Source::Hiera,
        Source::HieraHopper,
    ],
    used_by: Some("an encoder whose trunk is ours"),
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

/// Whether cases may use cuBLASLt, which is the user's: an installation that fails is their failure.
fn can_multiply(bench: &Bench) -> bool {
    let found = CublasLt::open(bench.gpu);
    let missing = matches!(found, Err(CublasLtError::Library(Missed::NotFound(_))));
    !bench.without_cublaslt && !missing
}

fn judge(bench: &Bench) {
    let hopper = bench.gpu.runs_hopper_kernels();
    let loaded = HieraKernels::of(bench.gpu, hopper).or_else(|error| {
        if !hopper {
            return Err(error);
        }
        // The other kernels are compared nevertheless.
        let kernels = HieraKernels::of(bench.gpu, false)?;
        bench.found(row("window attention hopper", "", Err(error)));
        Ok(kernels)
    });
    let kernels = match loaded {
        Ok(kernels) => kernels,
        Err(error) => return bench.found(row("trunk", "", Err(error))),
    };
    let normalized = bench.planned(LAYERNORMS, |(count, columns)| (count * columns, 1));
    let pdl = layernorm_pdl::planned(bench, &kernels);
    let halves = bench.planned([()], |()| (1 << 16, 1));
    let activated = bench.planned(GELUS, |(count, columns)| (count * columns, 1));
    let pooled = bench.planned(POOLS, |(side, columns)| (side * side * columns, 1));
    let windows = windows::planned(bench, &kernels);
    let seed = bench.seed;
    bench.each(
        &normalized,
        |(count, columns)| Normalized::new(seed, *count, *columns),
        |(count, columns), data| {
            let checked = normalize(bench, &kernels, &data);
            bench.found(row("hiera layernorm", &format!("{count} x {columns}"), checked));
        },
    );
    layernorm_pdl::judge(bench, &kernels, &pdl);
    bench.each(
        &halves,
        |()| (),
        |(), ()| {
            bench.found(row("hiera gelu", "every half", every_half(bench, &kernels)));
        },
    );
    bench.each(
        &activated,
        |_| (),
        |(count, columns), ()| {
            let checked = gelu(bench, &kernels, count * columns);
            bench.found(row("hiera gelu", &format!("{count} x {columns}"), checked));
        },
    );
    bench.each(
        &pooled,
        |(side, columns)| Pooled::new(seed, *side, *columns),
        |(side, columns), data| {
            let checked = pool(bench, &kernels, &data);
            let case = format!("{0} x {0} to {side} x {side}, {columns} columns", 2 * side);
            bench.found(row("hiera max pool", &case, checked));
        },
    );
    windows::judge(bench, windows);
}

/// So many bytes of the drawn ones, repeated.
pub(crate) fn repeated(drawn: &[u8], bytes: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes);
    while all.len() < bytes {
        all.extend_from_slice(&drawn[..drawn.len().min(bytes - all.len())]);
    }
    all
}

/// Normally distributed values, which large tensors repeat.
pub(crate) fn drawn(seed: u64, what: &str) -> Vec<f32> {
    Noise::new(seed, what).normals(DRAWN)
}

/// Rounded.
pub(crate) fn halves(values: &[f32]) -> Vec<f16> {
    values.iter().map(|value| f16::from_f32(*value)).collect()
}

/// As the device has them.
pub(crate) fn bytes_of_halves(values: &[f16]) -> Vec<u8> {
    bytes_of(values, |value| value.to_le_bytes())
}

/// Runs a kernel once, compares the sampled rows (place and elements) with float64, then takes the
/// time.
pub(crate) fn check_near(
    bench: &Bench,
    output: &View,
    expected: &[(usize, Vec<f64>)],
    columns: usize,
    enqueue: impl Fn(&Stream) -> Result<()>,
) -> Result<Checked> {
    output.fill(POISON, &bench.stream)?;
    enqueue(&bench.stream)?;
    let mut checked = near(&output.download(&bench.stream)?, expected, columns);
    checked.timing = bench.time_recorded(bench.runs, enqueue)?;
    Ok(checked)
}

/// Rows to normalise, and a sample of what must come out.
struct Normalized {
    size: [usize; 2],
    x: Vec<u8>,
    weight: Vec<u8>,
    bias: Vec<u8>,
    expected: Vec<(usize, Vec<f64>)>,
}

impl Normalized {
    fn new(seed: u64, rows: usize, columns: usize) -> Self {
        // Rows that lie off zero, as tokens on their way do.
        let mut values = drawn(seed, "trunk normalize");
        values.iter_mut().for_each(|value| *value = 3.0 * *value + 1.5);
        let (weight, bias) = (&values[..columns], &values[columns..2 * columns]);
        let floats = |values: &[f32]| bytes_of(values, |value| value.to_le_bytes());
        let expected = (0..rows).step_by((rows / SAMPLE) | 1).map(|at| {
            let of = |column: usize| f64::from(values[(at * columns + column) % DRAWN]);
            (at, layer_norm(&(0..columns).map(of).collect::<Vec<f64>>(), weight, bias, EPSILON))
        });
        Self {
            size: [rows, columns],
            x: repeated(&floats(&values), 4 * rows * columns),
            weight: floats(weight),
            bias: floats(bias),
            expected: expected.collect(),
        }
    }
}

fn normalize(bench: &Bench, kernels: &HieraKernels, data: &Normalized) -> Result<Checked> {
    let ([rows, columns], expected) = (data.size, &data.expected);
    let (x, weight, bias) = (bench.put(&data.x)?, bench.put(&data.weight)?, bench.put(&data.bias)?);
    let out = bench.poisoned(2 * rows * columns)?;
    let (kernels, to) = (kernels.clone(), out.clone());
    // The prefetched memory may be any: here whole lines of the input.
    let prefetch = x.part(0, x.len() / 128 * 128)?;
    check_near(bench, &out, expected, columns, move |stream| {
        kernels.layernorm(
            &x,
            &weight,
            &bias,
            &to,
            Some(&prefetch),
            [rows, columns],
            LaunchMode::Ordered,
            stream,
        )
    })
}

/// Compares f16 one by one; `at` is the element's index.
fn activated(found: &[u8], inputs: impl Iterator<Item = (usize, f16)>) -> Checked {
    let (mut checked, (relative, absolute)) = (
        Checked { elements: 0, different: 0, error: Some(0.0), first: None, timing: None },
        GELU_LIMITS,
    );
    let mut worst = 0.0_f64;
    for (at, x) in inputs {
        let value = f64::from(f16::from_le_bytes([found[2 * at], found[2 * at + 1]]).to_f32());
        let wanted = gelu_of(f64::from(x.to_f32()));
        let difference = (value - wanted).abs();
        checked.elements += 1;
        worst = worst.max(difference / (wanted.abs() + absolute / relative));
        // A NaN is no small difference.
        if difference.is_nan() || difference > relative * wanted.abs() + absolute {
            checked.different += 1;
            let said = || format!("element {at}, of {x}, is {value}, {wanted:.7e} is expected");
            checked.first.get_or_insert_with(said);
        }
    }
    checked.error = Some(worst);
    checked
}

fn every_half(bench: &Bench, kernels: &HieraKernels) -> Result<Checked> {
    let all: Vec<f16> =
        (0..=u16::MAX).map(f16::from_bits).filter(|value| value.is_finite()).collect();
    let x = bench.put(&bytes_of_halves(&all))?;
    kernels.gelu(&x, all.len(), &bench.stream)?;
    Ok(activated(&x.download(&bench.stream)?, all.iter().copied().enumerate()))
}

fn gelu(bench: &Bench, kernels: &HieraKernels, elements: usize) -> Result<Checked> {
    let values = halves(&drawn(bench.seed, "trunk gelu"));
    let x = bench.put(&repeated(&bytes_of_halves(&values), 2 * elements))?;
    kernels.gelu(&x, elements, &bench.stream)?;
    let places = (0..elements).step_by((elements / 4096) | 1);
    let mut checked =
        activated(&x.download(&bench.stream)?, places.map(|at| (at, values[at % DRAWN])));
    let kernels = kernels.clone();
    checked.timing =
        bench.time_recorded(bench.runs, move |stream| kernels.gelu(&x, elements, stream))?;
    Ok(checked)
}

/// A map to pool, and what must come out.
struct Pooled {
    side: usize,
    columns: usize,
    s: Vec<u8>,
    expected: Vec<u8>,
}

impl Pooled {
    fn new(seed: u64, side: usize, columns: usize) -> Self {
        let drawn = halves(&drawn(seed, "trunk pool"));
        let values: Vec<f32> = drawn.iter().map(|value| value.to_f32()).collect();
        let mut expected = Vec::with_capacity(4 * side * side * columns);
        for token in 0..side * side {
            let first = (token / side * 4 * side + token % side * 2) * columns;
            for column in first..first + columns {
                let at = |right: usize, below: usize| {
                    values[(column + (below * 2 * side + right) * columns) % DRAWN]
                };
                let greatest = at(0, 0).max(at(1, 0)).max(at(0, 1).max(at(1, 1)));
                expected.extend_from_slice(&greatest.to_le_bytes());
            }
        }
        let s = repeated(&bytes_of_halves(&drawn), 2 * 4 * side * side * columns);
        Self { side, columns, s, expected }
    }
}

fn pool(bench: &Bench, kernels: &HieraKernels, data: &Pooled) -> Result<Checked> {
    let (side, columns, s) = (data.side, data.columns, bench.put(&data.s)?);
    let x = bench.poisoned(data.expected.len())?;
    let (kernels, to) = (kernels.clone(), x.clone());
    check_same(bench, &x, &data.expected, 4, move |stream| {
        kernels.max_pool(&s, &to, [side, columns], LaunchMode::Ordered, stream)
    })
}

/// As [`check_near`], to the last bit.
fn check_same(
    bench: &Bench,
    output: &View,
    expected: &[u8],
    width: usize,
    enqueue: impl Fn(&Stream) -> Result<()>,
) -> Result<Checked> {
    enqueue(&bench.stream)?;
    let mut checked = compare(&output.download(&bench.stream)?, expected, width)?;
    checked.timing = bench.time_recorded(bench.runs, enqueue)?;
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_that_are_off_are_found() {
        let of = |x: f32, y: f32| {
            let found = f16::from_f32(y).to_le_bytes();
            activated(&found, std::iter::once((0, f16::from_f32(x)))).different
        };
        assert_eq!((of(1.0, 0.841_345), of(1.0, 0.8394), of(1.0, f32::NAN)), (0, 1, 1));
        // The tanh that is often taken for it.
        assert_eq!((of(-3.0, -0.004_049_7), of(-3.0, -0.003_637)), (0, 1));
    }
}
