//! Several reports: side by side, the fastest, and a difference.

use std::fs;
use std::path::{Path, PathBuf};

use predicates::str::contains;
use serde_json::json;

use super::json;
use super::made::{MAIN, Made};
use crate::support::segtrt;

/// A report of two frames that take `scale` times as long on the GPU.
fn report(folder: &Path, name: &str, scale: i64) -> PathBuf {
    let path = folder.join(name);
    let mut made = Made::new(&path);
    made.domain();
    for frame in 0..2 {
        let (at, number) = (frame * 100_000, frame * 10);
        made.range("pipeline", at, at + 1000);
        made.range("encoder", at + 100, at + 200);
        made.range("track", at + 300, at + 400);
        made.call("cudaLaunchKernel_v7000", at + 110, at + 120, number + 1, MAIN);
        made.kernel("encode", at + 500, at + 500 + 100 * scale, number + 1);
        made.call("cudaLaunchKernel_v7000", at + 310, at + 320, number + 2, MAIN);
        made.kernel("attend", at + 500 + 100 * scale, at + 500 + 400 * scale, number + 2);
    }
    if scale == 1 {
        made.kernel("only_here", 50_000, 50_010, 99);
    }
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn reports_stand_side_by_side_and_the_fastest_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (name, scale) in [("bs16.sqlite", 2), ("bs1.sqlite", 4), ("bs2.sqlite", 1)] {
        report(dir.path(), name, scale);
    }
    let out = dir.path().join("tables");
    let output = segtrt()
        .args(["nsys", text(dir.path()), "--report", "nvtx,kernels", "--csv", text(&out)])
        .output()
        .unwrap();
    let screen = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{screen}");
    let header = screen.lines().find(|line| line.contains("bs16")).unwrap();
    let places = ["bs1 ", "bs2 ", "bs16"].map(|label| header.find(label).unwrap());
    assert!(places.is_sorted(), "numbers sort as numbers: {header}");
    let row = screen.lines().find(|line| line.contains("segtrt:pipeline, PushPop")).unwrap();
    let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells, ["segtrt:pipeline, PushPop", "1.600 µs", "400 ns", "800 ns"], "{screen}");
    assert!(
        screen.contains(
            "fastest configuration on the GPU: bs2 (segtrt:pipeline 400 ns on average), 4.00 times \
             as fast as bs1 (1.600 µs)"
        ),
        "{screen}"
    );
    assert!(
        screen.contains("bs16: slowest stage on the GPU: segtrt:track, 600 ns on average, 75 %"),
        "{screen}"
    );
    let kernels = fs::read_to_string(out.join("cuda_gpu_kern_sum.csv")).unwrap();
    let lines: Vec<&str> = kernels.lines().collect();
    assert!(lines[0].starts_with("Report,Time (%),Total Time (ns),Instances"), "{kernels}");
    assert!(lines[1].starts_with("bs1,75.00,2400,2,1200.0"), "{kernels}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("bs2,")).count(), 3, "{kernels}");

    let document = json(&[text(dir.path())], 0);
    assert_eq!(document["fastest"]["by"], "gpu");
    assert_eq!(document["fastest"]["order"][0], json!(["bs2", 400.0]));
    assert_eq!(document["reports"].as_array().unwrap().len(), 3);
}

#[test]
fn one_bad_report_does_not_cost_the_others_and_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (report(dir.path(), "a.sqlite", 1), report(dir.path(), "b.sqlite", 2));
    let cut = dir.path().join("cut.sqlite");
    let whole = fs::read(&a).unwrap();
    fs::write(&cut, &whole[..whole.len() / 3]).unwrap();
    segtrt()
        .args(["nsys", text(&a), text(&cut), text(&b)])
        .assert()
        .code(1)
        .stdout(contains("fastest configuration on the GPU: a "))
        .stderr(contains("cut.sqlite is truncated"));
    let document = json(&[text(&a), text(&cut)], 1);
    assert!(
        document["failed"][0]["error"].as_str().unwrap().contains(
            "is \
        truncated"
        ),
        "{document}"
    );
    assert_eq!(document["reports"][0]["label"], "a");
}

#[test]
fn a_report_of_a_failed_program_is_never_the_fastest() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (report(dir.path(), "a.sqlite", 4), report(dir.path(), "b.sqlite", 1));
    let connection = rusqlite::Connection::open(&b).unwrap();
    let sql =
        format!("UPDATE NVTX_EVENTS SET end = NULL WHERE start = 100000 AND globalTid = {MAIN}");
    connection.execute_batch(&sql).unwrap();
    drop(connection);
    segtrt()
        .args(["nsys", text(&a), text(&b)])
        .assert()
        .code(1)
        .stdout(contains("no fastest configuration: b is not a sound report"))
        .stderr(contains("b.sqlite: 1 ranges never ended (segtrt:pipeline)"));
}

