/*!
LayerNorms that are no kernels of their own, on Hopper: the GEMM before one leaves raw tokens and
the moments of their rows, and the GEMM after it corrects its sums by them (`folded_weights`). So no
kernel waits for whole rows: not the norm, and not a cluster that holds them.

A norm is folded where its GEMMs are kernels of their own and are its only reader: a block that
begins a stage reads normalised tokens twice.

Tokens are rounded to f16 before they are normalised. A row whose offset exceeds its deviation by a
factor loses as much precision.
*/

use std::cell::Cell;
use std::rc::Rc;

use anyhow::Result;
use rayon::prelude::*;

use super::alternatives::Alternatives;
use super::folded_weights::FoldedBytes;
use super::fused::FusedPlaces;
use super::shapes::BlockGemms;
use super::weights::{Affine, DeviceBlock, FoldedWeights};
use crate::gemm::{FoldedNorm, GemmKernels, GemmMomentsKernels, GemmMomentsOperands};
use cuda::cublaslt::{Choices, FoldChoice, MatmulShape};
use cuda::{Gpu, LaunchMode, MemoryTag, Stream, View};
use vos::bundle::trunk::{HieraBlock, HieraWeights};

/// A GEMM after a block's first norm has no GELU, the one after its second norm has.
const GELU: [bool; 2] = [false, true];

