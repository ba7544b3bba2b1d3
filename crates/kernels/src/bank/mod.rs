/*!
The memory bank's state on the device: [`vos::tracker::BankSchedule`] without a host that counts
frames.

The number of the next frame lies in device memory, so that one recorded graph does for every frame
of a clip: `reset`, then for each frame `enqueue_inputs` (tracked frames only) … `enqueue_advance`,
all on one stream.
*/

pub(crate) mod selftest;

use anyhow::{Result, ensure};

use super::images::Topic;
use super::{Element, Kernels, blocks, int, need_exactly};
use crate::constants::threads;
use crate::kernel::arguments;
use cuda::module::{Function, Launch};
use cuda::{Gpu, Stream, View};
use vos::bundle::Contract;

/// Threads of a block of both kernels.
const THREADS: u32 = threads!("bank_inputs");
const _: () = assert!(threads!("bank_advance") == THREADS);
/// Bytes of the state: the frame's number and the greatest age.
const STATE_BYTES: usize = 8;

/// One clip's place in its schedule. All objects of a batch share it.
#[derive(Debug)]
pub struct BankState {
    reset: Function,
    inputs: Function,
    advance: Function,
    state: View,
    memories: usize,
    pointers: usize,
    memory_tokens: usize,
    pointer_tokens: usize,
    pointer_channels: usize,
}

impl BankState {
    /// For graphs of this contract; [`Self::reset`] comes before anything else.
    ///
    /// # Errors
    /// A bank of fewer than two slots, or what the driver says.
    pub fn new(gpu: &Gpu, kernels: &Kernels, contract: &Contract, stream: &Stream) -> Result<Self> {
        let (memories, pointers) = (contract.max_memories, contract.max_pointers);
        ensure!(
            memories > 1 && pointers > 1,
            "a bank of {memories} memories and {pointers} pointers has no ring; two of each are the least"
        );
        ensure!(
            contract.memory_channels > 0
                && contract.pointer_channels.is_multiple_of(contract.memory_channels),
            "pointers of {} channels are no whole number of tokens of {}",
            contract.pointer_channels,
            contract.memory_channels
        );
        let state = Self {
            reset: kernels.function(Topic::Bank, "bank_reset")?,
            inputs: kernels.function(Topic::Bank, "bank_inputs")?,
            advance: kernels.function(Topic::Bank, "bank_advance")?,
            state: View::new(gpu, STATE_BYTES)?,
            memories,
            pointers,
            memory_tokens: contract.memory_tokens,
            pointer_tokens: contract.pointer_channels / contract.memory_channels,
            pointer_channels: contract.pointer_channels,
        };
        int(state.keys(), "the number of keys")?;
        state.reset(1.0, stream)?;
        Ok(state)
    }

    /// Keys of a full bank: what `bias` has an element for.
    pub fn keys(&self) -> usize {
        self.memories * self.memory_tokens + self.pointers * self.pointer_tokens
    }

    /// Begins a clip: the next frame is the conditioning frame. `greatest_age` is
    /// [`BankSchedule::greatest_age`](vos::tracker::BankSchedule::greatest_age).
    pub fn reset(&self, greatest_age: f32, stream: &Stream) -> Result<()> {
        ensure!(greatest_age > 0.0, "pointer ages cannot be divided by {greatest_age}");
        let args = arguments!(["bank_reset"]; View(&self.state), F32(greatest_age));
        // SAFETY: the arguments are bank_reset's own; it writes the state's eight bytes.
        unsafe { self.reset.launch(Launch { grid: (1, 1, 1), threads: 1 }, &args, stream) }?;
        Ok(())
    }

    /// Writes what the next frame reads: `tidx`, i32 rows of the temporal encoding for each memory
    /// slot; `ptr_t`, f32 ages of each pointer slot over the greatest age; `bias`, f32 for each
    /// key, 0 where its slot is filled, else -10⁴. Rows and ages of empty slots are 0. One launch;
    /// may be recorded.
    ///
    /// # Errors
    /// Views of another size, or what the driver says.
    pub fn enqueue_inputs(
        &self,
        tidx: &View,
        ptr_t: Option<&View>,
        bias: Option<&View>,
        stream: &Stream,
    ) -> Result<()> {
        need_exactly(tidx, 4 * self.memories, 4, "'tidx'")?;
        if let Some(ptr_t) = ptr_t {
            need_exactly(ptr_t, 4 * self.pointers, 4, "'ptr_t'")?;
        }
        if let Some(bias) = bias {
            need_exactly(bias, 4 * self.keys(), 4, "'bias'")?;
        }
        let threads = match bias {
            Some(_) => self.keys().max(self.memories).max(self.pointers),
            None => self.memories.max(self.pointers),
        };
        let args = arguments!(
            ["bank_inputs"];
            View(&self.state),
            View(tidx),
            Optional(ptr_t),
            Optional(bias),
            I32(int(self.memories, "the number of memories")?),
            I32(int(self.pointers, "the number of pointers")?),
            I32(int(self.memory_tokens, "the number of tokens")?),
            I32(int(self.pointer_tokens, "the number of tokens")?),
        );
        let grid = (blocks(threads, THREADS as usize)?, 1, 1);
        // SAFETY: the arguments are bank_inputs' own; the views that are there have an element for
        // each slot or key.
        unsafe { self.inputs.launch(Launch { grid, threads: THREADS }, &args, stream) }?;
        Ok(())
    }

    /// Copies each object's pointer into its slot of the ring, then goes on to the next frame.
    /// `ptr`: `[objects, C]` elements; `ptrs`: `[objects, slots, C]` of the same type. One launch;
    /// may be recorded.
    ///
    /// # Errors
    /// Views of another size, or what the driver says.
    pub fn enqueue_advance(
        &self,
        ptr: &View,
        ptrs: &View,
        element: Element,
        stream: &Stream,
    ) -> Result<()> {
        let bytes = self.pointer_channels * element.bytes();
        ensure!(bytes.is_multiple_of(4), "pointers of {bytes} bytes are no whole number of words");
        let objects = (ptr.len() / bytes).max(1);
        need_exactly(ptr, objects * bytes, 4, "'ptr'")?;
        need_exactly(ptrs, objects * self.pointers * bytes, 4, "'ptrs'")?;
        int(ptrs.len(), "the size of the pointer bank")?;
        let args = arguments!(
            ["bank_advance"];
            View(&self.state),
            View(ptr),
            View(ptrs),
            I32(int(self.pointers, "the number of pointers")?),
            I32(int(bytes / 4, "the size of a pointer")?),
            I32(int(objects, "the number of objects")?),
        );
        let launch = Launch { grid: (1, 1, 1), threads: THREADS };
        // SAFETY: the arguments are bank_advance's own; the slot is below the number of slots for
        // every frame, and both views were measured above.
        unsafe { self.advance.launch(launch, &args, stream) }?;
        Ok(())
    }
}
