/*!
Kernels and their arguments. [`arguments`] holds each launch to its PTX when this crate is compiled;
[`Function::launch`] does so again for the kernel that it launches.
*/

use std::cell::Cell;
use std::rc::Rc;

use anyhow::{Context, Result};

use super::dependent;
use super::images::{self, Entry, KernelModule, Topic};
use cuda::module::{Arg, Function, Launch};
use cuda::{Gpu, LaunchMode, Stream};

/// The arguments of a launch, in order: `arguments!(["bank_reset"]; View(&state), F32(age))`.
///
/// It does not compile unless the PTX of each of these kernels declares parameters of this number,
/// order and size. One `*` in a name stands for any text: all kernels that match are meant.
/// `View`, `Optional` (a view, or the null pointer), `I32`, `F32` and `Map` are one argument each,
/// `Views[N]` and `Ints[N]` an array of them.
macro_rules! arguments {
    ([$($kernel:expr),+ $(,)?]; $($kind:ident $([$count:literal])? ($value:expr)),+ $(,)?) => {{
        const _: () = assert!(
            $crate::kernel::all_take(
                &[$($kernel),+],
                &[$($crate::kernel::arguments!(@kind $kind $([$count])?)),+],
            ),
            "the arguments are not the parameters of these kernels in cuda/*.ptx"
        );
        let mut all: Vec<cuda::module::Arg<'_>> = Vec::new();
        $($crate::kernel::arguments!(@append all, $kind $([$count])? ($value));)+
        all
    }};
    (@kind View) => { (b'p', 1) };
    (@kind Optional) => { (b'p', 1) };
    (@kind Views[$count:literal]) => { (b'p', $count) };
    (@kind I32) => { (b'i', 1) };
    (@kind Ints[$count:literal]) => { (b'i', $count) };
    (@kind F32) => { (b'f', 1) };
    (@kind Map) => { (b'm', 1) };
    (@append $all:ident, Views[$count:literal]($value:expr)) => {
        let views: [&cuda::View; $count] = $value;
        $all.extend(views.map(cuda::module::Arg::View));
    };
    (@append $all:ident, Ints[$count:literal]($value:expr)) => {
        let ints: [i32; $count] = $value;
        $all.extend(ints.map(cuda::module::Arg::I32));
    };
    (@append $all:ident, Optional($value:expr)) => {
        $all.extend([$value.map_or(cuda::module::Arg::Null, cuda::module::Arg::View)]);
    };
    (@append $all:ident, $kind:ident($value:expr)) => {
        $all.extend([cuda::module::Arg::$kind($value)]);
    };
}
pub(crate) use arguments;

/// Whether the PTX has each of these kernels, and they take arguments of these kinds: a letter of
/// [`Entry::parameters`], and how often it follows.
pub(crate) const fn all_take(kernels: &[&str], kinds: &[(u8, usize)]) -> bool {
    let mut at = 0;
    while at < kernels.len() {
        let (mut found, mut module) = (false, 0);
        while module < Topic::ALL.len() {
            let (entries, mut one) = (Topic::ALL[module].entries(), 0);
            while one < entries.len() {
                if matches(kernels[at].as_bytes(), entries[one].name.as_bytes()) {
                    found = true;
                    if !takes(entries[one].parameters.as_bytes(), kinds) {
                        return false;
                    }
                }
                one += 1;
            }
            module += 1;
        }
        if !found {
            return false;
        }
        at += 1;
    }
    true
}

/// Whether parameters are of these kinds.
const fn takes(parameters: &[u8], kinds: &[(u8, usize)]) -> bool {
    let (mut place, mut kind) = (0, 0);
    while kind < kinds.len() {
        let mut count = 0;
        while count < kinds[kind].1 {
            if place == parameters.len() || parameters[place] != kinds[kind].0 {
                return false;
            }
            place += 1;
            count += 1;
        }
        kind += 1;
    }
    place == parameters.len()
}

/// Whether a name matches a pattern with at most one `*`.
const fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut start = 0;
    while start < pattern.len() && pattern[start] != b'*' {
        if start == name.len() || name[start] != pattern[start] {
            return false;
        }
        start += 1;
    }
    if start == pattern.len() {
        return start == name.len();
    }
    let rest = pattern.len() - start - 1;
    if name.len() < start + rest {
        return false;
    }
    let mut end = 0;
    while end < rest {
        if name[name.len() - 1 - end] != pattern[pattern.len() - 1 - end] {
            return false;
        }
        end += 1;
    }
    true
}

/// Some modules.
pub(crate) struct Modules(Vec<KernelModule>);

/// A kernel with the threads of its blocks.
#[derive(Debug)]
pub(crate) struct Kernel {
    function: Function,
    threads: u32,
}

/// Whether kernels of a chain can start early on this GPU, with this driver.
pub(crate) fn chains_have_pdl(gpu: &Gpu) -> bool {
    gpu.facts().sm >= dependent::SM && LaunchMode::Pdl.is_capturable()
}

/// Kernels that follow each other on a stream; nothing else is enqueued there before the last one.
/// With [`LaunchMode::Pdl`] each but the first may start while the one before it runs, if it waits
/// for that itself. The first follows work of any kind, which need be no kernel, unless the chain
/// begins [`Chain::behind_a_kernel`].
///
/// A kernel that waits ends after the one before it. So when it has waited, all kernels of the chain
/// before it have ended, and it may write what any of them read.
#[derive(Debug)]
pub struct Chain<'s> {
    stream: &'s Stream,
    mode: LaunchMode,
    /// Of all modes together.
    begun: Rc<Cell<bool>>,
}

