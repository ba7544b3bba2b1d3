/*!
The variants in which a bundle's track step can be built.
*/

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How the track step runs while the memory bank is not full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrackVariant {
    /// The bank is always full-sized; a key bias masks the empty slots.
    Padded,
    /// One optimisation profile for each fill level of the bank.
    PerFillLevel,
    /// As padded, but split at its attentions, which custom CUDA kernels compute.
    Segmented,
}

impl TrackVariant {
    /// The name in messages, files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Padded => "padded",
            Self::PerFillLevel => "per-fill-level",
            Self::Segmented => "segmented",
        }
    }

    /// The variants in the order of preference: the segmented one, which is built only on request;
    /// the platform's `usual` one; then any.
    pub fn by_preference(usual: Option<Self>) -> impl Iterator<Item = Self> {
        [Some(Self::Segmented), usual, Some(Self::Padded), Some(Self::PerFillLevel)]
            .into_iter()
            .flatten()
    }
}
