/*!
Resident memory of a process by the kernel's count.

The kernel's own high-water mark (VmHWM) misses no peak between two samples, and on Linux it can be
reset, so that each object's peak is its own. Elsewhere there is no number rather than a guess.
*/

use std::path::Path;

use crate::meminfo::kib_of;

const STATUS: &str = "/proc/self/status";
const CLEAR_REFS: &str = "/proc/self/clear_refs";
/// `man 5 proc`: "reset the peak resident set size to the process's current value".
const RESET_PEAK: &str = "5";

/// Highest resident set size since the start, or since [`reset_peak`]; MiB. `None` off Linux.
pub fn peak_rss_mib() -> Option<f64> {
    read(Path::new(STATUS), "VmHWM")
}

/// Resident set size of a process now; MiB. `None` off Linux, and if there is no such process.
pub fn rss_mib_of(process: u32) -> Option<f64> {
    read(&Path::new("/proc").join(process.to_string()).join("status"), "VmRSS")
}

/// Resets the peak to the present size. False if the kernel does not permit it: then
/// [`peak_rss_mib`] stays the peak since the process began.
pub fn reset_peak() -> bool {
    std::fs::write(CLEAR_REFS, RESET_PEAK).is_ok()
}

fn read(status: &Path, field: &str) -> Option<f64> {
    let kib = kib_of(&std::fs::read_to_string(status).ok()?, field)?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_kilobytes_become_mebibytes() {
        let dir = tempfile::tempdir().unwrap();
        let status = dir.path().join("status");
        std::fs::write(&status, "Name:\tsegtrt\nVmHWM:\t    3072 kB\nVmRSS:\t 512 kB\n").unwrap();
        assert_eq!(read(&status, "VmHWM"), Some(3.0));
        assert_eq!(read(&status, "VmRSS"), Some(0.5));
        assert_eq!(read(Path::new("/no/such/status"), "VmHWM"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_peak_sees_memory_that_is_gone_and_forgets_it_on_reset() {
        let mib = 1 << 20;
        let block = vec![1u8; 256 * mib];
        assert!(std::hint::black_box(&block).iter().step_by(4096).all(|&b| b == 1));
        let with_block = rss_mib_of(std::process::id()).unwrap();
        drop(block);
        let peak = peak_rss_mib().unwrap();
        assert!(peak + 1.0 >= with_block, "peak {peak}, was at {with_block}");
        if !reset_peak() {
            eprintln!("SKIPPED: this kernel does not let a process reset its VmHWM");
            return;
        }
        assert!(peak_rss_mib().unwrap() < peak - 128.0);
    }
}
