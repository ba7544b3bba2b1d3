//! `segtrt monitor`, with and without a command.

use std::fs;
use std::path::Path;

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

use crate::selftest::fakes::compile;
use crate::support::{read_csv, segtrt};

const HEADER: &str =
    "timestamp,gpu_used_gb,gpu_total_gb,gpu_percent,ram_used_gb,ram_total_gb,ram_percent";

/// The log is what the predecessor writes: its header, line ends, decimals.
#[track_caller]
fn assert_log(path: &Path, least_samples: usize) -> Vec<Vec<f64>> {
    let text = fs::read_to_string(path).unwrap();
    assert!(!text.contains('\r') && text.ends_with('\n'), "{text:?}");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(HEADER));
    let decimals = [2, 3, 3, 2, 3, 3, 2];
    let rows: Vec<Vec<f64>> = lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let found: Vec<usize> =
                fields.iter().map(|field| field.split_once('.').unwrap().1.len()).collect();
            assert_eq!(found, decimals, "{line}");
            fields.iter().map(|field| field.parse().unwrap()).collect()
        })
        .collect();
    assert!(rows.len() >= least_samples, "{text}");
    assert!(rows.is_sorted_by(|a, b| a[0] < b[0]), "{text}");
    for row in &rows {
        assert!(row[4] > 0.0 && row[4] < row[5], "{text}");
        assert!((row[6] - 100.0 * row[4] / row[5]).abs() < 0.1, "{text}");
    }
    rows
}

#[test]
fn a_command_is_watched_to_its_end_and_its_exit_code_passed_on() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("memory.csv");
    segtrt()
        .args(["monitor", "--interval", "0.1", "--log"])
        .arg(&log)
        .args(["--", "sh", "-c", "echo its own words; sleep 0.5; exit 7"])
        .assert()
        .code(7)
        .stdout("its own words\n")
        .stderr(contains("Peak Usage").and(contains("RAM: ")).and(contains("Log saved to: ")));
    // No GPU here, or one whose numbers are its own business.
    assert_log(&log, 2);
    segtrt().args(["monitor", "--", "sh", "-c", "kill -9 $$"]).assert().code(128 + 9);
    segtrt().args(["monitor", "--", "true"]).assert().code(0);
}

#[test]
fn extra_columns_hold_the_commands_own_memory() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("memory.csv");
    segtrt()
        .args(["monitor", "--extra", "--json", "--interval", "0.05", "--log"])
        .arg(&log)
        .args(["--", "sh", "-c", "sleep 0.5; true"])
        .assert()
        .code(0)
        .stderr(contains("\"command_rss_gb\": 0.0"));
    let (header, rows) = read_csv(&log);
    assert!(header.join(",").starts_with(HEADER));
    assert_eq!(header.last().unwrap(), "command_rss_gb");
    assert_eq!(header.len(), 13);
    // The sample before the shell is there may lack it.
    assert!(rows.iter().any(|row| row[12].parse::<f64>().is_ok()), "{rows:?}");
    if let Ok(swap) = rows[0][7].parse::<f64>() {
        assert!(swap >= 0.0);
    }
}

#[test]
fn the_gpus_memory_is_read_from_nvml_and_zero_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("memory.csv");
    let watch = |library_path: &Path| {
        let mut command = segtrt();
        command.args([
            "monitor",
            "--device",
            "1",
            "--duration",
            "0.1",
            "--interval",
            "0.05",
            "--log",
        ]);
        command.arg(&log).env("LD_LIBRARY_PATH", library_path);
        command.assert().success()
    };
    let library = dir.path().join("libnvidia-ml.so.1");
    // The linker's path is looked at before the system's own folders, so a broken library hides a real one.
    fs::write(&library, "no library").unwrap();
    watch(dir.path()).stdout(contains("GPU not available: NVML does not open"));
    assert!(assert_log(&log, 1).iter().all(|row| row[1..4] == [0.0; 3]));

    fs::remove_file(&library).unwrap();
    if compile("CC", "cc", &["tests/data/gpu/fake_nvml.c", "-ldl"], &library).is_none() {
        return;
    }
    let gib = 1_u64 << 30;
    let conf = format!("memory_used {}\nmemory_total {}\n", 3 * gib / 2, 24 * gib);
    fs::write(dir.path().join("nvml.conf"), conf).unwrap();
    watch(dir.path()).stdout(contains("GPU: 1.50 GB of 24.00 (6.2 %)"));
    assert!(assert_log(&log, 1).iter().all(|row| row[1..4] == [1.5, 24.0, 6.25]));
}

#[test]
fn what_cannot_be_started_or_written_is_told() {
    let dir = tempfile::tempdir().unwrap();
    segtrt()
        .args(["monitor", "--", "no-such-program-7"])
        .assert()
        .code(1)
        .stderr(contains("cannot start no-such-program-7"));
    segtrt()
        .args(["monitor", "--duration", "0.1", "--log"])
        .arg(dir.path().join("no/such/log.csv"))
        .assert()
        .code(1)
        .stderr(contains("log.csv; name a file in a folder that is there"));
    for interval in ["0", "-1", "x", "nan"] {
        segtrt().args(["monitor", "--interval", interval]).assert().code(2);
    }
    segtrt()
        .args(["monitor", "--json"])
        .assert()
        .code(2)
        .stderr(contains("nothing would come of it"));
}
