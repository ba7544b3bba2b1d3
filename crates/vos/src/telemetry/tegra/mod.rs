/*!
A Jetson's sensors from sysfs, because NVML reports hardly anything there.

JetPack releases have their files in different places, and files appear and vanish with power
states. So every file is searched in all known places, and an unreadable one is `None`. Paths are
relative to a root, so that tests can simulate a board. `tegrastats` reads the same files.
*/

mod clocks;
mod rails;
mod thermal;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use self::clocks::Gpu;
use self::rails::{OverCurrent, Rails};
use self::thermal::Thermal;
use super::source::{Reading, SensorSource};
use crate::record::{Limit, Limits};
use host::board::{self, text};

/// The sensors of a Jetson.
#[derive(Debug)]
pub struct Tegra {
    root: PathBuf,
    gpu: Gpu,
    rails: Rails,
    over_current: OverCurrent,
    thermal: Thermal,
}

impl Tegra {
    /// The board with its files below `root`; `None` if it is not a Jetson.
    pub fn open(root: &Path) -> Option<Self> {
        let gpu = Gpu::find(root)?;
        Some(Self {
            gpu,
            rails: Rails::find(root),
            over_current: OverCurrent::find(root),
            thermal: Thermal::find(root),
            root: root.to_owned(),
        })
    }
}

impl SensorSource for Tegra {
    fn facts(&self) -> Map<String, Value> {
        let mut facts = Map::new();
        let mut fact = |name: &str, value: Option<Value>| {
            facts.extend(value.map(|value| (name.to_owned(), value)));
        };
        fact("source", Some("sysfs".into()));
        fact("board", board::model(&self.root).map(Into::into));
        fact("l4t", board::l4t(&self.root).map(Into::into));
        let power_mode = text(&self.root.join("var/lib/nvpmodel/status"));
        fact("power_mode", power_mode.map(Into::into));
        fact("gpu_clock_min_mhz", self.gpu.bound_mhz("min_freq").map(Into::into));
        fact("gpu_clock_max_mhz", self.gpu.bound_mhz("max_freq").map(Into::into));
        fact("gpu_governor", self.gpu.governor().map(Into::into));
        fact("power_rails", Some(self.rails.names().into()));
        fact("power_is", self.rails.meaning().map(Into::into));
        facts
    }

    fn read(&mut self, _thorough: bool) -> Reading {
        let mut limits: Vec<Limit> = Vec::new();
        limits.extend(self.thermal.is_throttling().then_some(Limit::Thermal));
        limits.extend(self.over_current.has_grown().then_some(Limit::OverCurrent));
        Reading {
            power_w: self.rails.power_w(),
            sm_clock_mhz: self.gpu.clock_mhz(),
            memory_clock_mhz: clocks::memory_mhz(&self.root),
            temperature_c: self.thermal.gpu_c(),
            utilisation_percent: self.gpu.load_percent(),
            // Without either file nothing is known about throttling, not even its absence.
            limits: (self.thermal.is_known() || self.over_current.is_known())
                .then(|| Limits::of(limits)),
            // Its memory is the host's, which is counted elsewhere.
            ..Reading::default()
        }
    }
}

/// A file with one number.
fn number(path: &Path) -> Option<f64> {
    text(path)?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// The entries of a folder whose names match, in the order of their names.
fn entries(folder: &Path, passes: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(listing) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = listing
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| passes(&name.to_string_lossy())))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests;
