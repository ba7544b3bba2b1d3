//! Experiments, the two phases, predecoded frames: as whole commands on the committed network.

/// Several GPUs of one host.
#[path = "experiment/devices.rs"]
mod devices;
/// Files of predecoded frames, and benches on them.
#[path = "experiment/predecoded.rs"]
mod predecoded;
/// Slurm, on stand-ins for its commands; tests/slurm runs the real ones.
#[cfg(unix)]
#[path = "experiment/slurm.rs"]
mod slurm;
/// The two phases on boards of 4 and 8 GB.
#[path = "experiment/small_memory.rs"]
mod small_memory;
/// The predecessor's two phases.
#[path = "experiment/two_phase.rs"]
mod two_phase;
/// Experiments from a split to a folder that can be resumed.
#[path = "experiment/whole.rs"]
mod whole;
