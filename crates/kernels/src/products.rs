/*!
Products of halves on Hopper: `out = a weightᵀ + bias`, sums in f32; or that of a hidden layer with its activation in one kernel,
`out = gelu(a weightᵀ + bias)`: what is stored need not be read again to be activated, and the activation of one tile runs beside the product of
the next.
*/

use std::sync::Arc;

use anyhow::{Result, ensure};

use super::clusters::{Clusters, Kind, walk};
use super::{int, need_exactly};
use cuda::module::{Arg, LaunchMode};
use cuda::{Gpu, Stream, View};

/// As in the source: the memory of eight warps that store 16 rows of 128 bytes.
const STAGING: u32 = 8 * 16 * 128;
/// Columns that are stored at once.
const COLUMNS: usize = 64;
/// What copies and vector loads need.
const ALIGNMENT: usize = 16;
/// Bytes of a half.
const HALF: usize = 2;
/// What they do, for people.
const WHAT: &str = "multiply, and activate";

/// Tiles of 192 columns read less; those of 128 leave less of the last one empty where columns are few or odd. Clusters of four blocks read less than
/// those of two; fewer of them may fit, as a cluster's blocks lie in one group of multiprocessors. None is the fastest everywhere.
const KINDS: [Kind; 6] = [
    Kind { name: "product_gelu_128_by_2", columns: 128, slots: 6, down: 2, across: 1 },
    Kind { name: "product_gelu_192_by_2", columns: 192, slots: 5, down: 2, across: 1 },
    Kind { name: "product_gelu_128_by_4", columns: 128, slots: 6, down: 2, across: 2 },
    Kind { name: "product_gelu_192_by_4", columns: 192, slots: 5, down: 2, across: 2 },
    Kind { name: "product_plain_128_by_2", columns: 128, slots: 6, down: 2, across: 1 },
    Kind { name: "product_plain_192_by_2", columns: 192, slots: 5, down: 2, across: 1 },
];
/// What the names of those that activate begin with.
const ACTIVATED: &str = "product_gelu_";

/// All of them.
pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    KINDS.into_iter()
}

/// Shared memory of a block, bytes: `Product::SHARED` in the source.
fn shared(kind: &Kind) -> u32 {
    kind.slots_bytes() + STAGING
}

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProductKernels {
    /// As [`KINDS`].
    each: Arc<[Clusters]>,
}

impl ProductKernels {
    /// Loads the kernels where there may be any: none on another GPU than Hopper, nor where the driver takes none; then cuBLASLt multiplies, and
    /// activations are launched behind it. Of them those that are wanted, by name: an unused one would cost the driver's time.
    pub fn where_possible(gpu: &Gpu, wanted: impl Fn(&str) -> bool) -> Option<Self> {
        let kinds: Vec<Kind> = kinds().filter(|kind| wanted(kind.name)).collect();
        let each = Clusters::where_possible(gpu, &kinds, shared, WHAT)?;
        Some(Self { each })
    }

    /// Whether they compute products of this many columns and terms: columns in 64s, terms in 16s from 64 on.
    pub fn serve(columns: usize, depth: usize) -> bool {
        columns > 0 && columns.is_multiple_of(COLUMNS) && walk(depth)
    }

    /// The names of those that activate, or of those that do not, in an order that stays.
    pub fn names(&self, activated: bool) -> impl Iterator<Item = &'static str> {
        let names = self.each.iter().map(|one| one.kind.name);
        names.filter(move |name| name.starts_with(ACTIVATED) == activated)
    }

    /// Enqueues `out = a weightᵀ + bias`, activated or not, by the kernel of that name: `a` `[rows, depth]`, `weight` `[columns, depth]`, `bias` `[columns]` and
    /// `out` `[rows, columns]` in halves; `sizes` are rows, columns and depth. Where it begins early, it stands behind a kernel. No allocation; may be
    /// recorded.
    ///
    /// # Errors
    /// No such kernel, sizes that they do not [`serve`](Self::serve), views of another size or at odd addresses, or what the driver says.
    pub fn enqueue(
        &self,
        name: &str,
        sizes: [usize; 3],
        [a, weight, bias, out]: [&View; 4],
        begin: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let [rows, columns, depth] = sizes;
        let kernel = Clusters::named(&self.each, name, WHAT)?;
        ensure!(
            rows > 0 && Self::serve(columns, depth),
            "the kernel {name} takes columns in 64s and terms in 16s from 64 on, found {rows} x {columns} x {depth} (rows x columns x depth)"
        );
        need_exactly(a, HALF * rows * depth, ALIGNMENT, "'a'")?;
        need_exactly(weight, HALF * columns * depth, ALIGNMENT, "'weight'")?;
        need_exactly(bias, HALF * columns, ALIGNMENT, "'bias'")?;
        need_exactly(out, HALF * rows * columns, ALIGNMENT, "'out'")?;
        let [tokens, weights] = kernel.maps(a, weight, sizes)?;
        let args = [
            Arg::Map(&tokens),
            Arg::Map(&weights),
            Arg::View(bias),
            Arg::View(out),
            Arg::I32(int(rows, "the number of rows")?),
            Arg::I32(int(columns, "the number of columns")?),
            Arg::I32(int(depth, "the number of terms")?),
        ];
        // SAFETY: the arguments are the kernel's own. The maps describe `a` and `weight` as they were measured above, and what lies outside
        // of them is not read; the kernel stores rows and columns of `out` alone, and reads `columns` biases.
        unsafe { kernel.launch([rows, columns], &args, begin, stream) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_memory_that_the_source_counts() {
        let source = include_str!("../../../cuda/products_hopper.cu");
        for kind in KINDS {
            let Kind { name, columns, slots, down, across } = kind;
            let activated = name.starts_with(ACTIVATED);
            let instance =
                format!("PRODUCT({name}, {activated}, {columns}, {slots}, {down}, {across})");
            assert!(source.contains(&instance), "{instance}");
            assert!(shared(&kind) <= 232_448, "{name}");
        }
        let of = |columns| if columns == 128 { 213_088 } else { 221_264 };
        assert!(KINDS.iter().all(|kind| shared(kind) == of(kind.columns)));
        assert_eq!(KINDS.iter().filter(|kind| kind.name.starts_with(ACTIVATED)).count(), 4);
    }

    #[test]
    fn tiles_of_clusters_cover_the_output_and_the_models_shapes_are_served() {
        let tiles = |rows, columns| {
            let [a, b, c, d, ..] = KINDS.map(|kind| kind.tiles(rows, columns));
            [a, b, c, d]
        };
        assert_eq!(tiles(4096, 2304), [16 * 18, 16 * 12, 16 * 9, 16 * 6]);
        assert_eq!(tiles(33, 64), [1; 4]);
        assert_eq!(tiles(4097, 448), [17 * 4, 17 * 3, 17 * 2, 17 * 2]);
        for width in [96, 112, 144] {
            for depth in [1, 2, 4, 8].map(|stage| stage * width) {
                assert!(ProductKernels::serve(4 * depth, depth), "{depth}");
            }
        }
        let refused = [(32, 8), (96, 96), (64, 72), (64, 48), (0, 64)];
        assert!(!refused.iter().any(|(columns, depth)| ProductKernels::serve(*columns, *depth)));
    }
}
