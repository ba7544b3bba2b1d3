/*!
Resident memory of a process and all that descend from it.
*/

use std::collections::HashMap;
use std::path::Path;

use crate::meminfo::kib_of;

/// Sum over the tree below and with `pid`, kB; `None` where that process is not there or has no memory any more.
pub(super) fn rss_kib(proc: &Path, pid: u32) -> Option<f64> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut rss: HashMap<u32, f64> = HashMap::new();
    for entry in std::fs::read_dir(proc).ok()?.flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // It may have ended since the folder was listed.
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else { continue };
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        if let Some(parent) = parent.and_then(|pid| pid.trim().parse().ok()) {
            children.entry(parent).or_default().push(process);
        }
        rss.extend(kib_of(&status, "VmRSS").map(|kib| (process, kib)));
    }
    rss.get(&pid)?;
    let (mut sum, mut open, mut seen) = (0.0, vec![pid], 0);
    while let Some(process) = open.pop() {
        sum += rss.get(&process).copied().unwrap_or_default();
        seen += 1;
        // Numbers are used again: a listing that is torn in time must not become an endless loop.
        if seen > rss.len() + children.len() {
            break;
        }
        open.extend(children.get(&process).into_iter().flatten());
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_children_count_and_strangers_do_not() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: u32, parent: u32, rss: Option<u32>| {
            let dir = proc.path().join(pid.to_string());
            std::fs::create_dir(&dir).unwrap();
            let rss = rss.map(|kib| format!("VmRSS:\t  {kib} kB\n")).unwrap_or_default();
            std::fs::write(dir.join("status"), format!("Name:\tx\nPPid:\t{parent}\n{rss}"))
                .unwrap();
        };
        process(10, 1, Some(100));
        process(11, 10, Some(20));
        process(12, 11, Some(3));
        process(13, 1, Some(5000));
        process(14, 10, None);
        assert_eq!(rss_kib(proc.path(), 10), Some(123.0));
        assert_eq!(rss_kib(proc.path(), 14), None, "a process that ended has no memory");
        assert_eq!(rss_kib(proc.path(), 99), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory() {
        let mine = rss_kib(Path::new("/proc"), std::process::id()).unwrap();
        assert!(mine > 1000.0, "{mine} kB");
    }
}
