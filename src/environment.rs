/*!
What machine this is, for the sidecar and the device column: a number without its machine is worth
nothing.
*/

use std::path::Path;

use serde_json::{Map, Value, json};

use host::meminfo::MemInfo;
use host::processor::{processor, processors};
use vos::files::Facts;

/// Kind of build.
const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

/// Threads that decode frames ahead where nobody says how many, on a host whose processors so many
/// runs share: all processors of a share but one. More than eight only take processors from the
/// rest.
pub fn usual_decode_threads(runs: usize) -> usize {
    (processors() / runs.max(1)).saturating_sub(1).clamp(1, 8)
}

/// Variables by which a process gets part of a machine or an emulated one, as the facts name them.
const SHARE: [(&str, &str); 5] = [
    ("CUDA_VISIBLE_DEVICES", "cuda_visible_devices"),
    ("SLURM_JOB_ID", "slurm_job"),
    ("SLURM_JOB_PARTITION", "slurm_partition"),
    ("SLURMD_NODENAME", "slurm_node"),
    (host::program::RUNNER, "runner"),
];

/// This program: version, commit where it is known, kind of build.
fn program() -> String {
    let commit = option_env!("SEGTRT_COMMIT").map(|commit| format!(", commit {commit}"));
    let version = env!("CARGO_PKG_VERSION");
    format!("{version}{}, {BUILD} build", commit.unwrap_or_default())
}

/// What must be the same for rows of one table: host, processor, program.
pub fn machine() -> Facts {
    let facts = [("host", hostname()), ("processor", processor()), ("segtrt", program())];
    facts.map(|(name, value)| (name.to_owned(), value)).into()
}

/// The host's name as the kernel gives it.
fn hostname() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    host.trim().to_owned()
}

/// Facts for the sidecar.
pub fn facts() -> Map<String, Value> {
    let memory = MemInfo::read(Path::new("/")).kib("MemTotal");
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let governor =
        std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok();
    let facts = json!({
        "segtrt": env!("CARGO_PKG_VERSION"),
        "commit": option_env!("SEGTRT_COMMIT"),
        "build": BUILD,
        "hostname": hostname(),
        "system": system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).map(|name| name.trim_matches('"')),
        "kernel": kernel.trim(),
        "architecture": std::env::consts::ARCH,
        "processor": processor(),
        "processors": processors(),
        "frequency_governor": governor.as_deref().map(str::trim),
        "memory": memory.map(|kib| format!("{kib} kB")),
    });
    let mut facts = match facts {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    // Only where they are set: they say which part of the machine this was.
    for (variable, name) in SHARE {
        facts.extend(std::env::var(variable).ok().map(|value| (name.to_owned(), value.into())));
    }
    facts
}
