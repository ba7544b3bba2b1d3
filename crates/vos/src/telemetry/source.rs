/*!
The interface of sensors, and one reading of them.
*/

use serde_json::{Map, Value};

use crate::record::Limits;

/// One reading of all sensors. A value is `None` if the board does not have it or the reading
/// failed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Power draw, W.
    pub power_w: Option<f64>,
    /// The board's energy counter, J since an arbitrary time.
    pub energy_j: Option<f64>,
    /// Clock of the multiprocessors, MHz.
    pub sm_clock_mhz: Option<f64>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<f64>,
    /// Temperature, °C.
    pub temperature_c: Option<f64>,
    /// Share of recent time in which the GPU was busy, %.
    pub utilisation_percent: Option<f64>,
    /// Limits that lower the clocks.
    pub limits: Option<Limits>,
    /// Other processes that compute on the GPU.
    pub other_processes: Option<usize>,
    /// GPU memory of this process by the driver, MiB.
    pub process_memory_mib: Option<f64>,
    /// GPU memory in use by all processes, MiB.
    pub device_memory_mib: Option<f64>,
    /// Size of the GPU memory, MiB.
    pub device_memory_total_mib: Option<f64>,
}

/// A set of sensors.
pub trait SensorSource {
    /// Constant facts for the sidecar.
    fn facts(&self) -> Map<String, Value>;

    /// Reads the sensors; `thorough` includes processes and memory, which take the driver longer.
    fn read(&mut self, thorough: bool) -> Reading;
}
