/*!
GEMMs with an epilogue for any GPU from sm 80 on (`cuda/gemm.cu`). The number of warps side by side
belongs to the launch, so that a kernel serves all widths.
*/

use anyhow::{Context, Result};

use super::residual_layernorm::GemmLayerNormOperands;
use crate::constants::{constant, instance, threads};
use crate::images::{self, Topic};
use crate::kernel::arguments;
use crate::{blocks, int};
use cuda::module::{Function, Launch};
use cuda::{Gpu, Stream, View};

/// The least GPU, and what N and K are multiples of.
const SM: u32 = 80;
const MULTIPLE: usize = constant!(Gemm, "PAIR") as usize;
/// Bytes of shared memory for each row and column of a tile.
const RING: usize = constant!(Gemm, "STAGES") as usize * constant!(Gemm, "CHUNK_ROW") as usize;
const TILE_ROWS: usize = constant!(Gemm, "TILE_ROWS") as usize;
const NORM_ROWS: usize = constant!(Gemm, "NORM_ROWS") as usize;
const MOST_NORM_COLUMNS: usize = constant!(Gemm, "MOST_NORM_COLUMNS") as usize;
/// Of the widest tiles.
const SHARED: [u32; 2] =
    [instance!("gemm_128_rows", "shared"), instance!("gemm_layernorm_64_rows", "shared")];
const _: () = {
    assert!(tile_threads(TILES[1].1) <= threads!("gemm_128_rows"));
    assert!(tile_threads(MOST_NORM_COLUMNS) <= threads!(NORM));
};

/// Columns of a tile by the name of the choice, one kernel for all. The wide tile reads less; two
/// or three blocks of the narrow one share a multiprocessor, and less of the last tile is wasted.
const TILES: [(&str, usize); 2] = [
    ("gemm_128_rows_by_96", constant!(Gemm, "NARROW") as usize),
    ("gemm_128_rows_by_192", constant!(Gemm, "WIDE") as usize),
];
/// The kernel that normalises, and its choice.
const NORM: &str = "gemm_layernorm_64_rows";

/// Names of all choices, in a fixed order; none on a GPU that is too old.
pub(super) fn names(gpu: &Gpu) -> impl Iterator<Item = &'static str> {
    let all = TILES.map(|(name, _)| name).into_iter().chain([NORM]);
    all.filter(|_| gpu.facts().sm >= SM)
}

/// Whether this is the name of one of them.
pub(super) fn has(name: &str) -> bool {
    name == NORM || TILES.iter().any(|(other, _)| *other == name)
}

/// Threads of a block with so many columns.
const fn tile_threads(columns: usize) -> u32 {
    let across = columns.div_ceil(constant!(Gemm, "WARP_COLUMNS") as usize);
    across as u32 * constant!(Gemm, "COLUMN_THREADS")
}

/// Shared memory of a block, bytes.
fn shared(rows: usize, columns: usize) -> Result<u32> {
    Ok(int(RING * (rows + columns), "shared memory")?.cast_unsigned())
}

/// M, N and K as the kernels take them: they count elements in 31 bits.
fn counted([m, n, k]: [usize; 3]) -> Result<[i32; 3]> {
    int(m * n.max(k), "the number of elements")?;
    int(n * k, "the number of weights")?;
    Ok([int(m, "M")?, int(n, "N")?, int(k, "K")?])
}

/// A kernel for blocks of up to so many bytes; none, with a warning, if the driver refuses it.
fn load(gpu: &Gpu, name: &str, shared: u32) -> Option<Function> {
    let load = || -> Result<Function> {
        let (modules, form) = images::load(gpu, &[Topic::Gemm])?;
        log::debug!("the kernel {name} from {form}");
        let module = modules.first().context("no module of GEMMs")?;
        Ok(module.function(name)?.with_shared(shared)?)
    };
    let loaded = load();
    if let Err(error) = &loaded {
        log::warn!("the kernel {name} cannot be used, slower ones are: {error:#}");
    }
    loaded.ok()
}

/// `out = a weightᵀ + bias` in f16, with or without GELU.
#[derive(Clone, Debug)]
pub(super) struct TileGemm {
    function: Function,
    names: Vec<&'static str>,
}

impl TileGemm {
    /// With the tiles whose names are `wanted`.
    pub fn load(gpu: &Gpu, wanted: impl Fn(&str) -> bool) -> Option<Self> {
        let names: Vec<&str> = names(gpu).filter(|name| *name != NORM && wanted(name)).collect();
        let function = (!names.is_empty()).then(|| load(gpu, "gemm_128_rows", SHARED[0]))??;
        Some(Self { function, names })
    }

    /// Whether they take this N and K.
    pub fn supports(n: usize, k: usize) -> bool {
        n > 0 && k > 0 && n.is_multiple_of(MULTIPLE) && k.is_multiple_of(MULTIPLE)
    }

