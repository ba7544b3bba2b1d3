//! NVTX ranges of a bench on the CPU: what a tool hears, what Nsight Systems exports, what a broken
//! tool costs.

mod nest;
mod nsys;

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{bench, synth};
use nest::{Ranges, assert_frames};

/// The tool of `tests/data/nvtx/recorder.c`; none, said aloud, where there is no compiler.
fn recorder(dir: &Path) -> Option<PathBuf> {
    let library = dir.join("librecorder.so");
    crate::selftest::fakes::compile("CC", "cc", &["tests/data/nvtx/recorder.c"], &library)?;
    Some(library)
}

#[test]
fn a_tool_hears_one_range_a_frame_and_one_a_stage_inside_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = recorder(dir.path()) else { return };
    let split = synth(dir.path(), 1, 2, 7);
    let log = dir.path().join("log");
    bench(&split, &dir.path().join("out"))
        .args(["--warmup-runs", "1", "--profile-runs", "2"])
        .env("NVTX_INJECTION64_PATH", &library)
        .env("RECORDER_LOG", &log)
        .assert()
        .success();
    let log = fs::read_to_string(log).unwrap();
    let domains: Vec<_> = log.lines().filter(|line| line.starts_with("domain ")).collect();
    assert_eq!(domains, ["domain segtrt"], "one domain, made once");
    let names = log.lines().filter(|line| line.starts_with("name ")).count();
    assert_eq!(names, 12, "every name is registered once:\n{log}");
    assert!(!log.contains("UNSOUND") && !log.contains("foreign"), "{log}");

    let mut ranges = Ranges::default();
    for line in log.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["push", thread, name] => ranges.push(thread, name),
            ["pop", thread, _] => ranges.pop(thread),
            _ => {}
        }
    }
    // Two objects, each with a warm-up pass and two recorded ones over seven frames.
    assert_frames(&ranges.finish(), 2, 2 * 3 * 7, 2 * 3);
}

#[test]
fn a_tool_that_cannot_be_loaded_is_told_of_and_costs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let missing = dir.path().join("no_such_tool.so");
    bench(&split, &dir.path().join("out"))
        .env("NVTX_INJECTION64_PATH", &missing)
        .assert()
        .success()
        .stderr(predicates::str::contains("no NVTX ranges: NVTX_INJECTION64_PATH="))
        .stderr(predicates::str::contains("no_such_tool.so"));
}

#[test]
fn a_tool_that_does_not_want_to_listen_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = recorder(dir.path()) else { return };
    let split = synth(dir.path(), 1, 1, 3);
    bench(&split, &dir.path().join("out"))
        .env("NVTX_INJECTION64_PATH", &library)
        .env_remove("RECORDER_LOG")
        .assert()
        .success()
        .stderr(predicates::str::contains("the tool does not want to listen"));
}
