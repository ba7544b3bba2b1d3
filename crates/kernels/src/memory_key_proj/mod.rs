/*!
The keys of the memory attention, of all layers and the whole bank, in one launch
(`cuda/memory_key_proj.cu`): in place of an engine of the graph `track_keys`, from the weights that
a trunk's file has.
*/

pub(crate) mod selftest;

use anyhow::{Context, Result, ensure};

use super::images::{self, Topic};
use super::{blocks, int, need_exactly};
use crate::constants::{constant, threads};
use crate::device_weights::content_hash;
use crate::kernel::arguments;
use cuda::module::{Function, Launch};
use cuda::{Gpu, MemoryTag, Stream, View};
use vos::bundle::{MemoryKeyProjShape, MemoryKeyProjWeights};

/// Columns of a memory token and of a key.
const TOKEN: usize = constant!(MemoryKeyProj, "TOKEN") as usize;
const KEY: usize = constant!(MemoryKeyProj, "KEY") as usize;
/// Tokens of an object pointer.
const QUARTERS: usize = constant!(MemoryKeyProj, "QUARTERS") as usize;
/// Rows of a tile.
const ROWS: usize = constant!(MemoryKeyProj, "ROWS") as usize;
/// Threads of a block.
const THREADS: u32 = threads!("memory_key_proj");
/// Sines and cosines of a pointer's time.
const WAVES: usize = constant!(MemoryKeyProj, "WAVES") as usize;
/// Bytes of an element.
const HALF: usize = 2;
const FLOAT: usize = 4;
/// What vector loads need.
const ALIGNMENT: usize = 16;

/// The kernel with its weights. It has no memory to work in, so that streams may share it.
#[derive(Debug)]
pub struct MemoryKeyProj {
    function: Function,
    shape: MemoryKeyProjShape,
    weight: View,
    bias: View,
    positions: View,
    ages: View,
    turns: View,
    /// Frequencies, weights and bias, where pointers have times.
    times: Option<[View; 3]>,
    grid: (u32, u32, u32),
}

impl MemoryKeyProj {
    /// Loads the kernel, for sm 80 and newer, and brings the weights to the device.
    ///
    /// # Errors
    /// The driver refuses the PTX; weights of another size; sizes beyond 2³¹ elements.
    pub fn new(
        gpu: &Gpu,
        shape: MemoryKeyProjShape,
        weights: &MemoryKeyProjWeights,
        stream: &Stream,
    ) -> Result<Self> {
        let (modules, form) = images::load(gpu, &[Topic::MemoryKeyProj])?;
        log::debug!("the memory attention's keys from {form}");
        let module = modules.first().context("no kernels about keys")?;
        let function = module.function("memory_key_proj")?;
        let MemoryKeyProjShape { layers, memories, tokens, pointers, pointer_times } = shape;
        ensure!(
            layers > 0 && memories > 0 && tokens > 0 && pointers > 0,
            "keys of {layers} layers, {memories} memories of {tokens} tokens and {pointers} pointers are none"
        );
        ensure!(
            weights.times.is_some() == pointer_times,
            "the keys' weights {} pointers' times",
            if pointer_times { "lack those of" } else { "have, where none are expected, those of" }
        );
        let memory = gpu.tagged(MemoryTag::Weights);
        let put = |bytes: &[u8], expected: usize, what: &str| -> Result<View> {
            let contents = || content_hash(std::iter::once(bytes));
            let view = View::constant(&memory, stream, contents, || {
                let view = View::new(&memory, bytes.len())?;
                view.upload(bytes, stream)?;
                Ok(view)
            })?;
            need_exactly(&view, expected, ALIGNMENT, what)?;
            Ok(view)
        };
        let times = weights.times.as_ref().map(|times| -> Result<[View; 3]> {
            Ok([
                put(&times.frequencies, FLOAT * WAVES / 2, "the times' frequencies")?,
                put(&times.weight, FLOAT * WAVES * TOKEN, "the times' weight")?,
                put(&times.bias, FLOAT * TOKEN, "the times' bias")?,
            ])
        });
        let tiles = (pointers * QUARTERS).div_ceil(ROWS) + tokens.div_ceil(ROWS);
        let resident = function.resident_blocks(THREADS)? * gpu.multiprocessors()?;
        let columns = blocks(layers, 1)?;
        let found = Self {
            shape,
            weight: put(&weights.weight, HALF * layers * KEY * TOKEN, "the keys' weight")?,
            bias: put(&weights.bias, FLOAT * layers * KEY, "the keys' bias")?,
            positions: put(&weights.positions, HALF * tokens * TOKEN, "the memories' positions")?,
            ages: put(&weights.ages, HALF * memories * TOKEN, "the memories' ages")?,
            turns: put(&weights.turns, HALF * tokens * KEY, "the keys' turns")?,
            times: times.transpose()?,
            // A block keeps its layer's weights for all of its tiles.
            grid: (blocks(tiles, 1)?.min((resident / columns).max(1)), columns, 1),
            function,
        };
        int(layers * found.keys() * KEY, "the number of the keys' elements")?;
        Ok(found)
    }

