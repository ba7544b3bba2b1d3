//! Reports of real runs, where nsys is there.

use std::process::Command;

use predicates::str::contains;

use super::json;
use crate::support::{bench, nsys, segtrt, synth};

#[test]
fn a_real_report_is_exported_and_read() {
    let Some(nsys) = nsys() else { return };
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 9);
    let measured = bench(&split, &dir.path().join("out"));
    let report = dir.path().join("report.nsys-rep");
    let profile = Command::new(&nsys)
        .args(["profile", "--trace=nvtx", "--sample=none", "--cpuctxsw=none", "--output"])
        .arg(&report)
        .arg(measured.get_program())
        .args(measured.get_args())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(profile.status.success(), "{}", String::from_utf8_lossy(&profile.stderr));
    let output = segtrt()
        .args(["nsys", report.to_str().unwrap(), "--json"])
        .env("NSYS_CMD", &nsys)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let ranges = document["reports"][0]["tables"]["nvtx_sum"].as_array().unwrap();
    let count = |name: &str| {
        let row =
            ranges.iter().find(|row| row["Range"] == name).unwrap_or_else(|| panic!("no {name}"));
        row["Instances"].as_i64().unwrap()
    };
    assert_eq!(
        [count("segtrt:pipeline"), count("segtrt:prompt"), count("segtrt:track")],
        [9, 1, 8]
    );
    assert_eq!(document["reports"][0]["findings"]["cpu"]["outer"]["name"], "segtrt:pipeline");
    assert!(!dir.path().join("report.sqlite").exists(), "the export is not left behind");
}

#[test]
fn the_report_of_a_program_that_did_nothing_is_refused() {
    let Some(nsys) = nsys() else { return };
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    let profile = Command::new(&nsys)
        .args([
            "profile",
            "--trace=nvtx",
            "--sample=none",
            "--cpuctxsw=none",
            "--export=sqlite",
            "--output",
        ])
        .arg(&report)
        .args(["sh", "-c", "echo no engine here >&2; exit 7"])
        .output()
        .unwrap();
    assert_eq!(profile.status.code(), Some(7));
    segtrt()
        .arg("nsys")
        .arg(report.with_extension("sqlite"))
        .assert()
        .code(1)
        .stderr(contains("failed before (it wrote: no engine here)"));
    let document = json(&[report.with_extension("sqlite").to_str().unwrap()], 1);
    assert_eq!(document["reports"], serde_json::json!([]));
}
