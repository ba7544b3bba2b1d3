/*!
A product that is added to a residual, with the layer normalisation behind it, in one kernel, on Hopper: `residual += a weightᵀ + bias` in f32 and
`out = norm(residual)` in halves. A norm by itself reads what the product has just written; here a cluster has whole rows of it in registers.
*/

use std::sync::Arc;

use anyhow::{Result, bail, ensure};

use super::clusters::{Clusters, Kind, ROWS, walk};
use super::{int, need_exactly};
use cuda::module::{Arg, LaunchMode};
use cuda::{Gpu, Stream, View};

/// What copies and vector loads need.
const ALIGNMENT: usize = 16;
/// Bytes of a half and of a float.
const HALF: usize = 2;
const FLOAT: usize = 4;
/// Bytes that a prefetch brings.
const LINE: usize = 128;
/// What they do, for people.
const WHAT: &str = "multiply, add and normalise";

/// A row's columns lie in one cluster; the last tile of a row may have fewer than the others. Columns of rows, which are those of the first three stages
/// of Hiera's tiny and small, base+ and large, and their kernels. Three blocks have a row of a third stage: of clusters of four an H200 runs 30 at once, and 32
/// are needed. Where six blocks have two rows of tiles, they read the weights once for both; fewer such clusters fit.
const KINDS: [(usize, Kind); 12] = [
    (96, Kind { name: "product_norm_96", columns: 96, slots: 6, down: 2, across: 1 }),
    (112, Kind { name: "product_norm_112", columns: 112, slots: 6, down: 2, across: 1 }),
    (144, Kind { name: "product_norm_144", columns: 144, slots: 5, down: 2, across: 1 }),
    (192, Kind { name: "product_norm_192", columns: 96, slots: 6, down: 1, across: 2 }),
    (224, Kind { name: "product_norm_224", columns: 112, slots: 6, down: 1, across: 2 }),
    (288, Kind { name: "product_norm_288", columns: 144, slots: 5, down: 1, across: 2 }),
    (384, Kind { name: "product_norm_384_by_3", columns: 128, slots: 5, down: 1, across: 3 }),
    (384, Kind { name: "product_norm_384_by_6", columns: 128, slots: 5, down: 2, across: 3 }),
    (448, Kind { name: "product_norm_448_by_3", columns: 160, slots: 4, down: 1, across: 3 }),
    (448, Kind { name: "product_norm_448_by_6", columns: 160, slots: 4, down: 2, across: 3 }),
    (576, Kind { name: "product_norm_576_by_3", columns: 192, slots: 4, down: 1, across: 3 }),
    (576, Kind { name: "product_norm_576_by_6", columns: 192, slots: 4, down: 2, across: 3 }),
];

/// All of them.
pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    KINDS.into_iter().map(|(_, kind)| kind)
}

/// Columns of the rows that a kernel takes.
fn columns_of(name: &str) -> Option<usize> {
    KINDS.iter().find(|(_, kind)| kind.name == name).map(|(columns, _)| *columns)
}

/// Shared memory of a block, bytes: `Norm::SHARED` in the source. Eight warps store 16 rows each, with 16 bytes behind a row; blocks of a row send each other
/// two numbers for each of its rows, to two places with a barrier each; bias and the norm's weight and bias are there in f32.
fn shared(kind: &Kind) -> u32 {
    let Kind { columns, across, .. } = *kind;
    let staging = 8 * 16 * (HALF as u32 * columns + 16);
    let parts = 2 * (across * ROWS * 2 * FLOAT as u32 + 8);
    kind.slots_bytes() + staging + parts + 3 * FLOAT as u32 * columns
}

/// What such a kernel takes and gives; sizes are rows, columns and terms.
#[derive(Clone, Copy, Debug)]
pub struct Normed<'a> {
    /// f16 `[rows, depth]`: tokens.
    pub a: &'a View,
    /// f16 `[columns, depth]`.
    pub weight: &'a View,
    /// f32 `[columns]`.
    pub bias: &'a View,
    /// f32 `[rows, columns]`, added to in place.
    pub residual: &'a View,
    /// The norm's weight and bias, f32 `[columns]` each.
    pub norm: [&'a View; 2],
    /// f16 `[rows, columns]`, normalised. May be the very memory of `a`, where there are as many terms as columns: rows are written when
    /// all that reads them has been read.
    pub out: &'a View,
    /// Whole lines of 128 bytes that are brought into the L2 cache on the way: what the kernels behind read for the first time.
    pub ahead: Option<&'a View>,
}

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NormedKernels {
    /// As [`KINDS`].
    each: Arc<[Clusters]>,
}