    /// Names of the tiles.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Enqueues the tile of that name.
    ///
    /// # Errors
    /// No such tile, too many elements, or an error of the driver.
    ///
    /// # Safety
    /// The views are a, weight, bias and out of `sizes` M, N and K, which it
    /// [supports](Self::supports).
    pub unsafe fn enqueue(
        &self,
        name: &str,
        sizes: [usize; 3],
        gelu: bool,
        [a, weight, bias, out]: [&View; 4],
        stream: &Stream,
    ) -> Result<()> {
        let tile = TILES.iter().find(|(other, _)| *other == name && self.names.contains(other));
        let (_, columns) = *tile.with_context(|| format!("there is no tile {name}"))?;
        let [m, n, k] = counted(sizes)?;
        let args = arguments!(
            ["gemm_128_rows"];
            View(a),
            View(weight),
            View(bias),
            View(out),
            I32(m),
            I32(n),
            I32(k),
            I32(i32::from(gelu)),
        );
        let tiles = sizes[0].div_ceil(TILE_ROWS) * sizes[1].div_ceil(columns);
        let launch = Launch { grid: (blocks(tiles, 1)?, 1, 1), threads: tile_threads(columns) };
        let function = self.function.taking(shared(TILE_ROWS, columns)?);
        // SAFETY: the arguments are the kernel's own; it stays within the views.
        Ok(unsafe { function.launch(launch, &args, stream) }?)
    }
}

/// `residual += a weightᵀ + bias`, then `out = norm(residual)`: a block has whole rows.
#[derive(Clone, Debug)]
pub(super) struct NormGemm(Function);

impl NormGemm {
    /// If `wanted` with one of the N that it takes.
    pub fn load(gpu: &Gpu, wanted: impl Fn(&str, usize) -> bool) -> Option<Self> {
        let mut columns = (MULTIPLE..=MOST_NORM_COLUMNS).step_by(MULTIPLE);
        let used = names(gpu).any(|name| name == NORM) && columns.any(|n| wanted(NORM, n));
        used.then(|| load(gpu, NORM, SHARED[1]))?.map(Self)
    }

    /// The kernel's name, if it takes this N and K.
    pub fn name(n: usize, k: usize) -> Option<&'static str> {
        (n <= MOST_NORM_COLUMNS && TileGemm::supports(n, k)).then_some(NORM)
    }

    /// Enqueues it, with `lines` lines to prefetch.
    ///
    /// # Errors
    /// Too many elements, or an error of the driver.
    ///
    /// # Safety
    /// The operands are those of `sizes` M, N and K, which it takes ([`Self::name`]); a row of
    /// `out` overlaps no other row of `a`.
    pub unsafe fn enqueue(
        &self,
        sizes: [usize; 3],
        operands: &GemmLayerNormOperands,
        lines: i32,
        stream: &Stream,
    ) -> Result<()> {
        let [m, n, k] = counted(sizes)?;
        let args = arguments!(
            ["gemm_layernorm_64_rows"];
            View(operands.a),
            View(operands.weight),
            View(operands.bias),
            View(operands.residual),
            View(operands.norm[0]),
            View(operands.norm[1]),
            View(operands.out),
            I32(m),
            I32(n),
            I32(k),
            Optional(operands.prefetch),
            I32(lines),
        );
        let [rows, columns, _] = sizes;
        let grid = (blocks(rows, NORM_ROWS)?, 1, 1);
        let launch = Launch { grid, threads: tile_threads(columns) };
        let function = self.0.taking(shared(NORM_ROWS, columns)?);
        // SAFETY: the arguments are the kernel's own; it stays within the views.
        Ok(unsafe { function.launch(launch, &args, stream) }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_within_what_every_gpu_has() {
        assert_eq!([96, 112, 448].map(tile_threads), [128, 192, 640]);
        let bytes = |rows, columns: usize| shared(rows, columns).unwrap();
        assert_eq!(TILES.map(|(_, columns)| bytes(TILE_ROWS, columns)), [43_008, SHARED[0]]);
        // 99 KB on sm 86.
        assert!(bytes(NORM_ROWS, MOST_NORM_COLUMNS) == SHARED[1] && SHARED[1] <= 101_376);
    }

    #[test]
    fn the_models_stages_are_served_and_ragged_sizes_too() {
        for n in [96, 112, 144].into_iter().flat_map(|width| [1, 2, 4, 8].map(|of| of * width)) {
            assert!(TileGemm::supports(3 * n, n) && TileGemm::supports(4 * n, n), "{n}");
            assert_eq!(NormGemm::name(n, 4 * n).is_some(), n <= 448, "{n}");
        }
        for (n, k) in [(0, 16), (16, 0), (8, 16), (16, 24)] {
            assert!(!TileGemm::supports(n, k) && NormGemm::name(n, k).is_none(), "{n} x {k}");
        }
        assert!(has("gemm_128_rows_by_96") && has(NORM) && !has("gemm_bias_128_by_2"));
        assert!(counted([1 << 20, 16, 4096]).is_err());
    }
}
