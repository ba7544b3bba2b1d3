/*!
Resident memory of a process and all that descend from it.
*/

use std::path::Path;

use host::process_tree;

/// Sum over the tree below and with `pid`, kB; `None` where that process is not there or has no
/// memory any more.
pub(super) fn rss_kib(proc: &Path, pid: u32) -> Option<f64> {
    let family = process_tree::of(proc, pid);
    family.first()?.rss_kib?;
    Some(family.iter().filter_map(|process| process.rss_kib).sum())
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
