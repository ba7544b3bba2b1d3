/*!
Clock and load of a Jetson's GPU, and the clock of its memory.
*/

use std::path::{Path, PathBuf};

use super::{entries, number, text};

/// Names of the GPU's node: the chip (`57000000.gp10b`, `17000000.gv11b`, `17000000.ga10b`) up to
/// JetPack 5, `17000000.gpu` from 6 on.
const NAMES: [&str; 5] = ["gpu", "ga10b", "gv11b", "gp10b", "gm20b"];
/// Older places of the load file.
const OLD_LOADS: [&str; 2] = ["sys/devices/gpu.0/load", "sys/devices/platform/gpu.0/load"];
/// Clock of the memory, Hz; readable only by root.
const MEMORY_CLOCK: &str = "sys/kernel/debug/bpmp/debug/clk/emc/rate";

/// The GPU's node below `sys/class/devfreq`.
#[derive(Debug)]
pub(super) struct Gpu {
    node: PathBuf,
    load: Option<PathBuf>,
}

impl Gpu {
    /// The first node that is an integrated GPU's.
    pub(super) fn find(root: &Path) -> Option<Self> {
        let is_gpu = |name: &str| name.rsplit('.').next().is_some_and(|kind| NAMES.contains(&kind));
        let node = entries(&root.join("sys/class/devfreq"), is_gpu).into_iter().next()?;
        let beside = node.join("device/load");
        let old = OLD_LOADS.map(|path| root.join(path));
        let load = [beside].into_iter().chain(old).find(|path| number(path).is_some());
        Some(Self { node, load })
    }

    /// Current clock, MHz.
    pub(super) fn clock_mhz(&self) -> Option<f64> {
        self.bound_mhz("cur_freq")
    }

    /// The clock in a file of the node, MHz.
    pub(super) fn bound_mhz(&self, file: &str) -> Option<f64> {
        number(&self.node.join(file)).map(|hertz| hertz / 1e6)
    }

    /// The clock governor (`nvhost_podgov`, `performance`).
    pub(super) fn governor(&self) -> Option<String> {
        text(&self.node.join("governor"))
    }

    /// Load, %; the file has tenths of a percent.
    pub(super) fn load_percent(&self) -> Option<f64> {
        number(self.load.as_ref()?).map(|tenths| tenths / 10.0)
    }
}

/// Clock of the memory, MHz.
pub(super) fn memory_mhz(root: &Path) -> Option<f64> {
    number(&root.join(MEMORY_CLOCK)).map(|hertz| hertz / 1e6)
}
