/*!
Loaded kernels whose launches are held to what their PTX declares: number and kinds of the
arguments, and threads of a block.
*/

use anyhow::{Context, Result, ensure};

use super::images::{self, Entry, Topic};
use cuda::module::{Arg, Function, Launch, Module};
use cuda::{Gpu, Stream};

/// Some modules.
pub(crate) struct Modules(Vec<(Topic, Module)>);

/// A kernel with the threads of its blocks.
#[derive(Debug)]
pub(crate) struct Kernel {
    function: Function,
    entry: &'static Entry,
    threads: u32,
}

impl Modules {
    /// Loads them; `what` is their name in the log.
    ///
    /// # Errors
    /// The driver refuses the PTX.
    pub fn load(gpu: &Gpu, topics: &[Topic], what: &str) -> Result<Self> {
        let (modules, form) = images::load(gpu, topics)?;
        log::debug!("{what}'s kernels from {form}");
        Ok(Self(modules))
    }

    /// The kernel of that name, whose blocks have so many threads and bytes of dynamic shared memory.
    ///
    /// # Errors
    /// No module has it, or its PTX declares other blocks.
    pub fn kernel(&self, name: &str, threads: u32, shared: u32) -> Result<Kernel> {
        let found = self.0.iter().find_map(|(topic, module)| Some((topic.entry(name)?, module)));
        let (entry, module) = found.with_context(|| format!("no module has the kernel {name}"))?;
        ensure!(
            entry.threads.is_none_or(|declared| declared == threads),
            "{name} is to have blocks of {threads} threads, its PTX declares {:?}",
            entry.threads
        );
        let function = module.function(name)?;
        let function = if shared > 0 { function.with_shared(shared)? } else { function };
        Ok(Kernel { function, entry, threads })
    }
}

impl Kernel {
    /// Enqueues a launch.
    ///
    /// # Errors
    /// Arguments of another number or of other kinds than the PTX declares, or the driver's.
    ///
    /// # Safety
    /// Each view has the elements that the kernel reads or writes for these arguments.
    pub unsafe fn launch(
        &self,
        grid: (u32, u32, u32),
        args: &[Arg<'_>],
        stream: &Stream,
    ) -> Result<()> {
        let Entry { name, parameters, .. } = self.entry;
        ensure!(
            args.iter().map(kind).eq(parameters.chars()),
            "{name} takes {parameters} and was given {}: a program error",
            args.iter().map(kind).collect::<String>()
        );
        let launch = Launch { grid, threads: self.threads };
        // SAFETY: number and kinds of the arguments are those of the PTX; the caller answers for views.
        Ok(unsafe { self.function.launch(launch, args, stream) }?)
    }
}

/// As [`Entry::parameters`] has it.
fn kind(arg: &Arg<'_>) -> char {
    match arg {
        Arg::View(_) | Arg::Null => 'p',
        Arg::I32(_) => 'i',
        Arg::F32(_) => 'f',
        Arg::Map(_) => 'm',
    }
}
