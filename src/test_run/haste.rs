/*!
How engines are built that only have to work: with as little search as the release knows, and as
many plans at a time as the machine bears. Nothing that is measured with them says how fast anything
is.
*/

use crate::doctor::Gpus;
use crate::two_phase::SystemMemory;

/// The lowest optimization level; releases without levels (8.5) leave the flag out of account.
const LEVEL: &str = "0";

/// Host memory of one building process at most, MiB, as `build-engines --jobs` says.
const HOST_MIB: f64 = 5.0 * 1024.0;

/// Memory of a GPU that is left for one building process, MiB: its context, TensorRT's libraries, a
/// small network.
const GPU_MIB: f64 = 2.0 * 1024.0;

/// The remark on every speed of a test run.
pub const NO_SPEEDS: &str = "its speeds say nothing: the clip is short, and engines are built at \
                             TensorRT's lowest optimization level, several at a time; for speeds \
                             there are segtrt build-engines and segtrt bench";

/// The flags of `build-engines` for `plans` plans on this machine, on the first of `gpus`.
pub fn build_flags(plans: usize, gpus: &Gpus) -> [String; 4] {
    // A GPU without memory of its own takes from the host's, which is counted.
    let gpu = gpus.as_ref().ok().and_then(|gpus| gpus.first()).filter(|gpu| !gpu.unified);
    let gpu_mib = gpu.map(|gpu| gpu.free_bytes as f64 / 1_048_576.0);
    let host_mib = SystemMemory::now().map(|memory| memory.available_mib);
    let jobs = at_a_time(plans, host::processor::processors(), host_mib, gpu_mib);
    ["--opt-level", LEVEL, "--jobs", &jobs.to_string()].map(str::to_owned)
}

/// Plans at a time: no more than there are, than processors, and than fit into what is free of the
/// host's memory (one where nobody knows how much that is) and of the GPU's own.
fn at_a_time(
    plans: usize,
    processors: usize,
    host_mib: Option<f64>,
    gpu_mib: Option<f64>,
) -> usize {
    let host = host_mib.map_or(1.0, |mib| mib / HOST_MIB);
    let gpu = gpu_mib.map_or(f64::INFINITY, |mib| mib / GPU_MIB);
    plans.min(processors).min(host.min(gpu) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_plans_at_a_time_as_the_machine_bears() {
        let gib = |gib: f64| Some(1024.0 * gib);
        assert_eq!(at_a_time(6, 16, gib(100.0), gib(139.0)), 6);
        assert_eq!(at_a_time(6, 4, gib(100.0), gib(139.0)), 4);
        assert_eq!(at_a_time(6, 16, gib(19.0), gib(139.0)), 3);
        assert_eq!(at_a_time(6, 16, gib(100.0), gib(7.5)), 3);
        // A small board, whose GPU has no memory of its own, and one that is full.
        assert_eq!(at_a_time(6, 6, gib(6.2), None), 1);
        assert_eq!(at_a_time(6, 6, gib(0.1), gib(0.0)), 1);
        assert_eq!(at_a_time(6, 16, None, None), 1);
    }
}
