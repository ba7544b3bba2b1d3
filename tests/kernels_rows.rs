//! The self-test of the kernels while it runs, on the stand-in driver: rows and lines as they come,
//! modules that are loaded once.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::selftest::fakes::shared;
use crate::support::column;

/// A self-test of these topics' cases of so many elements at most.
fn selftest(stand_ins: &Path, csv: &Path, topics: &str, elements: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("segtrt"));
    command.env("LD_LIBRARY_PATH", stand_ins).env("SEGTRT_NVJPEG_LIB", stand_ins);
    command.env("SEGTRT_CUBLASLT_LIB", stand_ins).env_remove("RUST_LOG");
    command.args(["selftest", "--kernels", "--runs", "1", "--warmup", "0", "--topics", topics]);
    command.args(["--max-elements", elements]).arg("--csv").arg(csv);
    command
}

/// Hours of a lent machine were lost with a file that was only written at the end.
#[test]
fn a_test_that_is_killed_leaves_the_rows_that_were_judged() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("kernels.csv");
    std::fs::write(&csv, "of an earlier test, which is much longer than the header\n".repeat(99))
        .unwrap();
    let mut command = selftest(fakes.dir(), &csv, "mask,bank,attention,mask-decoder", "40000");
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    let lines = || std::fs::read_to_string(&csv).unwrap().lines().count();
    while !std::fs::read_to_string(&csv).unwrap().starts_with("kernel,") || lines() < 4 {
        assert!(Instant::now() < deadline && running.try_wait().unwrap().is_none(), "no rows came");
        std::thread::sleep(Duration::from_millis(2));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let verdicts = column(&csv, "verdict");
    assert!(
        verdicts.len() >= 3 && verdicts.iter().all(|verdict| verdict == "passed"),
        "{verdicts:?}"
    );
    assert!(column(&csv, "device").iter().all(|device| device == "NVIDIA H200"));
}

/// Where nobody looks at a terminal, a line for each kind of cases says how many are done.
#[test]
fn each_kind_of_cases_has_its_line_and_the_rows_are_all_there() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("kernels.csv");
    let output =
        selftest(fakes.dir(), &csv, "mask,bank,memory-key-proj", "40000").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let kernels = column(&csv, "kernel");
    let of = |names: &str| kernels.iter().filter(|kernel| kernel.starts_with(names)).count();
    for (topic, rows) in [
        ("masks", of("mask")),
        ("the memory bank", of("bank")),
        ("the memory attention's keys", of("memory_key_proj")),
    ] {
        let line = format!("\n{topic}: {rows} of {rows} cases, 0 failed, ");
        assert!(rows > 0 && said.contains(&line), "{line} is not in: {said}");
    }
    let file = dir.path().join("no/such/folder.csv");
    let output = selftest(fakes.dir(), &file, "bank", "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("folder.csv") && !said.contains("testing the kernels"), "{said}");
}

/// Without its cache a driver compiles a module each time that it is loaded, some of them for minutes.
#[test]
fn a_module_is_loaded_once() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (csv, log) = (dir.path().join("kernels.csv"), dir.path().join("log"));
    let mut command =
        selftest(fakes.dir(), &csv, "attention,mask-decoder,memory-encoder,hiera", "2500");
    let output = command.env("FAKE_CUDA_LOG", &log).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(&log).unwrap();
    // Each has a length of its own.
    let mut loaded: Vec<&str> = log.lines().filter(|line| line.starts_with("module ")).collect();
    let all = loaded.len();
    loaded.sort_unstable();
    loaded.dedup();
    assert!(loaded.len() > 12 && loaded.len() == all, "{all} loads of {} modules", loaded.len());
}
