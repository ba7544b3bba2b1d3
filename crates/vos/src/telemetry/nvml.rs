/*!
NVML's sensors of one GPU.

Every call may fail independently: a GPU without an energy counter still has clocks. A failed
reading is `None`.
*/

use std::path::Path;

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use serde_json::{Map, Value};

use super::source::{Reading, SensorSource};
use super::{Target, TelemetryError};
use crate::record::{Limit, Limits};

const MIB: f64 = (1 << 20) as f64;

/// NVML's throttle reasons and the matching limits. An idle GPU is not throttled.
const REASONS: [(ThrottleReasons, Limit); 8] = [
    (ThrottleReasons::SW_POWER_CAP, Limit::PowerCap),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, Limit::Thermal),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, Limit::ThermalHardware),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, Limit::PowerBrake),
    (ThrottleReasons::HW_SLOWDOWN, Limit::HardwareSlowdown),
    (ThrottleReasons::SYNC_BOOST, Limit::SyncBoost),
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, Limit::ClocksSetting),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, Limit::DisplaySetting),
];

/// One GPU by NVML.
pub(super) struct NvmlSource {
    nvml: Nvml,
    /// NVML's index of the GPU.
    index: u32,
}

impl NvmlSource {
    /// Opens the library and finds the GPU.
    pub(super) fn open(target: &Target, library: Option<&Path>) -> Result<Self, TelemetryError> {
        let nvml = match library {
            Some(path) => Nvml::builder().lib_path(path.as_os_str()).init(),
            None => Nvml::init(),
        };
        let nvml = nvml.map_err(|error| TelemetryError::NoNvml(error.to_string()))?;
        let found = match &target.pci_address {
            Some(address) => nvml.device_by_pci_bus_id(address.as_str()),
            None => u32::try_from(target.ordinal)
                .map_err(|_| NvmlError::InvalidArg)
                .and_then(|ordinal| nvml.device_by_index(ordinal)),
        };
        let index = found.and_then(|device| device.index()).map_err(|error| {
            let ordinal = || target.ordinal.to_string();
            TelemetryError::NoDevice {
                wanted: target.pci_address.clone().unwrap_or_else(ordinal),
                why: error.to_string(),
            }
        })?;
        Ok(Self { nvml, index })
    }

    fn device(&self) -> Option<Device<'_>> {
        self.nvml.device_by_index(self.index).ok()
    }
}

impl SensorSource for NvmlSource {
    fn facts(&self) -> Map<String, Value> {
        let mut facts = Map::new();
        let mut fact = |name: &str, value: Option<Value>| {
            facts.extend(value.map(|value| (name.to_owned(), value)));
        };
        fact("source", Some("NVML".into()));
        fact("driver", reported(self.nvml.sys_driver_version()));
        fact("nvml", reported(self.nvml.sys_nvml_version()));
        let Some(device) = self.device() else { return facts };
        let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
        fact("name", reported(device.name()));
        fact("uuid", reported(device.uuid()));
        fact("pci_address", reported(device.pci_info().map(|info| info.bus_id)));
        fact("pcie_generation", reported(device.current_pcie_link_gen()));
        fact("pcie_width", reported(device.current_pcie_link_width()));
        fact("power_limit_w", reported(device.enforced_power_limit().map(watts)));
        fact("power_limit_default_w", reported(device.power_management_limit_default().map(watts)));
        let size = device.memory_info().map(|memory| memory.total as f64 / MIB);
        fact("memory_total_mib", size.ok().filter(|size| *size > 0.0).map(Value::from));
        fact("memory_bus_width_bits", reported(device.memory_bus_width()));
        fact("persistence_mode", reported(device.is_in_persistent_mode()));
        fact("ecc", reported(device.is_ecc_enabled().map(|state| state.currently_enabled)));
        fact("mig_mode", reported(device.mig_mode().map(|mode| mode.current != 0)));
        for (clock, name) in [(Clock::SM, "sm"), (Clock::Memory, "memory")] {
            fact(&format!("{name}_clock_max_mhz"), reported(device.max_clock_info(clock)));
        }
        for (clock, name) in [(Clock::Graphics, "graphics"), (Clock::Memory, "memory")] {
            fact(
                &format!("{name}_clock_application_mhz"),
                reported(device.applications_clock(clock)),
            );
        }
        facts
    }

