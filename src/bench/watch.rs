/*!
The GPU's sensors while a worker measures: what is watched, and what is done where nothing can be.
*/

use std::time::Duration;

use super::plan::BenchPlan;
use cuda::Gpu;
use runtime::backend::Provider;
use vos::telemetry::{Options, Target, Telemetry};

/// Whether a bench runs on a GPU.
pub fn on_gpu(plan: &BenchPlan) -> bool {
    plan.gpu.is_some() || plan.provider != Provider::Cpu
}

/// The GPU that a bench runs on; `None` on the CPU, where nothing is watched.
pub fn target_of(plan: &BenchPlan) -> Option<Target> {
    if !on_gpu(plan) {
        return None;
    }
    let ordinal = plan.gpu.as_ref().map_or(0, |gpu| gpu.device);
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
