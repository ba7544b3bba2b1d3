/*!
The machine itself: system, processor, memory, disk, the processor's clock.
*/

use std::path::{Path, PathBuf};

use super::check::Check;
use crate::environment;
use host::meminfo::MemInfo;
use host::processor;

const GIB: f64 = (1 << 30) as f64;
/// Less free memory than this is too little for the larger models on the CPU.
const LITTLE_MEMORY: f64 = 4.0 * GIB;
/// Less free disk than this fills up with the masks and overlays of a large split.
const LITTLE_DISK: f64 = 2.0 * GIB;

/// The system and its processor.
pub fn system() -> Check {
    let facts = environment::facts();
    let fact = |name: &str| facts.get(name).and_then(|value| value.as_str()).unwrap_or("unknown");
    Check::ok(
        "machine",
        format!(
            "{}, {}, kernel {}, {} ({} processors)",
            fact("system"),
            fact("architecture"),
            fact("kernel"),
            fact("processor"),
            processor::processors()
        ),
    )
}

/// Memory of the host.
pub fn memory(root: &Path) -> Check {
    let Some((total, free)) = MemInfo::read(root).total_and_available_kib() else {
        return Check::not_asked("memory", "unknown on this system");
    };
    let (total, free) = (total * 1024.0, free * 1024.0);
    let found = format!("{:.1} of {:.1} GiB free", free / GIB, total / GIB);
    match free < LITTLE_MEMORY {
        true => Check::warning(
            "memory",
            found,
            "close other programs; on a Jetson the GPU shares this memory: a desktop session \
             alone takes more than 1 GiB (sudo systemctl set-default multi-user.target)",
        ),
        false => Check::ok("memory", found),
    }
}

/// Free disk space for results.
pub fn disk(out_dir: &Path) -> Option<Check> {
    let there = existing(out_dir);
    let name = "disk";
    let stat = rustix::fs::statvfs(&there).ok()?;
    let (free, total) =
        (stat.f_bavail as f64 * stat.f_frsize as f64, stat.f_blocks as f64 * stat.f_frsize as f64);
    let found =
        format!("{:.1} of {:.1} GiB free for {}", free / GIB, total / GIB, out_dir.display());
    Some(match free < LITTLE_DISK {
        true => Check::warning(name, found, "make room, or name another folder with --out-dir"),
        false => Check::ok(name, found),
    })
}

/// The folder, or the nearest one above it that exists.
fn existing(folder: &Path) -> PathBuf {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let found = absolute.ancestors().find(|dir| dir.is_dir());
    found.map_or_else(|| PathBuf::from("/"), Path::to_owned)
}

/// The governor of the processor's clock.
pub fn governor(root: &Path) -> Check {
    let path = root.join("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let name = "CPU governor";
    match std::fs::read_to_string(path) {
        Ok(text) if text.trim() == "performance" => Check::ok(name, "performance"),
        Ok(text) => Check::warning(
            name,
            format!("{}: the clock follows the load, and times with it", text.trim()),
            "sudo cpupower frequency-set -g performance; on a Jetson: sudo jetson_clocks",
        ),
        Err(_) => Check::ok(name, "unknown here (a virtual machine or a container)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn little_memory_is_a_warning() {
        let info = |free: u64| format!("MemTotal:       16000000 kB\nMemAvailable:   {free} kB\n");
        let rich = memory(root(&[("proc/meminfo", &info(9_000_000))]).path());
        assert_eq!((rich.state, rich.found.as_str()), (State::Ok, "8.6 of 15.3 GiB free"));
        assert_eq!(memory(root(&[("proc/meminfo", &info(900_000))]).path()).state, State::Warning);
        assert_eq!(memory(root(&[]).path()).state, State::NotAsked);
    }

    #[test]
    fn a_clock_that_follows_the_load_is_a_warning() {
        let file = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        assert_eq!(governor(root(&[(file, "performance\n")]).path()).state, State::Ok);
        let check = governor(root(&[(file, "schedutil\n")]).path());
        assert_eq!(check.state, State::Warning);
        assert!(check.found.starts_with("schedutil: "), "{check:?}");
        assert_eq!(governor(root(&[]).path()).state, State::Ok);
    }

    #[test]
    fn the_disk_of_a_folder_that_is_not_made_yet_is_its_parents() {
        let dir = tempfile::tempdir().unwrap();
        let check = disk(&dir.path().join("a/b/c")).unwrap();
        assert!(check.found.contains("a/b/c"), "{check:?}");
        assert_eq!(existing(&dir.path().join("a/b")), dir.path());
    }
}
