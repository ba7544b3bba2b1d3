/*!
The memory bank's schedule: the past frames of each frame's attention, and their slots.

This is SAM 2's memory selection for forward tracking from one conditioning frame
(`sam2/modeling/sam2_base.py`, `_prepare_memory_conditioned_features`): the conditioning frame
always, then the latest non-conditioning frames, six memories and up to fifteen object
pointers. Attention does not depend on the order of its keys, so frames are overwritten in
place and only the indices of age move; slot 0 is the conditioning frame's for good.

Nothing here depends on pixels, so a whole clip's schedule is known before it starts.
*/

use crate::bundle::Contract;

/// The bank's slots that one tracked frame reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// Row of the temporal encoding for each memory slot `0..F`.
    pub temporal_rows: Vec<i32>,
    /// Age of each pointer slot `0..N` over the greatest age, as SAM 2.1 encodes it.
    pub pointer_times: Vec<f32>,
}

impl Selection {
    /// Filled memory slots, F.
    pub fn memories(&self) -> usize {
        self.temporal_rows.len()
    }

    /// Filled pointer slots, N.
    pub fn pointers(&self) -> usize {
        self.pointer_times.len()
    }
}

/// The slots that a frame's memory and pointer are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Memory slot, below `max_memories`.
    pub memory: usize,
    /// Pointer slot, below `max_pointers`.
    pub pointer: usize,
}

/// The schedule of one object's bank, from its conditioning frame onwards.
#[derive(Clone, Debug)]
pub struct BankSchedule {
    max_memories: usize,
    max_pointers: usize,
    greatest_age: f32,
}

impl BankSchedule {
    /// For a clip of `frames` frames, including the conditioning frame.
    ///
    /// The original divides pointer ages by `min(frames, max_pointers) - 1`, so clips shorter than
    /// the pointer bank see other ages than the start of a long clip does; kept for equality.
    pub fn new(contract: &Contract, frames: usize) -> Self {
        let window = frames.min(contract.max_pointers);
        Self {
            max_memories: contract.max_memories,
            max_pointers: contract.max_pointers,
            greatest_age: window.saturating_sub(1).max(1) as f32,
        }
    }

    /// The divisor of pointer ages.
    pub fn greatest_age(&self) -> f32 {
        self.greatest_age
    }

    /// The slots that frame `t` writes (0 = the conditioning frame).
    pub fn write_slots(&self, t: usize) -> Slots {
        Slots { memory: ring_slot(t, self.max_memories), pointer: ring_slot(t, self.max_pointers) }
    }

    /// The slots that frame `t` reads; `t` is at least 1.
    pub fn selection(&self, t: usize) -> Selection {
        debug_assert!(t >= 1, "the conditioning frame reads no memory");
        let conditioning_row = self.max_memories - 1;
        let temporal_rows = (0..self.max_memories.min(t))
            .map(|slot| match slot {
                0 => conditioning_row as i32,
                // The latest frame, one back, uses row 0.
                _ => (age_in_slot(t, slot, self.max_memories) - 1) as i32,
            })
            .collect();
        let pointer_times = (0..self.max_pointers.min(t))
            .map(|slot| match slot {
                0 => t as f32 / self.greatest_age,
                _ => age_in_slot(t, slot, self.max_pointers) as f32 / self.greatest_age,
            })
            .collect();
        Selection { temporal_rows, pointer_times }
    }
}

/// Slot 0 for the conditioning frame; the other slots are a ring.
fn ring_slot(t: usize, slots: usize) -> usize {
    match t {
        0 => 0,
        _ => 1 + (t - 1) % (slots - 1),
    }
}

/// Age of the frame in ring slot `slot` at frame `t`.
fn age_in_slot(t: usize, slot: usize, slots: usize) -> usize {
    // Only filled slots are requested (slot < t), so the difference is not negative.
    (t - 1 - slot) % (slots - 1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn contract() -> Contract {
        Contract {
            grid: 16,
            low_size: 64,
            feature_channels: 64,
            memory_tokens: 32,
            memory_channels: 16,
            pointer_channels: 64,
            max_memories: 7,
            max_pointers: 16,
            pointer_times: true,
            mean: [0.5; 3],
            std: [0.5; 3],
        }
    }

    /// The rule as the original states it: by frame numbers, with dictionaries.
    fn by_frames(t: usize, frames: usize) -> (BTreeMap<usize, i32>, BTreeMap<usize, usize>) {
        let mut memories = BTreeMap::from([(0, 6)]);
        memories.extend((1..=6).filter(|k| t > *k).map(|k| (t - k, k as i32 - 1)));
        let mut pointers = BTreeMap::from([(0, t)]);
        pointers.extend((1..frames.min(16)).filter(|d| t > *d).map(|d| (t - d, d)));
        (memories, pointers)
    }

    #[test]
    fn slots_hold_the_frames_the_original_selects() {
        for frames in [2, 5, 16, 17, 60] {
            let bank = BankSchedule::new(&contract(), frames);
            let mut memory_of = BTreeMap::new();
            let mut pointer_of = BTreeMap::new();
            for t in 0..frames {
                if t > 0 {
                    let selection = bank.selection(t);
                    let (memories, pointers) = by_frames(t, frames);
                    let read: BTreeMap<usize, i32> = (0..selection.memories())
                        .map(|slot| (memory_of[&slot], selection.temporal_rows[slot]))
                        .collect();
                    assert_eq!(read, memories, "memories of frame {t} of {frames}");
                    let greatest = (frames.min(16) - 1) as f32;
                    let read: BTreeMap<usize, f32> = (0..selection.pointers())
                        .map(|slot| (pointer_of[&slot], selection.pointer_times[slot]))
                        .collect();
                    let expected: BTreeMap<usize, f32> =
                        pointers.iter().map(|(&f, &d)| (f, d as f32 / greatest)).collect();
                    assert_eq!(read, expected, "pointers of frame {t} of {frames}");
                }
                let slots = bank.write_slots(t);
                memory_of.insert(slots.memory, t);
                pointer_of.insert(slots.pointer, t);
            }
        }
    }

    #[test]
    fn the_bank_is_full_from_frame_sixteen_on() {
        let bank = BankSchedule::new(&contract(), 300);
        assert_eq!((bank.selection(16).memories(), bank.selection(16).pointers()), (7, 16));
        assert_eq!((bank.selection(15).memories(), bank.selection(15).pointers()), (7, 15));
    }
}
