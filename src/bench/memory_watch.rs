/*!
The memory of a model's worker, as its parent sees it: readings against frames, which cost the
worker nothing.
*/

use super::object_rows::Recorded;
use host::process_memory;
use vos::record::{DeviceMemoryUse, ModelMemory};
use vos::trend::Trend;

/// Frames of the axis's unit.
const UNIT: f64 = 1000.0;

/// Readings of one worker.
#[derive(Default)]
pub(super) struct MemoryWatch {
    frames: f64,
    host: Vec<(f64, f64)>,
    device: Vec<(f64, f64)>,
    uses: Option<DeviceMemoryUse>,
}

impl MemoryWatch {
    /// An object of `worker` is done. Read now, when its masks and logits are gone.
    pub(super) fn object(&mut self, worker: u32, passes: &[Recorded]) {
        let frames: usize = passes.iter().filter_map(|(row, _)| row.frames).sum();
        self.frames += frames as f64 / UNIT;
        let device =
            passes.iter().filter_map(|(row, _)| row.numbers()?.memory.gpu_peak_reserved_mib);
        self.push(process_memory::rss_mib_of(worker), device.reduce(f64::max));
    }

    fn push(&mut self, host: Option<f64>, device: Option<f64>) {
        self.host.extend(host.map(|mib| (self.frames, mib)));
        self.device.extend(device.map(|mib| (self.frames, mib)));
    }

    /// What the worker said of its device memory.
    pub(super) fn uses(&mut self, uses: DeviceMemoryUse) {
        match &mut self.uses {
            Some(known) => known.at_least(uses),
            None => self.uses = Some(uses),
        }
    }

    /// What is known at the worker's end.
    pub(super) fn memory(self) -> ModelMemory {
        ModelMemory {
            device: self.uses,
            host_mib_per_1000_frames: Trend::of(&self.host),
            device_mib_per_1000_frames: Trend::of(&self.device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_grows_with_each_object_is_told_by_frames() {
        let mut watch = MemoryWatch::default();
        for at in 0..32 {
            watch.frames += 0.1;
            watch.push(Some(500.0 + 10.0 * f64::from(at)), Some(900.0));
        }
        watch.uses(DeviceMemoryUse { bank: 3.0, ..Default::default() });
        watch.uses(DeviceMemoryUse { bank: 2.0, ..Default::default() });
        let memory = watch.memory();
        let told = memory.leaks();
        assert_eq!(told.len(), 1, "the device's memory stays: {told:?}");
        assert!(told[0].contains("host memory kept growing by 100.0 MiB each 1000 frames"));
        assert_eq!(memory.device.unwrap().bank, 3.0);
    }
}
