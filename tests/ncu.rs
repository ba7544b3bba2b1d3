//! `segtrt ncu` with a program in place of ncu.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use predicates::str::contains;

use crate::support::segtrt;

/// A script that writes `text` to the file after `--log-file`, and its arguments beside itself.
fn ncu(dir: &Path, text: &str, code: i32) -> PathBuf {
    let (path, log) = (dir.join("ncu"), dir.join("log.txt"));
    fs::write(&log, text).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$@\" >'{0}/arguments'\nwhile [ $# -gt 0 ]; do\n  [ \"$1\" = --log-file ] && \
         cp '{1}' \"$2\"\n  shift\ndone\necho speeds of the program\nexit {code}\n",
        dir.display(),
        log.display()
    );
    // Another process writes the script: a file that this one has open for writing cannot be run.
    let write = "printf '%s' \"$1\" >\"$0\" && chmod +x \"$0\"";
    let status = Command::new("sh").args(["-c", write]).arg(&path).arg(script).status().unwrap();
    assert!(status.success());
    path
}

/// The raw page of one launch.
pub const RAW: &str = "==PROF== Connected to process 7\n\
    \"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"dram__bytes.sum\"\n\
    \"\",\"\",\"ns\",\"byte\"\n\"0\",\"attend\",\"2500\",\"n/a\"\n";

#[test]
fn kernels_are_measured_and_refusals_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let run = |text: &str, code: i32| {
        let mut command = segtrt();
        command.env("NCU_CMD", ncu(dir.path(), text, code));
        command.args(["ncu", "--launches", "9", "--", "selftest", "--kernels"]);
        command.assert()
    };
    run(RAW, 0).success().stdout(contains("attend")).stdout(contains("speeds").count(0));
    let arguments = fs::read_to_string(dir.path().join("arguments")).unwrap();
    for part in ["--csv --page raw", "regex:^(", "|mask_", "--launch-count 9", "selftest --kernels"]
    {
        assert!(arguments.contains(part), "{part}: {arguments}");
    }
    let refused = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n";
    run(refused, 1).code(1).stderr(contains("the driver refuses the GPU's counters to this user"));
    run("==ERROR== Nsight Compute failed to connect\n", 1)
        .code(1)
        .stderr(contains("Nsight Compute failed to connect"));
    run("==WARNING== No kernels were profiled.\n", 0).code(1).stderr(contains("no table of ncu"));
    let file = dir.path().join("raw.csv");
    fs::write(&file, RAW).unwrap();
    let output = segtrt().arg("ncu").arg(&file).arg("--json").output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["ncu_kernels"][0]["Med Time (ns)"], 2500.0);
    assert!(document["ncu_kernels"][0]["DRAM (B)"].is_null());
    segtrt()
        .args(["ncu", "--", "doctor"])
        .env("NCU_CMD", dir.path().join("none"))
        .assert()
        .code(1)
        .stderr(contains("none is no file; name the program ncu"));
    segtrt().arg("ncu").assert().code(2);
}
