/*!
One reading of the memories, and its sensors.
*/

use std::path::PathBuf;

use crate::monitor::tree;
use host::board;
use host::meminfo::MemInfo;
use vos::telemetry::{self, Options, SensorSource, Target, TelemetryError};

/// kB and MiB in one GB; the predecessor's GB are powers of two.
const KIB_IN_GB: f64 = (1 << 20) as f64;
const MIB_IN_GB: f64 = 1024.0;

/// How much of a memory is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Amount {
    /// In use, GB of 2³⁰ bytes.
    pub used_gb: f64,
    /// There, GB of 2³⁰ bytes.
    pub total_gb: f64,
}

impl Amount {
    /// Share in use, %; zero of nothing.
    pub fn percent(&self) -> f64 {
        if self.total_gb > 0.0 { self.used_gb / self.total_gb * 100.0 } else { 0.0 }
    }
}

/// One moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Since the start, s.
    pub at_s: f64,
    /// The GPU's memory; `None` without a GPU or a reading.
    pub gpu: Option<Amount>,
    /// The machine's: all that is not available.
    pub ram: Option<Amount>,
    /// What the predecessor did not log.
    pub extra: Extra,
}

/// Further columns; `None` without a reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extra {
    /// Swap in use, GB of 2³⁰ bytes.
    pub swap_used_gb: Option<f64>,
    /// Share of time with work on the GPU, %.
    pub gpu_util_percent: Option<f64>,
    /// The GPU's power, W.
    pub gpu_power_w: Option<f64>,
    /// The GPU's temperature, °C.
    pub gpu_temperature_c: Option<f64>,
    /// Clock of the multiprocessors, MHz.
    pub sm_clock_mhz: Option<f64>,
    /// Resident memory of the command and its descendants, GB of 2³⁰ bytes; pages that they share
    /// count in each.
    pub command_rss_gb: Option<f64>,
}

/// What is read for each sample.
pub struct Sensors {
    root: PathBuf,
    gpu: Option<Box<dyn SensorSource>>,
    /// GPU and host share one memory.
    pub unified: bool,
    /// Why there are no readings of a GPU.
    pub no_gpu: Option<TelemetryError>,
}

impl Sensors {
    /// Opens the sensors of the GPU with NVML's number `device`, or of the Jetson whose files lie
    /// below the options' root.
    pub fn open(device: usize, options: &Options) -> Self {
        let target = Target { ordinal: device, pci_address: None };
        let root = options.root.clone();
        let unified = board::is_jetson(&root);
        match telemetry::open(&target, options) {
            Ok(source) => Self { root, gpu: Some(source), unified, no_gpu: None },
            Err(error) => Self { root, gpu: None, unified, no_gpu: Some(error) },
        }
    }

    /// Reads everything; `command` is the process whose own memory is wanted too.
    pub fn sample(&mut self, at_s: f64, command: Option<u32>) -> Sample {
        let meminfo = MemInfo::read(&self.root);
        let reading = self.gpu.as_mut().map(|gpu| gpu.read(true)).unwrap_or_default();
        let gpu = reading.device_memory_mib.zip(reading.device_memory_total_mib);
        let swap = meminfo.kib("SwapTotal").zip(meminfo.kib("SwapFree"));
        Sample {
            at_s,
            gpu: gpu.filter(|_| !self.unified).map(|(used, total)| Amount {
                used_gb: used / MIB_IN_GB,
                total_gb: total / MIB_IN_GB,
            }),
            ram: ram(&meminfo),
            extra: Extra {
                swap_used_gb: swap.map(|(total, free)| (total - free) / KIB_IN_GB),
                gpu_util_percent: reading.utilisation_percent,
                gpu_power_w: reading.power_w,
                gpu_temperature_c: reading.temperature_c,
                sm_clock_mhz: reading.sm_clock_mhz,
                command_rss_gb: command
                    .and_then(|pid| tree::rss_kib(&self.root.join("proc"), pid))
                    .map(|kib| kib / KIB_IN_GB),
            },
        }
    }
}

fn ram(meminfo: &MemInfo) -> Option<Amount> {
    let (total, available) = meminfo.total_and_available_kib()?;
    Some(Amount { used_gb: (total - available) / KIB_IN_GB, total_gb: total / KIB_IN_GB })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       8388608 kB\nMemFree: 1 kB\nMemAvailable:    6291456 kB\n\
        SwapTotal: 1048576 kB\nSwapFree: 524288 kB\n";

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Sensors) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let options = Options {
            root: root.path().to_owned(),
            nvml: Some("/no/such/nvml.so".into()),
            ..Options::default()
        };
        let sensors = Sensors::open(0, &options);
        (root, sensors)
    }

    #[test]
    fn what_is_not_available_is_in_use() {
        let (_root, mut sensors) = machine(&[("proc/meminfo", MEMINFO)]);
        assert!(!sensors.unified && sensors.no_gpu.is_some());
        let sample = sensors.sample(1.5, Some(1));
        assert_eq!(sample.ram, Some(Amount { used_gb: 2.0, total_gb: 8.0 }));
        assert_eq!(sample.ram.unwrap().percent(), 25.0);
        assert_eq!((sample.gpu, sample.extra.swap_used_gb), (None, Some(0.5)));
        assert_eq!(sample.extra.command_rss_gb, None);
        assert_eq!(Amount::default().percent(), 0.0);
    }

    #[test]
    fn a_machine_that_says_nothing_has_no_numbers() {
        let (_root, mut sensors) = machine(&[("proc/meminfo", "MemTotal: many kB\n")]);
        assert_eq!(sensors.sample(0.0, None), Sample::default());
    }

    #[test]
    fn a_jetson_is_unified_and_its_gpu_has_no_memory_of_its_own() {
        let board = ("sys/firmware/devicetree/base/model", "NVIDIA Jetson Orin Nano\0");
        let (_root, mut sensors) = machine(&[("proc/meminfo", MEMINFO), board]);
        assert!(sensors.unified);
        assert_eq!(sensors.sample(0.0, None).gpu, None);
        assert!(machine(&[("etc/nv_tegra_release", "# R36")]).1.unified);
    }
}
