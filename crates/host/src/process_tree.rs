/*!
A process and its descendants, from the kernel's list.

Who started what is known of living processes alone: a child whose parent has ended belongs to
nobody here.
*/

use std::collections::HashMap;
use std::path::Path;

use crate::meminfo::kib_of;

/// One process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// It has ended, with all its threads: its parent has not waited for it yet.
    pub is_over: bool,
    /// Resident memory, kB; none if it has ended.
    pub rss_kib: Option<f64>,
}

/// Process `id` and then its descendants, from the list in `proc`. Nothing if there is no such
/// process, and off Linux.
pub fn of(proc: &Path, id: u32) -> Vec<Process> {
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    let mut first = None;
    for entry in std::fs::read_dir(proc).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some((process, parent)) = read(proc, number) else { continue };
        if number == id {
            first = Some(process);
        } else {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = Vec::from_iter(first);
    let mut at = 0;
    while let Some(process) = found.get(at) {
        // Removed: process numbers are used again, and a list that changes meanwhile must not
        // become an endless loop.
        found.extend(children.remove(&process.id).into_iter().flatten());
        at += 1;
    }
    found
}

/// Whether process `id` has ended, or was never there.
pub fn is_over(proc: &Path, id: u32) -> bool {
    read(proc, id).is_none_or(|(process, _)| process.is_over)
}

/// A process and its parent's number; none if it has ended since it was listed.
fn read(proc: &Path, id: u32) -> Option<(Process, u32)> {
    let status = std::fs::read_to_string(proc.join(id.to_string()).join("status")).ok()?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    // A first thread that has ended shows as a zombie while others are still held by a driver.
    let threads = field("Threads").and_then(|threads| threads.parse::<usize>().ok());
    let is_over =
        field("State").is_some_and(|state| state.starts_with(['Z', 'X'])) && threads <= Some(1);
    let parent = field("PPid")?.parse().ok()?;
    Some((Process { id, is_over, rss_kib: kib_of(&status, "VmRSS") }, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_children_are_found_and_strangers_are_not() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: u32, parent: u32, state: &str| {
            let dir = proc.path().join(pid.to_string());
            std::fs::create_dir(&dir).unwrap();
            let text = format!("Name:\tx\nState:\t{state}\nPPid:\t{parent}\n");
            std::fs::write(dir.join("status"), text).unwrap();
        };
        process(10, 1, "S (sleeping)\nThreads:\t2");
        process(11, 10, "D (disk sleep)");
        process(12, 11, "Z (zombie)\nThreads:\t1");
        process(13, 1, "R (running)");
        // Held by a driver in its second thread.
        process(14, 10, "Z (zombie)\nThreads:\t2");
        std::fs::create_dir(proc.path().join("bus")).unwrap();
        let mut found: Vec<(u32, bool)> =
            of(proc.path(), 10).iter().map(|process| (process.id, process.is_over)).collect();
        assert_eq!(found[0], (10, false));
        found.sort_unstable();
        assert_eq!(found, [(10, false), (11, false), (12, true), (14, false)]);
        assert_eq!(of(proc.path(), 99), []);
        assert!(is_over(proc.path(), 12) && is_over(proc.path(), 99));
        assert!(!is_over(proc.path(), 14));
    }

    #[test]
    fn a_listing_that_goes_round_ends() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, parent) in [(20, 21), (21, 20)] {
            let dir = proc.path().join(pid.to_string());
            std::fs::create_dir(&dir).unwrap();
            std::fs::write(dir.join("status"), format!("PPid:\t{parent}\n")).unwrap();
        }
        assert_eq!(of(proc.path(), 20).len(), 2);
    }
}
