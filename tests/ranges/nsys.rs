//! The same ranges as Nsight Systems records and exports them; it needs no GPU.

use std::process::Command;

use super::nest::{Ranges, assert_frames};
use crate::support::{bench, nsys, synth};

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
    let trace = report::nsys::read(&report.with_extension("sqlite")).unwrap();
    // Of two moments at the same nanosecond, ends come first, and of two ranges that begin together
    // the longer one.
    let mut moments = Vec::new();
    for range in &trace.ranges {
        let name = trace.text(range.name).strip_prefix("segtrt:");
        let name = name.unwrap_or_else(|| panic!("a range of another domain: {range:?}"));
        moments.push(((range.start, 1, -range.end), range.thread.to_string(), Some(name)));
        moments.push(((range.end, 0, -range.start), range.thread.to_string(), None));
    }
    moments.sort();
    let mut ranges = Ranges::default();
    for (_, thread, begun) in &moments {
        match begun {
            Some(name) => ranges.push(thread, name),
            None => ranges.pop(thread),
        }
    }
    assert_frames(&ranges.finish(), 0, 9, 1);
}
