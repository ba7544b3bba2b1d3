/*!
Operands, float64 reference and results of GEMM, residual add and LayerNorm.
*/

use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use crate::hiera::selftest::EPSILON;
use crate::selftest::f64_reference::{dot, layer_norm};
use crate::{GemmLayerNormKernels, GemmMomentsKernels};
use vos::noise::Noise;

/// Compared rows, about.
const SAMPLE: usize = 32;
/// Offsets of the residual's rows: a variance computed as the difference of two large numbers
/// shows.
const OFFSETS: [f32; 4] = [0.0, 50.0, 0.0, -400.0];
/// Elements that are compared at a time.
const PIECE: usize = 1 << 14;
/// Limits of the difference between two implementations: relative to the element, and absolute.
const APART_ADDED: (f32, f32) = (1e-6, 2e-3);
const APART_NORMED: (f32, f32) = (2e-3, 4e-3);

/// Columns of the first stage of tiny (and small), base+ and large; the next two have twice and
/// four times as many.
const MODELS: [(&str, usize); 3] = [("tiny", 96), ("base+", 112), ("large", 144)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub name: &'static str,
    /// M, N, K.
    pub sizes: [usize; 3],
    /// The norm's output lies over the tokens.
    pub in_place: bool,
}

impl Case {
    pub fn title(&self) -> String {
        let Self { name, sizes: [m, n, k], in_place } = self;
        let place = if *in_place { ", in place" } else { "" };
        format!("{name}: {m} x {n} x {k}{place}")
    }
}

/// Whether a kernel serves this N and K.
fn served(n: usize, k: usize) -> bool {
    GemmLayerNormKernels::supports(n, k) || GemmMomentsKernels::supports(n, k)
}

/// Few and odd rows (that fill no tile, or one of a cluster's), K that ends in a stage of one, two,
/// three and no instructions; more tiles than run at once; then the models' stages as
/// far as a kernel serves them.
pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (model, (name, width)) in MODELS.into_iter().enumerate() {
        for (stage, factor) in [1, 2, 4, 8].into_iter().enumerate() {
            let n = factor * width;
            // Not of the first stages of tiny, small and base+.
            if !served(n, 4 * n) {
                continue;
            }
            let mut add = |name, m, k, in_place| {
                all.push(Case { name, sizes: [m, n, k], in_place });
            };
            let depths = [96, 112, 144, 80, n, 4 * n];
            for (turn, m) in [33, 1, 300, 129, 4097].into_iter().enumerate() {
                let name = if m < 128 { "few" } else { "odd" };
                add(name, m, depths[(3 * model + stage + turn) % depths.len()], false);
            }
            add("few", 33, n, true);
            add("odd", 300, n, true);
            add("many", 65_537_usize.div_ceil(factor), 80, false);
            add("many", 65_537_usize.div_ceil(factor), n, true);
            let tokens = [65_536, 16_384, 4096, 1024][stage];
            add(name, tokens, n, true);
            add(name, tokens, 4 * n, false);
        }
    }
    all
}

/// Operands on the host.
pub struct Data {
    sizes: [usize; 3],
    pub tokens: Vec<f16>,
    pub weight: Vec<f16>,
    pub bias: Vec<f32>,
    /// The residual, before.
    pub before: Vec<f32>,
    /// The norm's weight and bias.
    pub norm: [Vec<f32>; 2],
}

/// Places of what is looked at, and what is expected there: of the residual what was added to it.
pub struct Expected {
    pub added: Vec<(usize, f64)>,
    pub normed: Vec<(usize, f64)>,
}

impl Data {
    pub fn new(seed: u64, sizes: [usize; 3]) -> Self {
        let [m, n, k] = sizes;
        let mut noise = Noise::new(seed, &format!("normed {sizes:?}"));
        // Sums of products are as large as what is added to them.
        let tokens = noise.halves(m * k, 1.0);
        let weight = noise.halves(n * k, (k as f32).sqrt().recip());
        let mut before = noise.normals(m * n);
        for (row, values) in before.chunks_mut(n).enumerate() {
            let offset = OFFSETS[row % OFFSETS.len()];
            values.iter_mut().for_each(|value| *value += offset);
        }
        let scale = noise.normals(n).into_iter().map(|value| 1.0 + 0.5 * value);
        let scale: Vec<f32> = scale.collect();
        let bias = noise.normals(n);
        Self { sizes, tokens, weight, bias, before, norm: [scale, noise.normals(n)] }
    }

    /// What must come out, of a sample of rows.
    pub fn expected(&self) -> Expected {
        let [m, n, k] = self.sizes;
        let weight = self.weight.to_f32_vec();
        let [scale, shift] = &self.norm;
        let of_row = |row: usize| {
            let tokens = self.tokens[row * k..(row + 1) * k].to_f32_vec();
            let tokens: Vec<f64> = tokens.into_iter().map(f64::from).collect();
            let first = row * n;
            let of_columns = weight.chunks_exact(k).zip(&self.bias);
            let added: Vec<f64> =
                of_columns.map(|(weight, bias)| f64::from(*bias) + dot(&tokens, weight)).collect();
            let before = &self.before[first..first + n];
            let sums: Vec<f64> = before
                .iter()
                .zip(&added)
                .map(|(before, added)| f64::from(*before) + added)
                .collect();
            let placed = |values: Vec<f64>| -> Vec<(usize, f64)> {
                values.into_iter().enumerate().map(|(at, x)| (first + at, x)).collect()
            };
            (placed(added), placed(layer_norm(&sums, scale, shift, EPSILON)))
        };
        let (added, normed): (Vec<_>, Vec<_>) = sample(m).into_par_iter().map(of_row).unzip();
        Expected { added: added.concat(), normed: normed.concat() }
    }
}

