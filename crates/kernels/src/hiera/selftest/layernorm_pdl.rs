/*!
Cases of LayerNorm with programmatic dependent launch, after the max pooling whose output it reads.
The tokens hold a pattern until then, so that a LayerNorm that does not wait is found.
*/

use anyhow::Result;

use super::super::HieraKernels;
use super::{DRAWN, EPSILON, SAMPLE, bytes_of_halves, check_near, drawn, halves};
use crate::selftest::f64_reference::layer_norm;
use crate::selftest::{Bench, Checked, Planned, bytes_of, row};
use cuda::{LaunchMode, Stream};

const NAME: &str = "hiera layernorm pdl";
/// Side of the map and columns: few rows, an odd number of them, and those of large's third and
/// fourth stage.
const CASES: [(usize, usize); 4] = [(4, 96), (15, 200), (64, 576), (32, 1152)];

/// The cases; none on GPUs without programmatic dependent launch.
pub(super) fn planned(bench: &Bench, kernels: &HieraKernels) -> Vec<Planned<(usize, usize)>> {
    let cases = CASES.iter().filter(|_| kernels.layernorm_has_pdl()).copied();
    bench.planned(cases, |(side, columns)| (side * side * columns, 1))
}

/// A row for each case.
pub(super) fn judge(bench: &Bench, kernels: &HieraKernels, cases: &[Planned<(usize, usize)>]) {
    bench.each(
        cases,
        |_| (),
        |(side, columns), ()| {
            let case = format!("{} x {columns}, pooled", side * side);
            bench.found(row(NAME, &case, check(bench, kernels, *side, *columns)));
        },
    );
}

fn check(bench: &Bench, kernels: &HieraKernels, side: usize, columns: usize) -> Result<Checked> {
    let rows = side * side;
    let drawn = halves(&drawn(bench.seed, "trunk normalize early"));
    let values: Vec<f32> = drawn.iter().map(|value| value.to_f32()).collect();
    // Four equal tokens make one.
    let of_token = |token: usize| {
        let (down, right) = (token / (2 * side) / 2, token % (2 * side) / 2);
        let from = (down * side + right) * columns;
        (from..from + columns).map(|at| drawn[at % DRAWN])
    };
    let map: Vec<_> = (0..4 * rows).flat_map(of_token).collect();
    let (weight, bias) = (&values[..columns], &values[columns..2 * columns]);
    let expected = (0..rows).step_by((rows / SAMPLE) | 1).map(|at| {
        let of = |column: usize| f64::from(values[(at * columns + column) % DRAWN]);
        (at, layer_norm(&(0..columns).map(of).collect::<Vec<f64>>(), weight, bias, EPSILON))
    });
    let expected: Vec<(usize, Vec<f64>)> = expected.collect();
    let floats = |values: &[f32]| bytes_of(values, |value| value.to_le_bytes());
    let (map, weight, bias) = (
        bench.put(&bytes_of_halves(&map))?,
        bench.put(&floats(weight))?,
        bench.put(&floats(bias))?,
    );
    let (x, out) = (bench.poisoned(4 * rows * columns)?, bench.poisoned(2 * rows * columns)?);
    let (kernels, to) = (kernels.clone(), out.clone());
    let prefetch = map.part(0, map.len() / 128 * 128)?;
    check_near(bench, &out, &expected, columns, move |stream: &Stream| {
        kernels.max_pool(&map, &x, [side, columns], LaunchMode::Ordered, stream)?;
        let size = [rows, columns];
        kernels.layernorm(&x, &weight, &bias, &to, Some(&prefetch), size, LaunchMode::Pdl, stream)
    })
}
