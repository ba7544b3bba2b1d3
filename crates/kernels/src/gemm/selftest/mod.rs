/*!
Cases of the GEMMs: cuBLASLt's, and the custom kernels with an epilogue. All are compared with
float64 on the host, for a sample of rows and columns.
*/

mod bias_gelu;
mod cublaslt;
mod norm_between;
mod normed;
mod residual_layernorm;

use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use crate::selftest::f64_reference::dot;
use crate::selftest::{Bench, Topic, row};
use crate::{HieraKernels, Source};
use cuda::cublaslt::{CublasLt, CublasLtError};
use cuda::{MemoryTag, Missed};

/// Compared rows, and columns, about.
const SAMPLE: usize = 64;
pub(crate) const TOPIC: Topic = Topic {
    word: "gemm",
    help: "GEMMs of cuBLASLt, and the custom ones with a GELU or LayerNorm epilogue",
    name: "GEMMs",
    sources: &[
        Source::GemmLayernormHopper192,
        Source::GemmLayernormHopper224,
        Source::GemmLayernormHopper144,
        Source::GemmLayernormHopper384,
        Source::GemmLayernormHopper448,
        Source::GemmBiasHopper,
        Source::GemmGeluHopper,
        Source::GemmMomentsHopper,
        Source::GemmNormedHopper,
        Source::GemmNormedGeluHopper,
        Source::WindowAttention,
        Source::Hiera,
    ],
    used_by: None,
    needs_cublaslt: false,
    judge,
};

/// Two rows for each case, and the rows of GEMMs with an epilogue; the reason if there is no
/// cuBLASLt.
fn judge(bench: &Bench) -> Result<(), String> {
    let lt = match CublasLt::open(&bench.gpu.tagged(MemoryTag::Scratch)) {
        Ok(lt) => lt,
        Err(error @ CublasLtError::Library(Missed::NotFound(_))) => return Err(error.to_string()),
        Err(error) => {
            bench.found(row(cublaslt::NAME, "", Err(error.into())));
            return Ok(());
        }
    };
    let cases = cublaslt::Cases::new(bench);
    let kernels = HieraKernels::load(bench.gpu);
    let fused = kernels.map(|kernels| {
        let gelu = bias_gelu::Cases::new(bench, &kernels);
        let layernorm = residual_layernorm::Cases::new(bench, &kernels);
        (gelu, layernorm, norm_between::Cases::new(bench, &kernels))
    });
    cases.judge(bench, &lt);
    match fused {
        Ok((gelu, layernorm, between)) => {
            gelu.judge(bench, &lt);
            layernorm.judge(bench, &lt);
            between.judge(bench, &lt);
        }
        Err(error) => bench.found(row(bias_gelu::NAME, "", Err(error))),
    }
    Ok(())
}
/// Places out of `length`, the first and the last among them.
pub(super) fn sample(length: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..length).step_by((length / SAMPLE) | 1).collect();
    if places.last() != Some(&(length - 1)) {
        places.push(length - 1);
    }
    places
}

/// A sample of the elements of `a weightᵀ`, each with its place in `[m, n]`; sizes are M, N and K.
pub(super) fn gemm_sample(a: &[f16], weight: &[f16], sizes: [usize; 3]) -> Vec<(usize, f64)> {
    let depth = sizes[2];
    let row = |at: usize| {
        let tokens = a[at * depth..(at + 1) * depth].to_f32_vec();
        tokens.into_iter().map(f64::from).collect()
    };
    sample_of(row, weight, sizes)
}

/// The same where `row` computes the rows of `a`.
fn sample_of(
    row: impl Fn(usize) -> Vec<f64> + Sync,
    weight: &[f16],
    [rows, columns, depth]: [usize; 3],
) -> Vec<(usize, f64)> {
    let weights = |at: usize| weight[at * depth..(at + 1) * depth].to_f32_vec();
    let of_columns: Vec<(usize, Vec<f32>)> =
        sample(columns).into_iter().map(|column| (column, weights(column))).collect();
    let of_row = |at: usize| {
        let tokens: Vec<f64> = row(at);
        let sum =
            |(column, weight): &(usize, Vec<f32>)| (at * columns + column, dot(&tokens, weight));
        of_columns.iter().map(sum).collect::<Vec<_>>()
    };
    sample(rows).into_par_iter().flat_map_iter(of_row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_reach_both_ends_and_are_few() {
        for length in [1, 2, 33, 64, 65, 96, 1728, 4097, 65_536] {
            let places = sample(length);
            assert_eq!((places[0], *places.last().unwrap()), (0, length - 1));
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{length}");
            assert!(places.len() <= length.min(2 * SAMPLE), "{length}: {}", places.len());
            // A step that divides tiles would see the same column of each.
            assert!(places.len() < 3 || (places[1] - places[0]) % 2 == 1, "{length}");
        }
        assert_eq!(sample(33).len(), 33, "of few, all");
    }
}
