/*!
Temperatures of a Jetson, and whether it throttles because of them.
*/

use std::path::{Path, PathBuf};

use super::{entries, number, text};

/// Names of the GPU's zone, and of the hottest spot's zone, which replaces it.
const ZONES: [&str; 4] = ["gpu-thermal", "GPU-therm", "tj-thermal", "Tboard_tegra"];

/// Zones and cooling devices.
#[derive(Debug)]
pub(super) struct Thermal {
    zone: Option<PathBuf>,
    coolers: Vec<PathBuf>,
}

impl Thermal {
    /// Finds the GPU's zone and all cooling devices that lower clocks.
    pub(super) fn find(root: &Path) -> Self {
        let folder = root.join("sys/class/thermal");
        let of = |prefix: &str| {
            let found = entries(&folder, |name| name.starts_with(prefix));
            found.into_iter().filter_map(|node| Some((text(&node.join("type"))?, node)))
        };
        let zones: Vec<_> = of("thermal_zone").collect();
        let zone = ZONES.iter().find_map(|wanted| {
            zones.iter().find(|(kind, _)| kind == wanted).map(|(_, node)| node.join("temp"))
        });
        let coolers = of("cooling_device").filter(|(kind, _)| slows_the_gpu(kind));
        Self { zone, coolers: coolers.map(|(_, node)| node.join("cur_state")).collect() }
    }

    /// Temperature, °C.
    pub(super) fn gpu_c(&self) -> Option<f64> {
        number(self.zone.as_ref()?).map(|millidegrees| millidegrees / 1e3)
    }

    /// Whether the board reports throttling.
    pub(super) fn is_known(&self) -> bool {
        !self.coolers.is_empty()
    }

    /// Whether it throttles now.
    pub(super) fn is_throttling(&self) -> bool {
        self.coolers.iter().any(|state| number(state).is_some_and(|state| state > 0.0))
    }
}

/// `gpu-throttle-alert` and similar devices are active while the hardware throttles; a `devfreq`
/// cooler lowers the GPU's clock. A fan does not throttle.
fn slows_the_gpu(kind: &str) -> bool {
    let is_gpu = ["gpu", "ga10b", "gv11b", "gp10b"].iter().any(|name| kind.contains(name));
    kind.ends_with("throttle-alert") || (kind.contains("devfreq") && is_gpu)
}