impl<'s> Chain<'s> {
    /// A chain behind all work that was enqueued.
    pub(crate) fn begin(stream: &'s Stream, mode: LaunchMode) -> Self {
        Self { stream, mode, begun: Rc::default() }
    }

    /// A chain right behind a kernel: its first launch is in this mode, too.
    ///
    /// # Safety
    /// The last work that was enqueued on the stream is a kernel, no copy or fill.
    pub(crate) unsafe fn behind_a_kernel(stream: &'s Stream, mode: LaunchMode) -> Self {
        Self { stream, mode, begun: Rc::new(Cell::new(true)) }
    }

    /// A chain for several steps, which choose their own modes.
    ///
    /// # Safety
    /// Who enqueues other work on the stream calls [`Self::interrupt`] before the next launch.
    pub unsafe fn shared(stream: &'s Stream) -> Self {
        Self::begin(stream, LaunchMode::Ordered)
    }

    /// Its next launches in this mode.
    pub(crate) fn in_mode(&self, mode: LaunchMode) -> Self {
        Self { stream: self.stream, mode, begun: Rc::clone(&self.begun) }
    }

    /// The next launch is a first one: it follows other work than the chain's.
    pub fn interrupt(&self) {
        self.begun.set(false);
    }

    /// Enqueues a launch as the next one.
    ///
    /// # Errors
    /// Those of [`Function::launch`].
    ///
    /// # Safety
    /// Each view has the elements that the kernel reads or writes for these arguments. Nothing but
    /// launches of the chain was enqueued on its stream since it began, or was interrupted.
    pub(crate) unsafe fn launch(
        &self,
        function: &Function,
        launch: Launch,
        args: &[Arg<'_>],
    ) -> Result<()> {
        let mode = if self.begun.replace(true) { self.mode } else { LaunchMode::Ordered };
        // SAFETY: a kernel that does not wait itself gets no other mode. Where one waits, each thread
        // does so before it touches memory that others write (cuda/ptx.cuh; the emulation checks
        // it). In front of it is a kernel: the chain's, by the caller's promise.
        let function = unsafe { function.with_mode(mode) };
        // SAFETY: the caller's promise about the views; number and kinds are checked there.
        Ok(unsafe { function.launch(launch, args, self.stream) }?)
    }
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

    /// The kernel of that name, with the threads that its PTX declares and this number of bytes of
    /// dynamic shared memory for each block.
    ///
    /// # Errors
    /// No module has it, or its PTX declares no threads.
    pub fn kernel(&self, name: &str, shared: u32) -> Result<Kernel> {
        let find = |module: &KernelModule| Some((module.topic.entry(name)?, module.clone()));
        let (Entry { threads, .. }, module) = self
            .0
            .iter()
            .find_map(find)
            .with_context(|| format!("no module has the kernel {name}"))?;
        let threads = threads.with_context(|| format!("the PTX of {name} declares no threads"))?;
        let function = module.function(name)?;
        let function = if shared > 0 { function.with_shared(shared)? } else { function };
        Ok(Kernel { function, threads })
    }
}

impl Kernel {
    /// The same kernel with fewer bytes of dynamic shared memory than it was loaded with.
    pub fn taking(&self, shared: u32) -> Self {
        Self { function: self.function.taking(shared), threads: self.threads }
    }

    /// Clusters of so many blocks, which the kernel was compiled for, that the GPU holds at once.
    ///
    /// # Errors
    /// Those of [`Function::resident_clusters`].
    pub fn resident_clusters(&self, blocks: u32) -> Result<usize> {
        Ok(self.function.resident_clusters(self.threads, blocks)? as usize)
    }

    /// Enqueues a launch as the next one of a chain.
    ///
    /// # Errors
    /// Those of [`Chain::launch`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn launch(
        &self,
        grid: (u32, u32, u32),
        args: &[Arg<'_>],
        chain: &Chain<'_>,
    ) -> Result<()> {
        let launch = Launch { grid, threads: self.threads };
        // SAFETY: the caller's.
        unsafe { chain.launch(&self.function, launch, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_arguments_than_those_of_the_ptx_are_found() {
        let advance: &[(u8, usize)] = &[(b'p', 3), (b'i', 3)];
        assert!(all_take(&["bank_advance"], advance));
        for wrong in [
            &[(b'p', 3), (b'i', 2)][..],
            &[(b'p', 3), (b'i', 4)],
            &[(b'p', 2), (b'i', 1), (b'p', 1), (b'i', 2)],
            &[(b'p', 3), (b'i', 2), (b'f', 1)],
            &[],
        ] {
            assert!(!all_take(&["bank_advance"], wrong), "{wrong:?}");
        }
        assert!(!all_take(&["bank_advanced"], advance), "no such kernel");
        assert!(!all_take(&["bank_advance", "bank_reset"], advance), "one of two");
        assert!(!all_take(&["bank_*"], advance), "bank_reset is among them");
        assert!(!all_take(&["bank_x*"], advance), "no kernel matches");
    }

    #[test]
    fn a_star_stands_for_any_text() {
        let matches =
            |pattern: &str, name: &str| super::matches(pattern.as_bytes(), name.as_bytes());
        assert!(matches("a_*", "a_") && matches("a_*", "a_b") && matches("*", "a"));
        assert!(matches("a_*_c", "a_b_c") && !matches("a_*_c", "a_b") && !matches("a_*_a", "a_a"));
        assert!(matches("a", "a") && !matches("a", "ab") && !matches("ab", "a"));
    }
}
