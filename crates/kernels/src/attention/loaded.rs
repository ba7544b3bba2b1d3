/*!
The attention kernels that are loaded: those of a track step, those of an encoder, or both.
*/

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};

use super::kernels::{CLUSTER, FRAME, Form, HEADS, Kernels, Kind, MEMORY};
use super::{AttentionShape, Values, WIDEST_HEAD};
use crate::constants::instance;
use crate::images::{self, KernelModule, Topic};
use cuda::module::Function;
use cuda::{Gpu, LaunchMode};

/// Columns of heads come in 16-byte units.
const UNIT: usize = 8;
/// When Hopper's kernels start, in a chain with what is around them.
const MODE_ON_HOPPER: LaunchMode = LaunchMode::Pdl;
/// Bytes of shared memory of which a multiprocessor holds one block: of sm 80 and 87, and of sm 90.
const ALONE: [u32; 2] = [96 << 10, 120 << 10];

#[derive(Debug)]
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

/// Who attends. Each has kernels of its own, on Hopper in a module of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionUse {
    /// A track step: to the bank, and of the frame.
    TrackStep,
    /// An encoder's trunk, over its whole map.
    Encoder,
}

impl AttentionUse {
    pub(crate) const ALL: [Self; 2] = [Self::TrackStep, Self::Encoder];

    fn name(self) -> &'static str {
        match self {
            Self::TrackStep => "the track step",
            Self::Encoder => "the encoder",
        }
    }

    fn kernels(self) -> &'static [Kernels] {
        match self {
            Self::TrackStep => &[MEMORY, FRAME],
            Self::Encoder => &HEADS,
        }
    }

    /// The module of Hopper's kernels.
    fn on_hopper(self) -> Topic {
        match self {
            Self::TrackStep => Topic::AttentionClusterHopper,
            Self::Encoder => Topic::AttentionGlobalHopper,
        }
    }

    /// Loads its kernels of one form; those that combine parts are in the module for any GPU.
    fn load(
        self,
        gpu: &Gpu,
        (any, form): &(Vec<KernelModule>, String),
        wanted: Form,
    ) -> Result<Loaded> {
        let (mut modules, mut form) = (any.clone(), form.clone());
        if wanted == Form::Hopper {
            let (own, from) = images::load(gpu, &[self.on_hopper()])?;
            modules.extend(own);
            form = from;
        }
        let modules = Modules { gpu, modules, wanted };
        let pair = |kernels: &Kernels| match (self, modules.pair(kernels)) {
            // A trunk has heads of one width, and needs no kernel of the others.
            (Self::Encoder, Err(error)) => Ok(Err(format!("{error:#}").into())),
            (_, pair) => Ok(Ok(pair?)),
        };
        let pairs = self.kernels().iter().map(pair).collect::<Result<_>>()?;
        Ok(Loaded { pairs, form })
    }
}

/// The loaded kernels of one use.
#[derive(Clone, Debug)]
struct Loaded {
    /// As [`AttentionUse::kernels`]; for heads of some width perhaps why there is none.
    pairs: Vec<Result<Arc<Pair>, Arc<str>>>,
    form: String,
}

/// Modules that have all kernels of one form for a use.
struct Modules<'g> {
    gpu: &'g Gpu,
    modules: Vec<KernelModule>,
    wanted: Form,
}

impl Modules<'_> {
    fn function(&self, name: &str) -> Result<Function> {
        let has = |module: &&KernelModule| module.topic.entry(name).is_some();
        let module = self.modules.iter().find(has);
        module.with_context(|| format!("no loaded module has the kernel {name}"))?.function(name)
    }

    fn pair(&self, kernels: &Kernels) -> Result<Arc<Pair>> {
        let kind = kernels.kind(self.wanted);
        let ready = |name: &str| anyhow::Ok(self.function(name)?.with_shared(kind.shared)?);
        let attend = ready(kind.name)?;
        let biased = kind.biased.map(ready).transpose()?;
        let resident = match kind.box_keys {
            Some(_) => CLUSTER * attend.resident_clusters(kind.threads, CLUSTER)?,
            None => attend.resident_blocks(kind.threads)? * self.gpu.multiprocessors()?,
        } as usize;
        ensure!(
            resident > 0,
            "the GPU cannot run the kernel {}: a block of {} threads with {} bytes of shared \
             memory does not fit",
            kind.name,
            kind.threads,
            kind.shared
        );
        let merge = self.function(kernels.merge)?;
        let mode = match self.wanted {
            Form::Any => LaunchMode::Ordered,
            Form::Hopper => MODE_ON_HOPPER,
        };
        let padded = kernels.padded;
        Ok(Arc::new(Pair { attend, biased, kind, merge, padded, resident, mode }))
    }
}

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AttentionKernels {
    track_step: Option<Loaded>,
    encoder: Option<Loaded>,
}

