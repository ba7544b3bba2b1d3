//! What is no report, what holds nothing, and what its program's failure looks like.

use std::fs;

use predicates::str::contains;

use super::made::{Made, frames};
use crate::support::segtrt;

fn refused(path: &std::path::Path, more: &[&str], sentence: &str) {
    segtrt()
        .arg("nsys")
        .arg(path)
        .args(more)
        .assert()
        .code(1)
        .stderr(contains(sentence))
        .stderr(contains("panicked").count(0));
}

#[test]
fn what_is_no_report_is_refused_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sqlite");
    segtrt().arg("nsys").assert().code(2);
    refused(&path, &[], "x.sqlite does not exist");
    refused(dir.path(), &[], "has no report");
    fs::write(&path, "video,object,model\n").unwrap();
    refused(&path, &[], "is not an SQLite file");
    fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE songs (name)").unwrap();
    refused(&path, &[], "is not an export of nsys: found songs");
    for args in [["--time", "2:1"], ["--report", "kernel"], ["--gap", "soon"], ["--top", "0"]] {
        segtrt().arg("nsys").arg(&path).args(args).assert().code(2);
    }
}

#[test]
fn a_report_that_cannot_be_exported_says_what_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.nsys-rep");
    fs::write(&path, "no report").unwrap();
    segtrt()
        .arg("nsys")
        .arg(&path)
        .env("NSYS_CMD", dir.path().join("no-nsys"))
        .assert()
        .code(1)
        .stderr(contains("x.nsys-rep must be exported to SQLite"))
        .stderr(contains("no-nsys does not run"))
        .stderr(contains("install Nsight Systems again"));
}

#[test]
fn a_damaged_page_in_the_middle_is_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sqlite");
    let mut made = frames(&path);
    for at in 0..4000 {
        made.range("pipeline", 10_000 + 10 * at, 10_005 + 10 * at);
    }
    drop(made);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    refused(&path, &[], "it is damaged");
}

#[test]
fn a_report_in_which_nothing_happened_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sqlite");
    let mut made = Made::new(&path);
    made.stderr("loading\nError: engines/h200 cannot be read\n");
    drop(made);
    refused(&path, &[], "has no NVTX range, no CUDA call and no GPU work");
    refused(&path, &[], "(it wrote: Error: engines/h200 cannot be read)");
    refused(&path, &["--json"], "");
}

#[test]
fn a_program_that_failed_halfway_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sqlite");
    let mut made = frames(&path);
    made.stderr(
        "[1/2] fine\nTraceback (most recent call last):\n  File \"x.py\"\nValueError: bad engine\n",
    );
    drop(made);
    refused(&path, &[], "the recorded program failed; it wrote: Traceback");
    let document = super::json(&[path.to_str().unwrap()], 1);
    assert!(
        document["reports"][0]["faults"][0].as_str().unwrap().contains("Traceback"),
        "{document}"
    );
}

#[test]
fn what_was_not_traced_is_said_and_refused_where_it_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sqlite");
    let mut made = Made::new(&path);
    made.domain();
    made.range("pipeline", 0, 100);
    made.sql(
        "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
         INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:COLLECT_CUDA_TRACE', 'false')",
    );
    drop(made);
    segtrt()
        .arg("nsys")
        .arg(&path)
        .assert()
        .success()
        .stdout(contains("Ranges on the CPU"))
        .stdout(contains("Ranges projected").count(0))
        .stdout(contains(
            "it has no work of a GPU and no calls of the CUDA API: CUDA was not traced; record \
             both with nsys profile",
        ))
        .stdout(contains("warm-up").count(0));
    refused(&path, &["--report", "kernels"], "it has no work of a GPU");
}

#[test]
fn another_schema_is_read_where_it_can_be_and_refused_where_it_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("old.sqlite");
    let made = Made::new(&old);
    // As releases before 2021 wrote it: no domain, no end thread, no process on kernels, names in
    // the table itself.
    made.sql(
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER);
         INSERT INTO NVTX_EVENTS VALUES (0, 100, 59, 'frame', 1677721601);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 20, 1677721601, 1, 7);
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, correlationId INTEGER, shortName INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (50, 80, 0, 1, 8);
         INSERT INTO StringIds VALUES (7, 'cudaLaunch_v3020'), (8, 'gemm');",
    );
    drop(made);
    let document = super::json(&[old.to_str().unwrap()], 0);
    let tables = &document["reports"][0]["tables"];
    assert_eq!(tables["nvtx_gpu_proj_sum"][0]["Range"], ":frame");
    assert_eq!(tables["nvtx_gpu_proj_sum"][0]["Total Proj Time (ns)"], 30);
    assert_eq!(tables["cuda_gpu_kern_sum"][0]["Name"], "gemm");

    let new = dir.path().join("new.sqlite");
    let made = Made::new(&new);
    made.sql("CREATE TABLE NVTX_EVENTS (begin INTEGER, finish INTEGER)");
    drop(made);
    refused(&new, &[], "the table NVTX_EVENTS has no column start; it has begin, finish");
    refused(&new, &[], "NVIDIA Nsight Systems 2023.4.4.54 (schema 3.7.2)");
}

/// A view is a query that whoever made the file wrote; this one has no end.
#[test]
fn a_view_without_end_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sqlite");
    drop(frames(&path));
    let connection = rusqlite::Connection::open(&path).unwrap();
    let view = "DROP TABLE StringIds; CREATE VIEW StringIds AS WITH RECURSIVE c(x) AS (SELECT 1 \
                UNION ALL SELECT x+1 FROM c) SELECT max(x) AS id, 'a' AS value FROM c;";
    connection.execute_batch(view).unwrap();
    segtrt()
        .arg("nsys")
        .arg(&path)
        .timeout(std::time::Duration::from_secs(20))
        .assert()
        .code(1)
        .stderr(contains(
            "x.sqlite: \"StringIds\" is a view; expected an export of nsys, which has only tables",
        ));
}
