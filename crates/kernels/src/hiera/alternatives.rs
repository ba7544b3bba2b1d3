//! A choice between kernels, which autotuning makes by the time of all blocks.

/// One of several kernels is chosen, or none of them.
pub(super) trait Alternatives {
    /// A kernel's name, or the names of kernels that are chosen together.
    type Kernel: Copy + PartialEq;

    /// What they compute, for the log.
    fn what(&self) -> String;

    /// All that there are here.
    fn kernels(&self) -> &[Self::Kernel];

    /// The chosen one.
    fn kernel(&self) -> Option<Self::Kernel>;

    /// Chooses one of [`Self::kernels`], or none, for all later launches.
    fn choose(&self, kernel: Option<Self::Kernel>);

    /// Chooses the first kernel, or the last, if there is one. Returns whether there is.
    fn choose_any(&self, last: bool) -> bool {
        let kernels = self.kernels();
        self.choose(if last { kernels.last() } else { kernels.first() }.copied());
        self.kernel().is_some()
    }
}