impl AttentionKernels {
    /// Loads the kernels of these uses for this GPU: Hopper's own on Hopper, where the driver takes
    /// them. A module that it refuses costs one use Hopper's kernels, and no other.
    ///
    /// # Errors
    /// The driver refuses the PTX for any GPU, or the GPU's blocks have too little shared memory.
    pub fn load_for(gpu: &Gpu, uses: &[AttentionUse]) -> Result<Self> {
        Self::each(gpu, uses, |any, of| {
            if gpu.runs_hopper_kernels() {
                match of.load(gpu, any, Form::Hopper) {
                    Ok(loaded) => return Ok(loaded),
                    Err(error) => log::warn!(
                        "the attention kernels for Hopper of {} cannot be used, slower ones are: \
                         {error:#}",
                        of.name()
                    ),
                }
            }
            of.load(gpu, any, Form::Any)
        })
    }

    /// Loads all kernels of one form. A module that the driver refuses is an error here. A kernel for
    /// heads that cannot be used is an error of [`Attention::new`] only.
    ///
    /// # Errors
    /// As [`Self::load_for`].
    ///
    /// [`Attention::new`]: super::Attention::new
    pub(super) fn of(gpu: &Gpu, wanted: Form) -> Result<Self> {
        Self::each(gpu, &AttentionUse::ALL, |any, of| of.load(gpu, any, wanted))
    }

    /// Loads the module for any GPU, then calls `load` with it for each of these uses, side by side.
    fn each(
        gpu: &Gpu,
        uses: &[AttentionUse],
        load: impl Fn(&(Vec<KernelModule>, String), AttentionUse) -> Result<Loaded> + Sync,
    ) -> Result<Self> {
        let any = images::load(gpu, &[Topic::Attention])?;
        let loaded = |of| uses.contains(&of).then(|| load(&any, of)).transpose();
        // The driver compiles each module on one processor.
        let (track_step, encoder) =
            rayon::join(|| loaded(AttentionUse::TrackStep), || loaded(AttentionUse::Encoder));
        Ok(Self { track_step: track_step?, encoder: encoder? })
    }

    /// What they were loaded from: "PTX 8.2 for sm_90 alone". Where uses differ, it names them.
    pub fn form(&self) -> String {
        match (&self.track_step, &self.encoder) {
            (Some(one), Some(other)) if one.form != other.form => {
                let [of_one, of_other] = AttentionUse::ALL.map(AttentionUse::name);
                format!("{} for {of_one} and {} for {of_other}", one.form, other.form)
            }
            (one, other) => {
                one.as_ref().or(other.as_ref()).map(|all| all.form.clone()).unwrap_or_default()
            }
        }
    }

    /// The same with one group of warps in each block of `attention_cross`, for comparison. With
    /// `alone` its shared memory leaves no room for a second block on the multiprocessor.
    ///
    /// # Errors
    /// Kernels for Hopper, whose blocks have no such groups, or what the driver says.
    pub(super) fn in_one_group(&self, gpu: &Gpu, alone: bool) -> Result<Self> {
        let Pair { attend, kind, merge, padded, mode, .. } = self.pair(Values::Memory)?.as_ref();
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
        let mut kernels = self.clone();
        if let Some(loaded) = &mut kernels.track_step {
            loaded.pairs[0] = Ok(Arc::new(pair));
        }
        Ok(kernels)
    }

    /// Into how many parts an attention of this shape would cut its keys.
    ///
    /// # Errors
    /// Kernels that were not loaded or cannot be used.
    pub(crate) fn splits(&self, shape: AttentionShape) -> Result<usize> {
        let [_, splits] = self.pair(shape.values)?.divide(shape);
        Ok(splits)
    }

    pub(super) fn pair(&self, values: Values) -> Result<&Arc<Pair>> {
        let (of, loaded, at) = match values {
            Values::Memory => (AttentionUse::TrackStep, &self.track_step, 0),
            Values::Frame => (AttentionUse::TrackStep, &self.track_step, 1),
            Values::Heads(columns) => {
                let whole = columns > 0 && columns.is_multiple_of(UNIT);
                let fits = |kernels: &Kernels| whole && columns <= kernels.padded;
                let at = HEADS.iter().position(fits).with_context(|| {
                    format!(
                        "attention takes heads of 8, 16 … {WIDEST_HEAD} columns, found {columns}"
                    )
                })?;
                (AttentionUse::Encoder, &self.encoder, at)
            }
        };
        let pair = loaded.as_ref().and_then(|loaded| loaded.pairs.get(at));
        let pair =
            pair.with_context(|| format!("the attention kernels of {} are not loaded", of.name()))?;
        let columns = values.columns();
        pair.as_ref().map_err(|why| {
            anyhow!("the attention kernels for heads of {columns} columns cannot be used: {why}")
        })
    }
}
