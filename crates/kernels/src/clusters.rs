/*!
Products by Hopper's copy engine, in clusters of blocks that stay until all output tiles are done (`cuda/tiles.cuh`): what those with an
activation behind them and those with a norm have in common.
*/

use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use super::images::{self, Topic};
use super::trunk::EARLY_NORM;
use super::{normed, products};
use cuda::module::{Arg, Function, Launch, LaunchMode};
use cuda::tensor_map::TensorMap;
use cuda::{Gpu, Stream, View};

/// Compute capability that the kernels are for.
const HOPPER: u32 = 90;
/// As in the source: threads of a block, rows of an output tile, bytes of a row of 64 halves, the chunks in which the depth is walked.
const THREADS: u32 = 384;
pub(super) const ROWS: u32 = 128;
const ROW_BYTES: u32 = 128;
/// The terms of one step of the tensor cores, and of a chunk, of which the kernels want one whole.
const STEP: usize = 16;
const CHUNK: usize = 64;

/// The names of all that are for this GPU, and of the norm that can begin early, whether or not a driver takes them and a cluster fits: which of
/// them had a turn where engines were built is written down by name.
pub fn kernels_of_turns(gpu: &Gpu) -> Vec<&'static str> {
    if gpu.facts().sm != HOPPER {
        return Vec::new();
    }
    let products = products::kinds().chain(normed::kinds()).map(|kind| kind.name);
    products.chain([EARLY_NORM]).collect()
}

/// Whether depths of so many terms can be walked.
pub(super) fn walk(depth: usize) -> bool {
    depth.is_multiple_of(STEP) && depth >= CHUNK
}

/// One instance of a source's template.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub name: &'static str,
    /// Columns of an output tile.
    pub columns: u32,
    /// Chunks of tokens and weights that a block holds.
    pub slots: u32,
    /// Tiles of a cluster, one below the other and side by side.
    pub down: u32,
    pub across: u32,
}

impl Kind {
    /// Blocks of a cluster.
    fn blocks(&self) -> u32 {
        self.down * self.across
    }

    /// Columns of a cluster's tiles.
    pub fn width(&self) -> usize {
        (self.columns * self.across) as usize
    }

    /// Rows of the boxes of tokens: each block of a row of them brings one, or each of the first two where there are three.
    fn token_rows(&self) -> u32 {
        if ROWS.is_multiple_of(self.across) { ROWS / self.across } else { ROWS / 2 }
    }

    /// Shared memory that a block has for its slots, each with two barriers, bytes.
    pub fn slots_bytes(&self) -> u32 {
        self.slots * ((ROWS + self.columns) * ROW_BYTES + 2 * 8)
    }

    /// Clusters' worth of tiles.
    pub fn tiles(&self, rows: usize, columns: usize) -> usize {
        rows.div_ceil((ROWS * self.down) as usize) * columns.div_ceil(self.width())
    }
}

/// A loaded instance.
#[derive(Debug)]
pub(super) struct Clusters {
    pub kind: Kind,
    function: Function,
    /// Those that the GPU runs at once.
    resident: usize,
}

impl Clusters {
    /// Loads these kernels, each with so many bytes of shared memory, where there may be any: none on another GPU than Hopper, nor where the driver
    /// takes none. `what` they do, for the log.
    pub fn where_possible(
        gpu: &Gpu,
        kinds: &[Kind],
        shared: impl Fn(&Kind) -> u32,
        what: &str,
    ) -> Option<Arc<[Self]>> {
        if gpu.facts().sm != HOPPER || kinds.is_empty() {
            return None;
        }
        let loaded = Self::load(gpu, kinds, shared);
        if let Err(error) = &loaded {
            log::warn!(
                "the kernels for Hopper that {what} at once cannot be used, slower ones are: {error:#}"
            );
        }
        loaded.ok()
    }

    fn load(gpu: &Gpu, kinds: &[Kind], shared: impl Fn(&Kind) -> u32) -> Result<Arc<[Self]>> {
        let mut topics: Vec<Topic> =
            kinds.iter().filter_map(|kind| Topic::with(kind.name)).collect();
        // Kinds of a module need not stand side by side.
        topics.sort_unstable_by_key(|topic| *topic as usize);
        topics.dedup();
        let (modules, form) = images::load(gpu, &topics)?;
        log::debug!("kernels about {topics:?} from {form}");
        let load = |kind: &Kind| {
            let (name, blocks) = (kind.name, kind.blocks());
            let module = modules.iter().find(|(topic, _)| Topic::with(name) == Some(*topic));
            let (_, module) = module.with_context(|| format!("no module has the kernel {name}"))?;
            let function = module.function(name)?.with_shared(shared(kind))?;
            let resident = function.resident_clusters(THREADS, blocks)? as usize;
            log::debug!("kernel {name}: {resident} clusters at once");
            Ok(Self { kind: *kind, function, resident })
        };
        let loaded: Vec<Self> = kinds.iter().map(load).collect::<Result<_>>()?;
        // Of the larger ones perhaps none fits.
        let those: Arc<[Self]> = loaded.into_iter().filter(|one| one.resident > 0).collect();
        ensure!(!those.is_empty(), "no cluster of blocks fits");
        Ok(those)
    }

    /// The instance of that name; `what` the kernels do, for the error.
    pub fn named<'a>(all: &'a [Self], name: &str, what: &str) -> Result<&'a Self> {
        let found = all.iter().find(|one| one.kind.name == name);
        found.with_context(|| format!("there is no kernel {name} that can {what} at once"))
    }

    /// What the copy engine is told of tokens `[rows, depth]` and weights `[columns, depth]`: each block of a cluster brings its share.
    ///
    /// # Errors
    /// As [`TensorMap::of_halves`].
    pub fn maps(
        &self,
        tokens: &View,
        weight: &View,
        [rows, columns, depth]: [usize; 3],
    ) -> Result<[TensorMap; 2]> {
        let Kind { columns: of_tile, down, .. } = self.kind;
        let tokens = TensorMap::of_halves(tokens, rows, depth, self.kind.token_rows())?;
        Ok([tokens, TensorMap::of_halves(weight, columns, depth, of_tile / down)?])
    }

    /// Puts whole clusters behind everything that is enqueued, no more than run at once.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// As [`Function::launch`]; where it begins early, behind a kernel.
    pub unsafe fn launch(
        &self,
        [rows, columns]: [usize; 2],
        args: &[Arg],
        begin: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let clusters = self.kind.tiles(rows, columns).min(self.resident);
        let blocks = u32::try_from(clusters * self.kind.blocks() as usize);
        let grid = (blocks.context("too many blocks")?, 1, 1);
        let launch = Launch { grid, threads: THREADS };
        // SAFETY: the caller's promise. The thread that brings tiles waits before the first (`bring_all` in the source), and all that a
        // block stores follows from what that thread brought; what else reads memory that others write waits, too.
        Ok(unsafe { self.function.with_mode(begin).launch(launch, args, stream) }?)
    }
}
