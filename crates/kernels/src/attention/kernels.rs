/*!
The kernels of attention: what each is launched with.
*/

use crate::constants::{constant, instance, threads};

/// Blocks of a cluster, where kernels run in clusters.
pub(super) const CLUSTER: u32 = constant!(AttentionClusterHopper, "ATTENTION_CLUSTER");

/// Which kernels are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Those for any GPU from sm 80 on.
    Any,
    /// Hopper's own.
    Hopper,
}

/// The kernels for one kind of attention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernels {
    /// Columns of V in the kernels, and of the partial results: heads may have fewer.
    pub padded: usize,
    /// For any GPU from sm 80 on.
    pub any: Kind,
    /// Hopper's own.
    pub hopper: Kind,
    /// What merges parts.
    pub merge: &'static str,
}

impl Kernels {
    pub fn kind(&self, form: Form) -> Kind {
        match form {
            Form::Any => self.any,
            Form::Hopper => self.hopper,
        }
    }
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub name: &'static str,
    pub threads: u32,
    /// Dynamic shared memory, bytes.
    pub shared: u32,
    /// Keys of a tile, or of a tile for each group of warps: no part of the keys is smaller.
    pub tile: usize,
    /// Of a kernel that runs in clusters, takes tensor maps and no bias: keys of a box.
    pub box_keys: Option<u32>,
    /// The kernel that does the same with a bias, where this one takes none.
    pub biased: Option<&'static str>,
}

/// A kernel with the constants of its instance in the source.
macro_rules! kind {
    ($name:literal) => {
        Kind {
            name: $name,
            threads: threads!($name),
            shared: instance!($name, "shared"),
            tile: instance!($name, "keys") as usize,
            box_keys: None,
            biased: None,
        }
    };
    (cluster $name:literal) => {
        Kind { box_keys: Some(instance!($name, "box")), ..kind!($name) }
    };
}

/// The kernels of an attention, and the kernel that combines splits of the same width.
macro_rules! kernels {
    ($any:literal, $hopper:expr, $combine:literal) => {
        Kernels {
            padded: instance!($any, "columns") as usize,
            any: kind!($any),
            hopper: $hopper,
            merge: $combine,
        }
    };
}

const CROSS_ON_HOPPER: Kind = Kind {
    biased: Some("attention_cross_biased_hopper"),
    ..kind!(cluster "attention_cross_hopper")
};
const SELF_ON_HOPPER: Kind = kind!(cluster "attention_self_hopper");
pub(super) const MEMORY: Kernels =
    kernels!("attention_cross", CROSS_ON_HOPPER, "attention_combine_64");
pub(super) const FRAME: Kernels =
    kernels!("attention_self", SELF_ON_HOPPER, "attention_combine_256");
/// The kernels for heads, by increasing width.
pub(super) const HEADS: [Kernels; 3] = [
    kernels!(
        "attention_heads_64",
        kind!(cluster "attention_global_64_hopper"),
        "attention_combine_64"
    ),
    kernels!(
        "attention_heads_80",
        kind!(cluster "attention_global_80_hopper"),
        "attention_combine_80"
    ),
    kernels!(
        "attention_heads_96",
        kind!(cluster "attention_global_96_hopper"),
        "attention_combine_96"
    ),
];