#[test]
fn a_difference_shows_what_changed_and_what_is_in_one_only() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) =
        (report(dir.path(), "b_before.sqlite", 2), report(dir.path(), "a_after.sqlite", 1));
    let document = json(&["diff", text(&before), text(&after)], 0);
    let projected = &document["difference"]["nvtx_gpu_proj_sum"];
    assert_eq!(
        projected[0],
        json!({
            "Range, Style": "segtrt:pipeline, PushPop",
            "b_before Proj Avg (ns)": 800.0, "a_after Proj Avg (ns)": 400.0,
            "Change (ns)": -400.0, "Relative Change (%)": -50.0,
            "b_before Range Instances": 2, "a_after Range Instances": 2,
        })
    );
    let kernels = document["difference"]["cuda_gpu_kern_sum"].as_array().unwrap();
    let only = kernels.iter().find(|row| row["Name"] == "only_here(int)").unwrap();
    assert_eq!(only["b_before Total Time (ns)"], serde_json::Value::Null);
    assert_eq!(only["a_after Total Time (ns)"], 10);
    assert_eq!(only["Change (ns)"], serde_json::Value::Null);
    assert_eq!(document["fastest"]["order"][0][0], "a_after");

    let out = dir.path().join("diff");
    segtrt()
        .args([
            "nsys",
            "diff",
            text(&before),
            text(&after),
            "--report",
            "kernels",
            "--csv",
            text(&out),
        ])
        .assert()
        .success()
        .stdout(contains("Kernels: change"))
        .stdout(contains("-50.0"));
    assert!(
        fs::read_to_string(out.join("cuda_gpu_kern_sum.csv"))
            .unwrap()
            .contains("attend(int),1200,600,-600.0,-50.00,2,2")
    );
    segtrt().args(["nsys", "diff", text(&before)]).assert().code(2);
    segtrt().args(["nsys", "diff", text(&before), text(dir.path())]).assert().code(2);
}

#[test]
fn warm_up_passes_are_left_out_unless_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("warm.sqlite");
    let mut made = Made::new(&path);
    made.domain();
    made.range("warmup", 0, 1000);
    for (frame, slow) in [(0, 300), (2000, 100)] {
        made.range("pipeline", frame + 100, frame + 900);
        made.range("track", frame + 200, frame + 400);
        made.call("cudaLaunchKernel_v7000", frame + 210, frame + 220, frame + 1, MAIN);
        // Work of the warm-up that runs after it is the warm-up's still.
        made.kernel("attend", frame + 950, frame + 950 + slow, frame + 1);
    }
    drop(made);
    let document = json(&[text(&path)], 0);
    let report = &document["reports"][0];
    assert_eq!(report["tables"]["nvtx_gpu_proj_sum"][0]["Proj Max (ns)"], 100, "{report:#}");
    assert_eq!(report["tables"]["cuda_gpu_kern_sum"][0]["Instances"], 1);
    assert_eq!(report["tables"]["gpu_time_util"][0]["Busy Time (ns)"], 400, "include them");
    assert!(report["notes"][0].as_str().unwrap().starts_with("1 warm-up passes are omitted"));
    let all = json(&[text(&path), "--with-warmup"], 0);
    assert_eq!(all["reports"][0]["tables"]["cuda_gpu_kern_sum"][0]["Instances"], 2);
    let warm = json(&[text(&path), "--range", "warmup"], 0);
    assert_eq!(warm["reports"][0]["tables"]["cuda_gpu_kern_sum"][0]["Total Time (ns)"], 300);
    segtrt()
        .args(["nsys", text(&path), "--time", ":1us"])
        .assert()
        .code(1)
        .stderr(contains("only warm-up passes"));
}

#[test]
fn long_labels_become_letters_on_the_screen_only() {
    let dir = tempfile::tempdir().unwrap();
    let long = |name: &str| format!("sav_000001_obj000_sam2_tiny_points_{name}.sqlite");
    report(dir.path(), &long("run0"), 1);
    report(dir.path(), &long("run1"), 2);
    segtrt()
        .args(["nsys", text(dir.path()), "--report", "kernels"])
        .assert()
        .success()
        .stdout(predicates::str::is_match(" Name +A +B ").unwrap())
        .stdout(contains("B sav_000001_obj000_sam2_tiny_points_run1: slowest stage on the GPU"))
        .stdout(contains(
            "fastest configuration on the GPU: sav_000001_obj000_sam2_tiny_points_run0",
        ));
}
