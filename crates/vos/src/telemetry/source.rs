/*!
Where readings come from: NVML on a PC or server, sysfs on a Jetson.
*/

use serde_json::{Map, Value};

use super::nvml::NvmlSource;
use super::tegra::Tegra;
use super::{Options, Target, TelemetryError};
use crate::record::Limits;

/// One look at the sensors. `None`: this board does not say, or not this time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Power draw, W.
    pub power_w: Option<f64>,
    /// The board's energy counter, J since an arbitrary moment.
    pub energy_j: Option<f64>,
    /// Clock of the multiprocessors, MHz.
    pub sm_clock_mhz: Option<f64>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<f64>,
    /// Temperature, °C.
    pub temperature_c: Option<f64>,
    /// Share of time in which the GPU was busy of late, %.
    pub utilisation_percent: Option<f64>,
    /// What holds the clocks down.
    pub limits: Option<Limits>,
    /// Other processes that compute on the GPU.
    pub other_processes: Option<usize>,
    /// GPU memory that the driver counts for this process, MiB.
    pub process_memory_mib: Option<f64>,
    /// GPU memory in use by anyone, MiB.
    pub device_memory_mib: Option<f64>,
    /// GPU memory that is there, MiB.
    pub device_memory_total_mib: Option<f64>,
}

/// Something that can be read.
pub trait Source {
    /// What does not change while it is watched, for the sidecar.
    fn facts(&self) -> Map<String, Value>;

    /// Looks at the sensors; `thorough` asks for processes and memory too, which the driver takes
    /// longer to tell.
    fn read(&mut self, thorough: bool) -> Reading;
}

/// The source for a GPU: a Jetson's own where there is one, else NVML.
///
/// # Errors
/// There are no sensors that can be read; the sentence says why.
pub fn open(target: &Target, options: &Options) -> Result<Box<dyn Source>, TelemetryError> {
    if let Some(tegra) = Tegra::open(&options.root) {
        return Ok(Box::new(tegra));
    }
    Ok(Box::new(NvmlSource::open(target, options.nvml.as_deref())?))
}