/// Places out of `length`: the first, the last, and in odd steps between, so that rows of every
/// place in a tile and every offset are among them.
pub fn sample(length: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..length).step_by((length / SAMPLE) | 1).collect();
    if places.last() != Some(&(length - 1)) {
        places.push(length - 1);
    }
    places
}

fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).to_f32()
}

/// What a device has in residual (f32) and output (f16).
#[derive(Debug, PartialEq, Eq)]
pub struct Came {
    pub residual: Vec<u8>,
    pub normed: Vec<u8>,
}

impl Came {
    pub fn residual(&self, at: usize) -> f32 {
        f32::from_le_bytes([0, 1, 2, 3].map(|byte| self.residual[4 * at + byte]))
    }

    pub fn normed(&self, at: usize) -> f32 {
        half_at(&self.normed, at)
    }

    /// The first element, of all, that is not near the other way's, in words.
    pub fn apart_from(&self, theirs: &Self) -> Option<String> {
        let normed = [&self.normed, &theirs.normed].map(Vec::as_slice);
        self.residual_apart_from(theirs)
            .or_else(|| apart("the norm", normed, 2, halves, APART_NORMED))
    }

    /// The same of the residual alone.
    pub fn residual_apart_from(&self, theirs: &Self) -> Option<String> {
        let residual = [&self.residual, &theirs.residual].map(Vec::as_slice);
        apart("the residual", residual, 4, floats, APART_ADDED)
    }
}

/// The first element of ours and theirs that is not near, of so many bytes each.
fn apart(
    what: &str,
    [ours, theirs]: [&[u8]; 2],
    width: usize,
    read: fn(&[u8]) -> Vec<f32>,
    (share, least): (f32, f32),
) -> Option<String> {
    let pieces = ours.par_chunks(PIECE * width).zip(theirs.par_chunks(PIECE * width)).enumerate();
    let (at, ours, theirs) = pieces.find_map_first(|(piece, (ours, theirs))| {
        let (ours, theirs) = (read(ours), read(theirs));
        // A NaN is no small difference.
        let near =
            |(ours, theirs): (&f32, &f32)| (ours - theirs).abs() <= share * theirs.abs() + least;
        let at = ours.iter().zip(&theirs).position(|pair| !near(pair))?;
        Some((PIECE * piece + at, ours[at], theirs[at]))
    })?;
    Some(format!("element {at} of {what} is {ours}, the other way's is {theirs}"))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

fn halves(bytes: &[u8]) -> Vec<f32> {
    let halves = bytes.as_chunks().0.iter().map(|two| f16::from_le_bytes(*two));
    halves.collect::<Vec<f16>>().to_f32_vec()
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn cases_are_told_apart_and_served_and_some_are_small() {
        let all = cases();
        for (at, case) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other.title() != case.title()), "{case:?}");
            let [_, n, k] = case.sizes;
            assert!(served(n, k), "{case:?}");
            assert!(!case.in_place || n == k, "{case:?}");
        }
        let small = |case: &&Case| case.sizes[0] * case.sizes[1] <= 128_000;
        for rest in [0, 16, 32, 48] {
            let mut small = all.iter().filter(small);
            assert!(small.any(|case| case.sizes[2] % 64 == rest), "{rest}");
        }
        for n in [144, 192, 224, 288, 384, 448, 576, 768, 896, 1152] {
            let of = |case: &&Case| case.sizes[1] == n;
            assert!(all.iter().filter(small).filter(of).any(|case| case.in_place), "{n}");
            assert!(all.iter().filter(small).filter(of).any(|case| !case.in_place), "{n}");
        }
    }

    #[test]
    fn rows_of_all_offsets_and_both_ends_are_looked_at() {
        for m in [1, 33, 129, 4097, 65_536] {
            let places = sample(m);
            assert_eq!((places[0], *places.last().unwrap()), (0, m - 1));
            assert!(places.len() <= 2 * SAMPLE && places.windows(2).all(|pair| pair[0] < pair[1]));
            let of = |turn: usize| places.iter().any(|row| row % OFFSETS.len() == turn);
            assert!(m < OFFSETS.len() || (0..OFFSETS.len()).all(of), "{m}");
        }
    }

    #[test]
    fn an_element_that_is_not_the_other_ways_is_found_wherever_it_is() {
        let came = |residual: [f32; 4], normed: [f32; 4]| Came {
            residual: residual.as_bytes().to_vec(),
            normed: normed.map(f16::from_f32).as_bytes().to_vec(),
        };
        let right = came([1.0, -400.0, 3.0, 0.0], [0.5, 8.0, -1.0, 0.0]);
        // A rounding apart.
        let near = came([1.000_01, -400.000_03, 3.0, 0.0], [0.5, 8.007_812_5, -1.0, 0.0]);
        assert_eq!(near.apart_from(&right), None);
        let added = came([1.0, -400.0, 3.0, 0.01], [0.5, 8.0, -1.0, 0.0]);
        assert!(added.apart_from(&right).unwrap().starts_with("element 3 of the residual is 0.01"));
        for wrong in [f32::NAN, -1.02] {
            let normed = came([1.0, -400.0, 3.0, 0.0], [0.5, 8.0, wrong, 0.0]);
            assert!(normed.apart_from(&right).unwrap().starts_with("element 2 of the norm is"));
        }
    }
}