/// GEMMs of two shapes with a LayerNorm between them, and the kernels that fold it, in pairs. All
/// blocks with these shapes share it.
pub(super) struct Fold {
    /// Before the norm and after it.
    shapes: [MatmulShape; 2],
    moments: GemmMomentsKernels,
    normed: GemmKernels,
    pairs: Vec<[&'static str; 2]>,
    chosen: Cell<Option<[&'static str; 2]>>,
}

/// Both are chosen, or neither is and the norm stays.
impl Alternatives for Fold {
    type Kernel = [&'static str; 2];

    fn what(&self) -> String {
        let [before, after] = self.shapes;
        format!("the norm between {before} and {after}")
    }

    fn kernels(&self) -> &[[&'static str; 2]] {
        &self.pairs
    }

    fn kernel(&self) -> Option<[&'static str; 2]> {
        self.chosen.get()
    }

    fn choose(&self, kernels: Option<[&'static str; 2]>) {
        self.chosen.set(kernels);
    }
}

impl Fold {
    /// None if there is no kernel for one of the GEMMs. Chosen are `wanted` kernels, if both exist.
    fn of(
        shapes: [MatmulShape; 2],
        gelu: bool,
        moments: &GemmMomentsKernels,
        normed: &GemmKernels,
        wanted: Option<[&str; 2]>,
    ) -> Option<Self> {
        let [before, after] = shapes;
        let served = GemmMomentsKernels::supports(before.n, before.k)
            && GemmKernels::supports(after.n, after.k);
        if !served {
            return None;
        }
        let after: Vec<&str> = normed.normed_names(gelu).collect();
        let pairs = pairs(moments.names(before.n, before.k), &after);
        let chosen = pairs.iter().copied().find(|pair| Some(*pair) == wanted);
        let (moments, normed) = (moments.clone(), normed.clone());
        let fold = Self { shapes, moments, normed, pairs, chosen: Cell::new(chosen) };
        (!fold.pairs.is_empty()).then_some(fold)
    }

    /// As the manifest has it; none if the norm stays.
    pub fn choice(&self) -> Option<FoldChoice> {
        let kernels = self.kernel()?.map(str::to_owned);
        Some(FoldChoice { matmuls: self.shapes, kernels })
    }

    /// Parts of a row that its first kernel measures, of this `pair`, and bytes of all moments.
    fn moments(&self, [name, _]: [&str; 2]) -> (usize, usize) {
        let [MatmulShape { m, n, .. }, _] = self.shapes;
        let parts = GemmMomentsKernels::parts(name, n);
        (parts, GemmMomentsKernels::moments_bytes(parts, m))
    }
}

/// Each kernel with each.
fn pairs<'a>(before: impl Iterator<Item = &'a str>, after: &[&'a str]) -> Vec<[&'a str; 2]> {
    before.flat_map(|one| after.iter().map(move |another| [one, *another])).collect()
}

/// A LayerNorm that can be folded.
pub(super) struct FoldedPlace {
    fold: Rc<Fold>,
    weights: FoldedWeights,
    /// Of any of its kernels, at least.
    moments: View,
}

impl FoldedPlace {
    /// Enqueues the GEMM before the norm: `residual += tokens weightᵀ + bias`, and `out` the same
    /// in f16, which must not lie over the tokens: other blocks of threads still read those. No
    /// allocation; may be recorded.
    ///
    /// # Errors
    /// The norm is not folded, views of other sizes, or an error of the driver.
    pub fn enqueue_before(
        &self,
        Affine { weight, bias }: &Affine,
        [tokens, residual, out]: [&View; 3],
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let Some(pair @ [name, _]) = self.fold.kernel() else {
            anyhow::bail!("{} is a kernel of its own", self.fold.what());
        };
        let [MatmulShape { m, n, k, .. }, _] = self.fold.shapes;
        let (_, bytes) = self.fold.moments(pair);
        let operands = GemmMomentsOperands {
            a: tokens,
            weight,
            bias,
            residual,
            out,
            moments: &self.moments.part(0, bytes)?,
            prefetch: Some(&self.weights.prefetch),
        };
        self.fold.moments.enqueue(name, [m, n, k], &operands, mode, stream)
    }

    /// Enqueues the GEMM after the norm, from raw `tokens` to `out`.
    ///
    /// # Errors
    /// As [`Self::enqueue_before`].
    pub fn enqueue_after(
        &self,
        [tokens, out]: [&View; 2],
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let Some(pair @ [_, name]) = self.fold.kernel() else {
            anyhow::bail!("{} is a kernel of its own", self.fold.what());
        };
        let [_, MatmulShape { m, n, k, .. }] = self.fold.shapes;
        let (parts, bytes) = self.fold.moments(pair);
        let FoldedWeights { weight, column_sums, bias, .. } = &self.weights;
        let norm = FoldedNorm { moments: &self.moments.part(0, bytes)?, parts, column_sums, bias };
        let operands = [tokens, weight, out];
        self.fold.normed.enqueue_normed(name, [m, n, k], operands, &norm, mode, stream)
    }
}

/// The norms of a trunk that can be folded, before their weights are made.
pub(super) struct FoldPlan {
    folds: Vec<Rc<Fold>>,
    /// Of each block's norms.
    places: Vec<[Option<Rc<Fold>>; 2]>,
}

impl FoldPlan {
    /// Those that `choices` fold; without choices all that can be.
    pub fn new(
        blocks: &[HieraBlock],
        kernels: Option<(&GemmMomentsKernels, &GemmKernels)>,
        choices: Option<&Choices>,
    ) -> Self {
        let mut plan = Self { folds: Vec::new(), places: Vec::new() };
        let Some((moments, normed)) = kernels else {
            return plan;
        };
        for at in 0..blocks.len() {
            let mut of = |shapes: Option<[MatmulShape; 2]>, gelu: bool| {
                let shapes = shapes?;
                if let Some(known) = plan.folds.iter().find(|known| known.shapes == shapes) {
                    return Some(Rc::clone(known));
                }
                let wanted = choices.and_then(|choices| choices.fold(shapes));
                let fold = Fold::of(shapes, gelu, moments, normed, wanted)?;
                match fold.kernel() {
                    Some([before, after]) => {
                        log::debug!("{} is folded into {before} and {after}", fold.what());
                    }
                    None if choices.is_some() => return None,
                    None => {}
                }
                let fold = Rc::new(fold);
                plan.folds.push(Rc::clone(&fold));
                Some(fold)
            };
            let [first, second] = around_norms(blocks, at);
            plan.places.push([of(first, GELU[0]), of(second, GELU[1])]);
        }
        plan
    }

    /// The weights of the GEMMs after these norms, made by all processors. A place whose weights
    /// exceed f16 is none any more.
    pub fn weights(&mut self, blocks: &[HieraWeights]) -> Vec<[Option<FoldedBytes>; 2]> {
        let used: Vec<[bool; 2]> =
            self.places.iter().map(|norms| norms.each_ref().map(Option::is_some)).collect();
        let fold = |(block, [first, second]): (&HieraWeights, &[bool; 2])| {
            let HieraWeights { norm1, qkv, norm2, up, .. } = *block;
            let of = |used: bool, norm, gemm| used.then(|| FoldedBytes::of(norm, gemm)).flatten();
            [of(*first, norm1, qkv), of(*second, norm2, up)]
        };
        let made: Vec<_> = blocks.par_iter().zip(&used).map(fold).collect();
        for (places, made) in self.places.iter_mut().zip(&made) {
            for (place, made) in places.iter_mut().zip(made) {
                if let (Some(fold), None) = (&place, made) {
                    log::warn!("{} is not folded everywhere: f16 is too small", fold.what());
                    *place = None;
                }
            }
        }
        made
    }

    /// At their places, with the weights on the device, which leave `blocks`.
    ///
    /// # Errors
    /// Too little memory, or another error of the driver.
    pub fn place(self, gpu: &Gpu, blocks: &mut [DeviceBlock]) -> Result<FoldedPlaces> {
        let pairs =
            self.folds.iter().flat_map(|fold| fold.pairs.iter().map(move |pair| (fold, pair)));
        let Some(bytes) = pairs.map(|(fold, pair)| fold.moments(*pair).1).max() else {
            return Ok(FoldedPlaces::default());
        };
        let moments = View::new(&gpu.tagged(MemoryTag::Scratch), bytes)?;
        let place = |(fold, weights): (Option<Rc<Fold>>, Option<FoldedWeights>)| {
            let moments = moments.clone();
            Some(FoldedPlace { fold: fold?, weights: weights?, moments })
        };
        let places = self.places.into_iter().zip(blocks).map(|(folds, block)| {
            let [first, second] = block.folded.each_mut().map(Option::take);
            let [first_fold, second_fold] = folds;
            [place((first_fold, first)), place((second_fold, second))]
        });
        Ok(FoldedPlaces { places: places.collect(), folds: self.folds })
    }
}

/// The shapes around the first norm of a block and around its second, where GEMMs alone use it.
fn around_norms(blocks: &[HieraBlock], at: usize) -> [Option<[MatmulShape; 2]>; 2] {
    let Some(block) = blocks.get(at) else {
        return [None, None];
    };
    let BlockGemms { qkv, proj, up, .. } = BlockGemms::of(block);
    let before = at.checked_sub(1).and_then(|before| blocks.get(before));
    let before = before.filter(|_| !block.skips()).map(|before| BlockGemms::of(before).down);
    [before.map(|down| [down, qkv]), Some([proj, up])]
}

/// The norms of a trunk that can be folded, at their places.
#[derive(Default)]
pub(super) struct FoldedPlaces {
    /// Of each block's norms.
    places: Vec<[Option<FoldedPlace>; 2]>,
    folds: Vec<Rc<Fold>>,
}

impl FoldedPlaces {
    /// All of them, each pair of shapes once.
    pub fn folds(&self) -> impl Iterator<Item = &Fold> {
        self.folds.iter().map(AsRef::as_ref)
    }

    /// The first norm of a block, if it is folded: so chosen, and the kernels on both sides compute
    /// no more than a GEMM.
    pub fn norm1(&self, at: usize, fused: &FusedPlaces) -> Option<&FoldedPlace> {
        let [first, _] = self.places.get(at)?;
        let (whole, half) = (|at| fused.block(at).is_some(), |at| fused.transition(at).is_some());
        chosen(first).filter(|_| norm1_is_between_gemms(at, whole, half))
    }

    /// The same of its second norm.
    pub fn norm2(&self, at: usize, fused: &FusedPlaces) -> Option<&FoldedPlace> {
        let [_, second] = self.places.get(at)?;
        let (whole, half) = (|at| fused.block(at).is_some(), |at| fused.transition(at).is_some());
        chosen(second).filter(|_| norm2_is_between_gemms(at, whole, half))
    }
}

/// The place of a norm that is to be folded.
fn chosen(place: &Option<FoldedPlace>) -> Option<&FoldedPlace> {
    place.as_ref().filter(|place| place.fold.kernel().is_some())
}

/// Whether a GEMM of the block before gives the first norm's tokens, and a GEMM of this block takes
/// them. `whole` and `half`: whether one kernel computes a block, or its attention half.
fn norm1_is_between_gemms(
    at: usize,
    whole: impl Fn(usize) -> bool,
    half: impl Fn(usize) -> bool,
) -> bool {
    !at.checked_sub(1).is_some_and(&whole) && !whole(at) && !half(at)
}

/// The same of the second norm, whose GEMMs are both of this block.
fn norm2_is_between_gemms(
    at: usize,
    whole: impl Fn(usize) -> bool,
    half: impl Fn(usize) -> bool,
) -> bool {
    !whole(at) && !half(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_comes_with_each() {
        let all = pairs(["a", "b"].into_iter(), &["c", "d"]);
        assert_eq!(all, [["a", "c"], ["a", "d"], ["b", "c"], ["b", "d"]]);
        assert!(pairs(["a"].into_iter(), &[]).is_empty());
    }

    #[test]
    fn a_norm_beside_a_fused_kernel_or_inside_one_is_not_folded() {
        fn norms<const N: usize>(
            whole: fn(usize) -> bool,
            half: fn(usize) -> bool,
        ) -> [(bool, bool); N] {
            std::array::from_fn(|at| {
                (norm1_is_between_gemms(at, whole, half), norm2_is_between_gemms(at, whole, half))
            })
        }
        let (no, yes) = ((false, false), (true, true));
        // Three blocks in one kernel each, an attention half, two blocks of several kernels.
        assert_eq!(norms(|at| at < 3, |at| at == 3), [no, no, no, no, yes, yes]);
        // The block behind a fused one has its first norm from that.
        assert_eq!(norms(|at| at == 1, |_| false), [yes, no, (false, true), yes]);
    }

    #[test]
    fn a_norm_lies_between_gemms_unless_a_stage_begins_or_the_trunk_does() {
        let block =
            HieraBlock { dim: 96, dim_out: 96, heads: 1, grid: 64, window: 8, pooled: false };
        let pooled = HieraBlock { dim_out: 192, heads: 2, pooled: true, ..block };
        let next = HieraBlock { dim: 192, dim_out: 192, heads: 2, grid: 32, window: 4, ..block };
        let blocks = [block, pooled, next];
        let of = |block: &HieraBlock| BlockGemms::of(block);
        let second = |block: &HieraBlock| Some([of(block).proj, of(block).up]);
        assert_eq!(around_norms(&blocks, 0), [None, second(&block)]);
        assert_eq!(around_norms(&blocks, 1), [None, second(&pooled)]);
        let first = Some([of(&pooled).down, of(&next).qkv]);
        assert_eq!(around_norms(&blocks, 2), [first, second(&next)]);
        assert_eq!(around_norms(&blocks, 3), [None, None]);
        // The GEMM before gives the tokens that the one after takes.
        for [before, after] in around_norms(&blocks, 2).into_iter().flatten() {
            assert_eq!((before.m, before.n), (after.m, after.k));
        }
    }
}
