/*!
The kernels of attention: what each is launched with, and which are loaded.
*/

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};

use super::{Values, WIDEST_HEAD};
use crate::constants::{constant, instance, threads};
use crate::images::{self, KernelModule, Topic};
use cuda::module::Function;
use cuda::{Gpu, LaunchMode};

/// Columns of heads come in 16-byte units.
const UNIT: usize = 8;
/// When Hopper's kernels start, in a chain with what is around them.
const MODE_ON_HOPPER: LaunchMode = LaunchMode::Pdl;
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

/// Bytes of shared memory of which a multiprocessor holds one block: of sm 80 and 87, and of sm 90.
const ALONE: [u32; 2] = [96 << 10, 120 << 10];

#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub attend: Function,
    /// As [`Kind::biased`].
    pub biased: Option<Function>,
    pub kind: Kind,
    pub merge: Function,
    /// Columns that the results of parts have.
    pub padded: usize,
    /// Blocks of `attend` that run at once on the whole GPU, in whole clusters.
    pub resident: usize,
    /// When they start, unless the caller says.
    pub mode: LaunchMode,
}

/// A pair of kernels that a track step needs nothing of, or why there is none.
type Heads = Result<Arc<Pair>, Arc<str>>;

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AttentionKernels {
    memory: Arc<Pair>,
    frame: Arc<Pair>,
    /// As [`HEADS`].
    heads: [Heads; 3],
    form: Arc<str>,
}

impl AttentionKernels {
    /// Loads the kernels for this GPU: Hopper's own on Hopper, where the driver takes them.
    ///
    /// # Errors
    /// The driver refuses the PTX, or the GPU's blocks have too little shared memory.
    pub fn load(gpu: &Gpu) -> Result<Self> {
        if gpu.runs_hopper_kernels() {
            match Self::of(gpu, Form::Hopper) {
                Ok(kernels) => return Ok(kernels),
                Err(error) => {
                    log::warn!(
                        "the attention kernels for Hopper cannot be used, slower ones are: {error:#}"
                    );
                }
            }
        }
        Self::of(gpu, Form::Any)
    }

    /// Loads those of one form. A module that the driver refuses is an error here; a kernel for heads
    /// that cannot be used is one of [`Attention::new`] only.
    ///
    /// # Errors
    /// As [`Self::load`].
    ///
    /// [`Attention::new`]: super::Attention::new
    pub(super) fn of(gpu: &Gpu, wanted: Form) -> Result<Self> {
        let (mut modules, mut form) = images::load(gpu, &[Topic::Attention])?;
        if wanted == Form::Hopper {
            let own = [Topic::AttentionClusterHopper, Topic::AttentionGlobalHopper];
            let (loaded, from) = images::load(gpu, &own)?;
            modules.extend(loaded);
            form = from;
        }
        let processors = gpu.multiprocessors()? as usize;
        let function = |name: &str| {
            let has = |module: &&KernelModule| module.topic.entry(name).is_some();
            let module = modules.iter().find(has);
            module
                .with_context(|| format!("no loaded module has the kernel {name}"))?
                .function(name)
        };
        let pair = |kernels: &Kernels| -> Result<Arc<Pair>> {
            let kind = kernels.kind(wanted);
            let ready = |name: &str| anyhow::Ok(function(name)?.with_shared(kind.shared)?);
            let attend = ready(kind.name)?;
            let biased = kind.biased.map(ready).transpose()?;
            let resident = match kind.box_keys {
                Some(_) => CLUSTER * attend.resident_clusters(kind.threads, CLUSTER)?,
                None => attend.resident_blocks(kind.threads)? * processors as u32,
            } as usize;
            ensure!(
                resident > 0,
                "the GPU cannot run the kernel {}: a block of {} threads with {} bytes of shared \
                 memory does not fit",
                kind.name,
                kind.threads,
                kind.shared
            );
            let merge = function(kernels.merge)?;
            let mode = match wanted {
                Form::Any => LaunchMode::Ordered,
                Form::Hopper => MODE_ON_HOPPER,
            };
            let padded = kernels.padded;
            Ok(Arc::new(Pair { attend, biased, kind, merge, padded, resident, mode }))
        };
        let heads = |at: usize| pair(&HEADS[at]).map_err(|error| format!("{error:#}").into());
        Ok(Self {
            memory: pair(&MEMORY)?,
            frame: pair(&FRAME)?,
            heads: std::array::from_fn(heads),
            form: form.into(),
        })
    }

    /// What they were loaded from: "PTX 8.2 for sm_90 alone".
    pub fn form(&self) -> &str {
        &self.form
    }

    /// The same with one group of warps in each block of `attention_cross`, for comparison; `alone`:
    /// with as much shared memory as leaves no room for a second block on the multiprocessor.
    ///
    /// # Errors
    /// Kernels for Hopper, whose blocks have no such groups, or what the driver says.
    pub(super) fn in_one_group(&self, gpu: &Gpu, alone: bool) -> Result<Self> {
        let Pair { attend, kind, merge, padded, mode, .. } = self.memory.as_ref();
        ensure!(kind.name == MEMORY.any.name, "{} has no groups of warps", kind.name);
        let threads = instance!("attention_cross", "group_threads");
        let least = kind.shared - instance!("attention_cross", "group_bytes");
        let processors = gpu.multiprocessors()? as usize;
        let on_each = |shared: u32| -> Result<(Function, u32)> {
            // Never less than the launches with two groups take.
            let attend = attend.clone().with_shared(shared.max(kind.shared))?.taking(shared);
            let blocks = attend.resident_blocks(threads)?;
            Ok((attend, blocks))
        };
        let (mut shared, (mut function, mut blocks)) = (least, on_each(least)?);
        if alone && blocks > 1 {
            for more in ALONE {
                (shared, (function, blocks)) = (more, on_each(more)?);
                if blocks <= 1 {
                    break;
                }
            }
        }
        let kind = Kind { threads, shared, ..*kind };
        let resident = blocks as usize * processors;
        let (merge, padded, mode) = (merge.clone(), *padded, *mode);
        let pair = Pair { attend: function, biased: None, kind, merge, padded, resident, mode };
        Ok(Self { memory: Arc::new(pair), ..self.clone() })
    }

    /// The same, with the instance of `attention_cross` that takes a bias for launches without one
    /// too, for comparison.
    ///
    /// # Errors
    /// Kernels for any GPU, which have one instance for both.
    pub(super) fn with_biased_instance_alone(&self) -> Result<Self> {
        let pair = Pair::clone(&self.memory);
        let attend = pair.biased.clone();
        let attend = attend.with_context(|| format!("{} takes a bias", pair.kind.name))?;
        Ok(Self { memory: Arc::new(Pair { attend, ..pair }), ..self.clone() })
    }

    pub(super) fn pair(&self, values: Values) -> Result<&Arc<Pair>> {
        let columns = match values {
            Values::Memory => return Ok(&self.memory),
            Values::Frame => return Ok(&self.frame),
            Values::Heads(columns) => columns,
        };
        let whole = columns > 0 && columns.is_multiple_of(UNIT);
        let fits = |kernels: &Kernels| whole && columns <= kernels.padded;
        let at = HEADS.iter().position(fits).with_context(|| {
            format!("attention takes heads of 8, 16 … {WIDEST_HEAD} columns, found {columns}")
        })?;
        self.heads[at].as_ref().map_err(|why| {
            anyhow!("the attention kernels for heads of {columns} columns cannot be used: {why}")
        })
    }
}