impl NormedKernels {
    /// Loads the kernels where there may be any: none on another GPU than Hopper, nor where the driver takes none; then the product and the norm
    /// are launched one after the other. Of them those that are wanted, by name and columns of rows: an unused one would cost the driver's time.
    pub fn where_possible(gpu: &Gpu, wanted: impl Fn(&str, usize) -> bool) -> Option<Self> {
        let kinds = KINDS.into_iter().filter(|(columns, kind)| wanted(kind.name, *columns));
        let kinds: Vec<Kind> = kinds.map(|(_, kind)| kind).collect();
        let each = Clusters::where_possible(gpu, &kinds, shared, WHAT)?;
        Some(Self { each })
    }

    /// Whether there are any for products of this many columns and terms: columns as each kernel has them, terms in 16s from 64 on. Of most
    /// sizes there are none.
    pub fn serve(columns: usize, depth: usize) -> bool {
        KINDS.iter().any(|(_, kind)| serves(kind.name, columns, depth))
    }

    /// The names of those that compute products of this many columns and terms, in an order that stays.
    pub fn names(&self, columns: usize, depth: usize) -> impl Iterator<Item = &'static str> {
        let names = self.each.iter().map(|one| one.kind.name);
        names.filter(move |name| serves(name, columns, depth))
    }

    /// Enqueues `residual += a weightᵀ + bias` and `out = norm(residual)`, with epsilon 10⁻⁶, by the kernel of that name; `sizes` are rows,
    /// columns and depth. Where it begins early, it stands behind a kernel. No allocation; may be recorded.
    ///
    /// # Errors
    /// No such kernel for these columns and terms ([`names`](Self::names)), views of another size or at odd addresses, an `out` that lies across `a`, or what the driver says.
    pub fn enqueue(
        &self,
        name: &str,
        sizes: [usize; 3],
        operands: &Normed,
        begin: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let [rows, columns, depth] = sizes;
        let kernel = Clusters::named(&self.each, name, WHAT)?;
        ensure!(
            rows > 0 && serves(name, columns, depth),
            "the kernel {name} takes {} columns and terms in 16s from 64 on, found {rows} x {columns} x {depth} (rows x columns x depth)",
            columns_of(name).unwrap_or_default()
        );
        let Normed { a, weight, bias, residual, norm: [norm_weight, norm_bias], out, ahead } =
            *operands;
        need_exactly(a, HALF * rows * depth, ALIGNMENT, "'a'")?;
        need_exactly(weight, HALF * columns * depth, ALIGNMENT, "'weight'")?;
        need_exactly(bias, FLOAT * columns, ALIGNMENT, "'bias'")?;
        need_exactly(residual, FLOAT * rows * columns, ALIGNMENT, "'residual'")?;
        need_exactly(norm_weight, FLOAT * columns, ALIGNMENT, "the norm's weight")?;
        need_exactly(norm_bias, FLOAT * columns, ALIGNMENT, "the norm's bias")?;
        need_exactly(out, HALF * rows * columns, ALIGNMENT, "'out'")?;
        let lines = ahead.map_or(0, View::len) / LINE;
        if let Some(ahead) = ahead {
            need_exactly(ahead, lines * LINE, LINE, "'ahead'")?;
        }
        if across(a, out) && !(a.address() == out.address() && columns == depth) {
            bail!(
                "'out' lies across 'a': it may be the same memory, for as many terms as columns, found {depth} and {columns}, or another"
            );
        }
        let [tokens, weights] = kernel.maps(a, weight, sizes)?;
        let args = [
            Arg::Map(&tokens),
            Arg::Map(&weights),
            Arg::View(bias),
            Arg::View(residual),
            Arg::View(norm_weight),
            Arg::View(norm_bias),
            Arg::View(out),
            Arg::I32(int(rows, "the number of rows")?),
            Arg::I32(int(depth, "the number of terms")?),
            ahead.map_or(Arg::Null, Arg::View),
            Arg::I32(int(lines, "the number of lines")?),
        ];
        // SAFETY: the arguments are the kernel's own. The maps describe `a` and `weight` as they were measured above, and what lies outside
        // of them is not read; the kernel has `columns` columns, stores `rows` rows of `residual` and `out` alone, and reads `lines` lines.
        unsafe { kernel.launch([rows, columns], &args, begin, stream) }
    }
}

