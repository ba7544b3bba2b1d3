/*!
The count of this process's device memory: current, peak, and by tag.

Every allocation counts: engines' weights and scratch memory, the memory bank, kernels' tables. The
driver's memory (context, code, rounding) is not in it.
*/

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The use of a block of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryTag {
    /// Weights, and other memory that TensorRT allocates itself.
    Weights,
    /// Memory that engines run in; contexts that never run at the same time share it.
    Scratch,
    /// Frames as they were decoded, and the network's input.
    Frames,
    /// The encoder's outputs.
    Features,
    /// Memories and object pointers.
    Bank,
    /// Logits, scores and masks.
    Results,
    /// Everything else: kernels' tables, constants.
    #[default]
    Other,
}

impl MemoryTag {
    /// All of them, in the order of [`PoolUse::by_tag`].
    pub const ALL: [Self; 7] = [
        Self::Weights,
        Self::Scratch,
        Self::Frames,
        Self::Features,
        Self::Bank,
        Self::Results,
        Self::Other,
    ];

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Scratch => "scratch",
            Self::Frames => "frames",
            Self::Features => "features",
            Self::Bank => "bank",
            Self::Results => "results",
            Self::Other => "other",
        }
    }
}

/// Device memory of this process, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// Held now.
    pub current: u64,
    /// The largest sum held since the start or [`Pool::reset_peak`].
    pub peak: u64,
    /// Allocations so far; a steady state adds none.
    pub taken: u64,
    /// Held now, for each of [`MemoryTag::ALL`].
    pub by_tag: [u64; MemoryTag::ALL.len()],
}

impl PoolUse {
    /// The memory held now by tag ("weights 28.1 MiB, scratch 62.7 MiB").
    pub fn in_words(&self) -> String {
        let of = |(purpose, bytes): (&MemoryTag, &u64)| {
            format!("{} {:.1} MiB", purpose.name(), *bytes as f64 / f64::from(1 << 20))
        };
        MemoryTag::ALL.iter().zip(&self.by_tag).map(of).collect::<Vec<_>>().join(", ")
    }
}

/// The count, shared by everything that comes from one [`super::Gpu`].
#[derive(Clone, Debug, Default)]
pub struct Pool {
    usage: Arc<Mutex<PoolUse>>,
}

impl Pool {
    /// The memory in use.
    pub fn usage(&self) -> PoolUse {
        *self.lock()
    }

    /// Resets the peak to the memory held now.
    pub fn reset_peak(&self) {
        let mut usage = self.lock();
        usage.peak = usage.current;
    }

    pub(super) fn took(&self, purpose: MemoryTag, bytes: usize) {
        let mut usage = self.lock();
        usage.current += bytes as u64;
        usage.by_tag[purpose as usize] += bytes as u64;
        usage.peak = usage.peak.max(usage.current);
        usage.taken += 1;
    }

    pub(super) fn gave_back(&self, purpose: MemoryTag, bytes: usize) {
        let mut usage = self.lock();
        usage.current = usage.current.saturating_sub(bytes as u64);
        let held = &mut usage.by_tag[purpose as usize];
        *held = held.saturating_sub(bytes as u64);
    }

    fn lock(&self) -> MutexGuard<'_, PoolUse> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_of_the_sum_and_each_purpose_is_counted_apart() {
        let pool = Pool::default();
        pool.took(MemoryTag::Weights, 100);
        pool.took(MemoryTag::Scratch, 50);
        pool.gave_back(MemoryTag::Scratch, 50);
        pool.took(MemoryTag::Bank, 20);
        let usage = pool.clone().usage();
        assert_eq!((usage.current, usage.peak, usage.taken), (120, 150, 3));
        let of = |purpose: MemoryTag| usage.by_tag[purpose as usize];
        assert_eq!(
            (of(MemoryTag::Weights), of(MemoryTag::Scratch), of(MemoryTag::Bank)),
            (100, 0, 20)
        );
        assert!(usage.in_words().starts_with("weights 0.0 MiB, scratch 0.0 MiB"));
        pool.reset_peak();
        assert_eq!(pool.usage().peak, 120);
    }

    #[test]
    fn purposes_are_listed_in_their_own_order() {
        assert!(MemoryTag::ALL.iter().enumerate().all(|(at, purpose)| *purpose as usize == at));
    }
}