    /// Keys of a full bank.
    pub fn keys(&self) -> usize {
        self.shape.memories * self.shape.tokens + self.shape.pointers * QUARTERS
    }

    /// Layers.
    pub fn layers(&self) -> usize {
        self.shape.layers
    }

    /// Enqueues the keys: `keys` f16 `[layers, keys, 256]` of `memories` f16 `[memories, tokens,
    /// 64]`, their `ages`, i32 rows of the ages' weights, `pointers` f16 `[pointers, 256]` and
    /// their `times`, f32 from 0 to 1. One launch; may be recorded.
    ///
    /// # Errors
    /// Views of another size or at odd addresses, or what the driver says.
    pub fn enqueue(
        &self,
        [memories, ages, pointers]: [&View; 3],
        times: Option<&View>,
        keys: &View,
        stream: &Stream,
    ) -> Result<()> {
        let MemoryKeyProjShape { layers, memories: count, tokens, pointers: all_pointers, .. } =
            self.shape;
        need_exactly(memories, HALF * count * tokens * TOKEN, ALIGNMENT, "'mem'")?;
        need_exactly(ages, 4 * count, 4, "'tidx'")?;
        need_exactly(pointers, HALF * all_pointers * KEY, ALIGNMENT, "'ptrs'")?;
        need_exactly(keys, HALF * layers * self.keys() * KEY, ALIGNMENT, "the keys")?;
        ensure!(
            times.is_some() == self.times.is_some(),
            "'ptr_t' is not what the keys' weights take"
        );
        if let Some(times) = times {
            need_exactly(times, FLOAT * all_pointers, FLOAT, "'ptr_t'")?;
        }
        let of_times = |at: usize| self.times.as_ref().map(|all| &all[at]);
        let args = arguments!(
            ["memory_key_proj"];
            View(memories),
            View(ages),
            View(pointers),
            Optional(times),
            View(&self.weight),
            View(&self.bias),
            View(&self.positions),
            View(&self.ages),
            View(&self.turns),
            Optional(of_times(0)),
            Optional(of_times(1)),
            Optional(of_times(2)),
            View(keys),
            I32(int(count, "the number of memories")?),
            I32(int(tokens, "the number of tokens")?),
            I32(int(all_pointers, "the number of pointers")?),
        );
        let launch = Launch { grid: self.grid, threads: THREADS };
        // SAFETY: the arguments are memory_key_proj' own, and all tensors were measured above and
        // in `new`. What `ages` says are rows of the ages' weights: bank_inputs writes numbers
        // below the number of memories.
        Ok(unsafe { self.function.launch(launch, &args, stream) }?)
    }
}
