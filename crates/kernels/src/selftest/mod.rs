/*!
The self-test's cases: each kernel on the GPU at hand against the CPU code that it must equal.

A part's cases lie beside its launches or here. [`TOPICS`] lists them; the program runs them on a
[`Bench`] and reports the [`CaseRow`]s. They are part of the library, not its tests: the owner of a
new board runs them with `segtrt selftest --kernels`.
*/

mod ahead;
mod bench;
mod bytes;
pub(crate) mod chain_modes;
mod compare;
mod drawn_weights;
pub(crate) mod f64_reference;
pub mod nvjpeg;
pub mod peak;
mod stopwatch;

pub use ahead::{Planned, processors};
pub use bench::{Bench, CaseRow, Listener, POISON, STAGING, each_of, row};
pub use bytes::{bytes_of, f16_bytes, f32_bytes};
pub use compare::{Checked, Limits, compare};
pub(crate) use drawn_weights::weights_file;
pub use stopwatch::{Launches, TimedRuns};

use crate::{
    Source, bank, mask, mask_decoder, memory_attention, memory_encoder, memory_key_proj, neck,
    preprocess, repvit,
};
use vos::platform::OLDEST_FUSED_SM;

/// The cases of one part, and their requirements.
#[derive(Clone, Copy, Debug)]
pub struct Topic {
    /// The word on the command line.
    pub word: &'static str,
    /// A line of help.
    pub help: &'static str,
    /// The name in progress and messages.
    pub name: &'static str,
    /// Modules that its kernels are in, without those that every run loads.
    pub sources: &'static [Source],
    /// The user of kernels that need sm 80; none of kernels that run on every GPU.
    pub used_by: Option<&'static str>,
    /// cuBLASLt computes in each of its cases.
    pub needs_cublaslt: bool,
    /// Judges the cases; the reason where a library of the user's is missing.
    pub judge: fn(&Bench) -> Result<(), String>,
}

/// All topics, in the order in which they run.
pub const TOPICS: &[Topic] = &[
    preprocess::selftest::TOPIC,
    mask::selftest::TOPIC,
    bank::selftest::TOPIC,
    crate::attention::TOPIC,
    memory_key_proj::selftest::TOPIC,
    memory_attention::selftest::TOPIC,
    mask_decoder::selftest::TOPIC,
    memory_encoder::selftest::TOPIC,
    repvit::selftest::TOPIC,
    neck::selftest::TOPIC,
    crate::hiera::STEM,
    crate::hiera::TOPIC,
    crate::hiera::BLOCK,
    crate::hiera::TRANSITION,
    nvjpeg::TOPIC,
    crate::gemm::TOPIC,
    crate::hiera::WHOLE_TRUNK,
];

impl Topic {
    /// The reason why this GPU has none of these kernels.
    pub fn too_old(&self, sm: u32) -> Option<String> {
        let used_by = self.used_by.filter(|_| sm < OLDEST_FUSED_SM)?;
        Some(format!(
            "its kernels need sm {OLDEST_FUSED_SM} (Ampere) or more, this GPU is sm {sm}; only \
             {used_by} needs them"
        ))
    }

    /// The reason why no case is left without cuBLASLt.
    pub fn unwanted(&self, bench: &Bench) -> Option<String> {
        let all = bench.without_cublaslt && self.needs_cublaslt;
        all.then(|| "cuBLASLt computes in all of them (--without-cublaslt)".to_owned())
    }
}
