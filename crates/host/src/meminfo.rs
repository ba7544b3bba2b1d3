/*!
`/proc/meminfo`: the machine's memory as the kernel counts it.
*/

use std::path::Path;

/// The kernel's numbers at one moment.
#[derive(Clone, Debug, Default)]
pub struct MemInfo(String);

impl MemInfo {
    /// Reads the file below `root`, which is `/`. Without a file there are no fields.
    pub fn read(root: &Path) -> Self {
        Self(std::fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default())
    }

    /// A field such as `SwapTotal`, KiB; none if the kernel has no such line in `kB`.
    pub fn kib(&self, name: &str) -> Option<f64> {
        kib_of(&self.0, name)
    }

    /// Total memory, and the memory available without swapping, KiB.
    pub fn total_and_available_kib(&self) -> Option<(f64, f64)> {
        self.kib("MemTotal").zip(self.kib("MemAvailable"))
    }
}

/// The field `name` of a text with lines such as `VmHWM:     1234 kB`, which processes' status
/// files have too; KiB.
pub fn kib_of(text: &str, name: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_names() {
        let text = "MemTotalX: 1 kB\nMemTotal:       32768000 kB\nMemFree: 1 kB\nVmData: many \
                    kB\nHugePages_Total: 3\n";
        assert_eq!(kib_of(text, "MemTotal"), Some(32_768_000.0));
        for missing in ["Mem", "VmData", "HugePages_Total", "SwapTotal"] {
            assert_eq!(kib_of(text, missing), None, "{missing}");
        }
        assert_eq!(MemInfo::read(Path::new("/no/such/root")).total_and_available_kib(), None);
    }
}