/// Whether the kernel of that name computes products of so many columns and terms.
fn serves(name: &str, columns: usize, depth: usize) -> bool {
    columns_of(name) == Some(columns) && walk(depth)
}

/// Whether two views have a byte in common.
fn across(a: &View, b: &View) -> bool {
    let [from, other] = [a, b].map(|view| view.address() as usize);
    from < other + b.len() && other < from + a.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = include_str!("../../../cuda/norms_hopper.cu");

    #[test]
    fn blocks_have_the_memory_that_the_source_counts() {
        for (n, kind) in KINDS {
            let Kind { name, columns, slots, down, across } = kind;
            let instance =
                format!("PRODUCT_NORM({name}, {n}, {columns}, {slots}, {down}, {across})");
            assert!(SOURCE.contains(&instance), "{instance}");
            assert!(shared(&kind) <= 232_448, "{name}");
            assert!(n <= kind.width() && n + columns as usize > kind.width(), "{name}");
        }
        assert_eq!(SOURCE.matches("PRODUCT_NORM(product_norm_").count(), KINDS.len());
        let bytes = KINDS.map(|(_, kind)| shared(&kind));
        let (first, others) = bytes.split_at(6);
        assert_eq!(first, [201_968, 218_544, 216_864, 204_016, 220_592, 218_912]);
        assert_eq!(others, [206_432, 206_432, 198_608, 198_608, 223_568, 223_568]);
    }

    /// The order and the types in which arguments are handed over.
    #[test]
    fn the_source_takes_what_a_launch_gives() {
        let (_, after) = SOURCE.split_once("#define PRODUCT_NORM(").unwrap();
        let (_, after) = after.split_once(" NAME(").unwrap();
        let (parameters, _) = after.split_once(") {").unwrap();
        let words: Vec<&str> = parameters.split_whitespace().filter(|word| *word != "\\").collect();
        assert_eq!(
            words.join(" "),
            "const __grid_constant__ TensorMap tokens, const __grid_constant__ TensorMap weights, const float* bias, \
             float* residual, const float* norm_weight, const float* norm_bias, u16* out, int m, int k, \
             const unsigned char* ahead, int lines"
        );
    }

    #[test]
    fn the_models_first_three_stages_are_served_and_clusters_cover_their_rows() {
        let names = |columns, depth| {
            let names = KINDS.iter().map(|(_, kind)| kind.name);
            names.filter(|name| serves(name, columns, depth)).collect::<Vec<_>>()
        };
        for width in [96, 112, 144] {
            for (stage, kernels) in [(1, 1), (2, 1), (4, 2), (8, 0)] {
                let columns = stage * width;
                for depth in [columns, 4 * columns] {
                    let found = names(columns, depth);
                    assert_eq!(found.len(), kernels, "{columns} x {depth}: {found:?}");
                }
            }
        }
        let refused = [(144, 48), (144, 72), (145, 144), (0, 64), (432, 432), (480, 448)];
        assert!(!refused.iter().any(|(columns, depth)| NormedKernels::serve(*columns, *depth)));
        let tiles = |name: &str, rows| {
            let (columns, kind) = KINDS.iter().find(|(_, kind)| kind.name == name).unwrap();
            kind.tiles(rows, *columns)
        };
        assert_eq!(
            [1, 128, 129, 257].map(|rows| tiles("product_norm_448_by_3", rows)),
            [1, 1, 2, 3]
        );
        assert_eq!([1, 256, 257].map(|rows| tiles("product_norm_576_by_6", rows)), [1, 1, 2]);
        assert_eq!(tiles("product_norm_96", 65_536), 256);
    }
}
