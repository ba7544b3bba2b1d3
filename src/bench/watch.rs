/*!
The GPU's sensors while a worker measures: what is watched, and what is done where nothing can be.
*/

use std::time::Duration;

use super::plan::BenchPlan;
use cuda::Gpu;
use runtime::backend::Provider;
use vos::telemetry::{Options, Target, Telemetry};

/// The GPU that a bench runs on; `None` on the CPU, where nothing is watched.
pub fn target_of(plan: &BenchPlan) -> Option<Target> {
    let ordinal = match (&plan.gpu, plan.provider) {
        (Some(gpu), _) => gpu.device,
        (None, Provider::Cpu) => return None,
        (None, Provider::Cuda | Provider::Tensorrt) => 0,
    };
    let pci_address = Gpu::open(ordinal).and_then(|gpu| gpu.pci_address()).ok();
    Some(Target { ordinal, pci_address })
}

/// Watches `target`. A bench goes on without sensors: its rows say so, and their columns stay
/// empty.
pub fn start(target: &Target, plan: &BenchPlan) -> Option<Telemetry> {
    let period = Duration::from_millis(plan.telemetry_ms);
    match Telemetry::start(target, &Options { period, ..Options::default() }) {
        Ok(telemetry) => Some(telemetry),
        Err(error) => {
            log::warn!("no power, clocks or throttling in the rows: {error}");
            None
        }
    }
}