    fn read(&mut self, thorough: bool) -> Reading {
        let Some(device) = self.device() else { return Reading::default() };
        let mut reading = Reading {
            power_w: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
            energy_j: device.total_energy_consumption().ok().map(|mj| mj as f64 / 1e3),
            sm_clock_mhz: device.clock_info(Clock::SM).ok().map(f64::from),
            memory_clock_mhz: device.clock_info(Clock::Memory).ok().map(f64::from),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            utilisation_percent: device.utilization_rates().ok().map(|rates| f64::from(rates.gpu)),
            limits: device.current_throttle_reasons().ok().map(limits),
            ..Reading::default()
        };
        if thorough {
            if let Ok(memory) = device.memory_info() {
                reading.device_memory_mib = Some(memory.used as f64 / MIB);
                reading.device_memory_total_mib = Some(memory.total as f64 / MIB);
            }
            if let Ok(processes) = device.running_compute_processes() {
                let company = company(&processes, std::process::id());
                reading.other_processes = company.others;
                reading.process_memory_mib = company.own_bytes.map(|bytes| bytes as f64 / MIB);
            }
        }
        reading
    }
}

fn reported<T: Into<Value>>(answer: Result<T, NvmlError>) -> Option<Value> {
    answer.ok().map(Into::into)
}

fn limits(reasons: ThrottleReasons) -> Limits {
    let ours = REASONS.iter().filter(|(theirs, _)| reasons.contains(*theirs));
    Limits::of(ours.map(|(_, limit)| *limit))
}

/// The processes on the GPU.
#[derive(Debug, PartialEq, Eq)]
struct Company {
    /// Number of other processes; `None` if NVML shows none at all.
    others: Option<usize>,
    /// Memory of this process.
    own_bytes: Option<u64>,
}

/// Distinguishes this process from the others.
///
/// In a container NVML shows the host's process numbers, and this process's number is not among
/// them. One of them is this process, because readings are taken while it computes; which one is
/// known only if it is alone. Some containers see no processes, which says nothing about others.
fn company(processes: &[ProcessInfo], own_pid: u32) -> Company {
    let bytes = |process: &ProcessInfo| match process.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    // A process that uses several instances of a MIG GPU appears more than once.
    let mine = processes.iter().filter(|process| process.pid == own_pid);
    let mut pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let own_bytes = match (pids.contains(&own_pid), processes) {
        (true, _) => mine.map(bytes).sum(),
        (false, [only]) => bytes(only),
        (false, _) => None,
    };
    Company { others: pids.len().checked_sub(1), own_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, used_gpu_memory: UsedGpuMemory) -> ProcessInfo {
        ProcessInfo { pid, used_gpu_memory, gpu_instance_id: None, compute_instance_id: None }
    }

    #[test]
    fn this_process_is_told_from_the_others_where_that_can_be() {
        let used = |pid, bytes| process(pid, UsedGpuMemory::Used(bytes));
        let both = [used(7, 100), used(8, 900)];
        assert_eq!(company(&both, 7), Company { others: Some(1), own_bytes: Some(100) });
        // A container: one of the two is this process, but which one is unknown.
        assert_eq!(company(&both, 4711), Company { others: Some(1), own_bytes: None });
        assert_eq!(company(&both[1..], 4711), Company { others: Some(0), own_bytes: Some(900) });
        assert_eq!(company(&[], 7), Company { others: None, own_bytes: None });
        let hidden = [process(7, UsedGpuMemory::Unavailable)];
        assert_eq!(company(&hidden, 7), Company { others: Some(0), own_bytes: None });
        let twice = [used(7, 100), used(7, 50)];
        assert_eq!(company(&twice, 7), Company { others: Some(0), own_bytes: Some(150) });
    }

    #[test]
    fn an_idle_gpu_is_not_held_back() {
        assert!(limits(ThrottleReasons::GPU_IDLE).is_empty());
        assert_eq!(
            limits(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::GPU_IDLE).text(),
            "power_cap"
        );
        assert_eq!(limits(ThrottleReasons::all()).iter().count(), REASONS.len());
    }
}
