/*!
The forms in which a bundle's track step can be built.
*/

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::role::Role;

/// How the track step runs while the memory bank is not full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bank {
    /// The bank is always full-sized; a key bias masks the empty slots.
    Padded,
    /// One profile for each fill level.
    Exact,
    /// As padded, but the track step is cut at its attentions, which this program's own kernels
    /// compute.
    Fused,
}

impl Bank {
    /// The name in messages and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Padded => "padded",
            Self::Exact => "exact",
            Self::Fused => "fused",
        }
    }

    /// The graph whose plan a folder has where it was built in this form.
    pub fn role(self) -> Role {
        match self {
            Self::Padded => Role::TrackPadded,
            Self::Exact => Role::Track,
            // Not of the keys, which may be a kernel's.
            Self::Fused => Role::TrackSeg0,
        }
    }

    /// The forms in the order in which a run takes what there is: the cut one, for it was built on
    /// purpose, the platform's `usual` one, then any.
    pub fn by_preference(usual: Option<Self>) -> impl Iterator<Item = Self> {
        [Some(Self::Fused), usual, Some(Self::Padded), Some(Self::Exact)].into_iter().flatten()
    }
}
