//! The same ranges as Nsight Systems records and exports them.
//!
//! Looks for nsys in NSYS_CMD, on the PATH and in target/nsys; it needs no GPU.

use std::path::PathBuf;
use std::process::Command;

use super::nest::{Ranges, assert_frames};
use crate::support::{bench, synth};

/// Prints begin and end of every range of the domain in the order of time; of two at the same nanosecond, ends come
/// first, and of two that begin together the longer one.
const READ: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
rows = db.execute("""
    SELECT e.start, e.end, e.globalTid, s.value FROM NVTX_EVENTS e
    JOIN StringIds s ON s.id = e.textId
    WHERE e.end IS NOT NULL AND e.domainId IN (SELECT domainId FROM NVTX_EVENTS WHERE eventType = 75 AND text = 'segtrt')
""").fetchall()
events = [(start, 1, -end, f"push {thread} {name}") for start, end, thread, name in rows]
events += [(end, 0, -start, f"pop {thread} {name}") for start, end, thread, name in rows]
print("\n".join(line for *_, line in sorted(events)))
"#;

/// A command that runs; none, said aloud, where nsys is not installed.
fn nsys() -> Option<PathBuf> {
    let named = std::env::var_os("NSYS_CMD").map(PathBuf::from);
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/nsys/nsys");
    let runs = |nsys: &PathBuf| {
        let run = Command::new(nsys).arg("--version").output();
        run.is_ok_and(|run| run.status.success())
    };
    if let Some(nsys) = named {
        assert!(runs(&nsys), "NSYS_CMD={} does not run", nsys.display());
        return Some(nsys);
    }
    let found = ["nsys".into(), fetched].into_iter().find(runs);
    if found.is_none() {
        eprintln!(
            "SKIPPED: no nsys; name one with NSYS_CMD, or unpack one into target/nsys, to see the ranges in its export"
        );
    }
    found
}

#[test]
fn nsight_systems_exports_the_same_frames() {
    let Some(nsys) = nsys() else { return };
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 9);
    let measured = bench(&split, &dir.path().join("out"));
    let report = dir.path().join("report");
    let profile = Command::new(nsys)
        .args(["profile", "-t", "nvtx", "--sample=none", "--cpuctxsw=none", "--export=sqlite"])
        .arg("-o")
        .arg(&report)
        .arg(measured.get_program())
        .args(measured.get_args())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&profile.stderr);
    assert!(profile.status.success(), "{said}");
    let read = Command::new("python3")
        .args(["-c", READ])
        .arg(report.with_extension("sqlite"))
        .output()
        .expect("python3 is part of what the tests need");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let events = String::from_utf8(read.stdout).unwrap();
    let mut ranges = Ranges::default();
    for line in events.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["push", thread, name] => ranges.push(thread, name),
            ["pop", thread, _] => ranges.pop(thread),
            _ => panic!("{line}"),
        }
    }
    assert_frames(&ranges.finish(), 9, 1);
}
