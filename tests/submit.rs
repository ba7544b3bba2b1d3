//! `segtrt submit`: results of a board, whole and damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use predicates::prelude::*;
use predicates::str::contains;

use crate::support::segtrt;

const HEADER: &str = "video,object,model,imgsz,precision,frames,fps,JandF,status,reason,backend,device,latency_p50_ms,fidelity,power_w,verdict,verdict_reason";

/// Results as run.sh leaves them, with two rows of one model.
struct Results<D: AsRef<Path>> {
    dir: D,
}

/// Whole results and their archive in a folder.
pub fn whole(into: &Path) {
    let results = Results::in_folder(into);
    results.sums();
    results.tar();
}

impl Results<tempfile::TempDir> {
    fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap())
    }
}

impl<D: AsRef<Path>> Results<D> {
    fn in_folder(dir: D) -> Self {
        let results = Self { dir };
        results.rows("mem7/ptr16/1024/pil13-bicubic/noskip/nofill", "VALID,");
        results.write(
            "bench/sidecar.json",
            r#"{"environment": {"system": "Ubuntu 22.04", "gpu": {"power_mode": "pmode:0000"}}}"#,
        );
        for step in ["build-engines", "selftest", "bench"] {
            results.write(&format!("{step}.status"), "0\n");
        }
        results.write("sums.log", "run.sh: OK\nonnx/x.onnx: OK\n");
        results
    }

    fn rows(&self, fidelity: &str, verdict: &str) {
        let row = |object: &str, frames: usize, fps: f64, verdict: &str| {
            format!(
                "dog,{object},edgetam_points,1024,fp16,{frames},{fps},0.8,ok,,tensorrt 10.3.0 \
                 fp16 segmented,Orin,{},{fidelity},20.5,{verdict}\n",
                1000.0 / fps
            )
        };
        let text = format!(
            "{HEADER}\n{}{}",
            row("000", 100, 50.0, "VALID,"),
            row("001", 50, 25.0, verdict)
        );
        self.write("bench/sav_benchmark_summary.csv", &text);
    }

    fn folder(&self) -> PathBuf {
        self.dir.as_ref().join("results")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Sums as run.sh writes them.
    fn sums(&self) {
        let list = "find . -type f ! -name SHA256SUMS -exec sha256sum {} + >../sums && mv ../sums SHA256SUMS";
        assert!(
            Command::new("sh")
                .args(["-c", list])
                .current_dir(self.folder())
                .status()
                .unwrap()
                .success()
        );
    }

    fn tar(&self) -> PathBuf {
        let tar = self.dir.as_ref().join("results.tar");
        let mut command = Command::new("tar");
        command.arg("cf").arg(&tar).arg("-C").arg(self.dir.as_ref()).arg("results");
        assert!(command.status().unwrap().success());
        tar
    }
}

fn submit(path: &Path) -> assert_cmd::assert::Assert {
    segtrt().arg("submit").arg(path).assert()
}

/// Damages the results of a board.
type Damage = fn(&Results<tempfile::TempDir>);

#[test]
fn whole_results_give_the_row_of_the_board() {
    let results = Results::new();
    results.sums();
    // 150 frames in 4 s.
    let row = "| Orin (pmode:0000) | tensorrt 10.3.0, Ubuntu 22.04 | edgetam_points | 1024 | fp16 \
               | 37.5 | 30.00 | 80.0 | 20.5 | 2 of 2 |";
    let tar = results.tar();
    submit(&tar).success().stdout(contains(row).and(contains("FAILED").not()));
    submit(&results.folder()).success().stdout(contains(row));
    assert!(Command::new("gzip").arg(&tar).status().unwrap().success());
    let output =
        segtrt().args(["submit", "--json"]).arg(tar.with_extension("tar.gz")).assert().success();
    let json: serde_json::Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    assert_eq!((&json["passed"], &json["rows"][0]["valid"]), (&true.into(), &2.into()));
}

#[test]
fn what_speaks_against_the_rows_is_named() {
    let cases: [(Damage, &str); 6] = [
        (
            |results| results.write("selftest.log", "later\n"),
            "FAILED   files     selftest.log was added",
        ),
        (
            |results| results.write("bench/sidecar.json", "{}"),
            "FAILED   files     bench/sidecar.json was changed",
        ),
        (
            |results| fs::remove_file(results.folder().join("SHA256SUMS")).unwrap(),
            "FAILED   files     no SHA256SUMS",
        ),
        (
            |results| results.write("selftest.status", "1\n"),
            "FAILED   steps     selftest ended with 1; see selftest.log",
        ),
        (
            |results| {
                results.rows(
                    "mem7/ptr16/1024/pil13-bicubic/noskip/nofill",
                    "INVALID,throttled: too hot",
                )
            },
            "FAILED   verdicts  edgetam_points dog 001 is INVALID: throttled: too hot",
        ),
        (
            |results| results.rows("mem7/ptr16/1024/pil13-bicubic-nvjpeg/noskip/nofill", "VALID,"),
            "FAILED   fidelity  found mem7/ptr16/1024/pil13-bicubic-nvjpeg/noskip/nofill, expected mem7/",
        ),
    ];
    for (damage, expected) in cases {
        let results = Results::new();
        results.sums();
        damage(&results);
        submit(&results.tar())
            .code(1)
            .stdout(contains(expected).and(contains("The rows are no result yet")));
    }
    let results = Results::new();
    results.write("sums.log", "onnx/x.onnx: FAILED\n");
    fs::remove_dir_all(results.folder().join("bench")).unwrap();
    results.sums();
    submit(&results.tar()).code(1).stdout(contains("FAILED   pack      onnx/x.onnx: FAILED").and(
        contains(
            "FAILED   rows      nothing was measured: cannot read bench/sav_benchmark_summary.csv",
        ),
    ));
}

#[test]
fn an_archive_that_is_none_or_leads_out_is_refused() {
    let results = Results::new();
    let text = results.dir.path().join("text.tar");
    fs::write(&text, "no archive").unwrap();
    submit(&text).code(1).stderr(contains("text.tar cannot be unpacked; expected results.tar"));
    submit(Path::new("/nonexistent/results.tar"))
        .code(1)
        .stderr(contains("cannot read /nonexistent/results.tar"));
    std::os::unix::fs::symlink("/etc", results.folder().join("out")).unwrap();
    submit(&results.tar())
        .code(1)
        .stderr(contains("results/out: found a link or a path that leads out"));
}
