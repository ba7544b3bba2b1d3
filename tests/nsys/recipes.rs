//! Kernels one by one, utilisation over time, copies by kind of memory, ranges of platforms.

use std::fs;

use predicates::str::contains;
use serde_json::{Value, json};

use super::json;
use super::made::{Made, copies, frames};
use crate::support::segtrt;

fn cells(table: &Value, columns: &[&str]) -> Vec<Value> {
    let rows = table.as_array().unwrap().iter();
    rows.map(|row| columns.iter().map(|column| row[*column].clone()).collect()).collect()
}

#[test]
fn kernels_copies_and_utilisation_are_computed_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    frames(&path);
    let out = dir.path().join("tables");
    let args = [path.to_str().unwrap(), "--csv", out.to_str().unwrap()];
    let tables = &json(&args, 0)["reports"][0]["tables"];
    // `encode` lasts 500, 4 x 100 and 700 ns; it starts at 1150, 3200, 3700, 4050, 5200, 6200.
    let hist = &tables["cuda_gpu_kern_hist"][0];
    assert_eq!(hist["Bin Width (ns)"], 30.0);
    let bins: Vec<f64> = serde_json::from_value(hist["Bin"].clone()).unwrap();
    assert_eq!((bins.len(), bins[0], bins[13], bins[19]), (20, 4.0, 1.0, 1.0));
    let columns = ["Name", "Intervals", "Med (ns)", "Min (ns)", "Max (ns)", "Longest At (ns)"];
    assert_eq!(
        cells(&tables["cuda_gpu_kern_pace"], &columns),
        [json!(["encode(int)", 5, 1000.0, 350, 2050, 1150])]
    );
    // From 1150 to 6900 in 60 bins.
    let map = &tables["cuda_gpu_time_util_map"];
    assert_eq!(
        cells(map, &["Work", "Start (ns)"]),
        [json!(["kernels", 1150]), json!(["memory", 1150])]
    );
    let mean = map[0]["Utilisation (%)"].as_f64().unwrap();
    assert!((mean - 100.0 * 1800.0 / 5750.0).abs() < 1e-9, "{mean}");
    let csv = fs::read_to_string(out.join("cuda_gpu_kern_hist.csv")).unwrap();
    let header = csv.lines().next().unwrap();
    assert!(header.starts_with("Instances,Min (ns),") && header.contains("Bin 1,Bin 2,"), "{csv}");
    assert!(header.ends_with("Bin 20,Name"), "{header}");
    for name in ["nvtx_box", "nvtx_outliers", "cuda_memcpy_async", "cuda_memset_sync"] {
        assert!(out.join(format!("{name}.csv")).is_file(), "{name}");
    }
}

#[test]
fn copies_are_told_apart_by_memory_and_function() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    copies(&path);
    let tables = &json(&[path.to_str().unwrap(), "--report", "copies"], 0)["reports"][0]["tables"];
    let columns =
        ["Src Kind", "Dst Kind", "API Name", "Count", "Total Time (ns)", "Host Time (ns)"];
    assert_eq!(
        cells(&tables["cuda_memcpy_sync"], &columns),
        [
            json!(["Pinned", "Device", "cudaMemcpy", 1, 100, 120]),
            json!(["Device", "Pageable", "cudaMemcpy", 1, 45, 60])
        ]
    );
    assert_eq!(
        cells(&tables["cuda_memcpy_async"], &columns)[..2],
        [
            json!(["Pageable", "Device", "cudaMemcpyAsync", 1, 100, 10]),
            json!(["Pinned", "Device", "cudaMemcpyAsync", 1, 50, 10])
        ]
    );
    assert_eq!(
        cells(&tables["cuda_memset_sync"], &["Memory Kind", "API Name", "Total (B)"]),
        [json!(["Managed", "cudaMemset", 8192])]
    );
    segtrt().arg("nsys").arg(&path).assert().success().stdout(contains(
        "asynchronous copies of pageable memory: 1, 100 ns on the GPU; they block the host",
    ));
}

/// Twelve frames, the sixth three times as long.
fn recording(path: &std::path::Path, scale: i64) {
    let mut made = Made::new(path);
    made.domain();
    for frame in 0..12 {
        let (at, long) = (10_000 * frame, if frame == 5 { 3 } else { 1 });
        made.range("pipeline", at, at + scale * (100 + frame) * long + 9);
        made.range("track", at + 1, at + scale * (100 + frame) * long);
    }
}

#[test]
fn platforms_stand_side_by_side_and_outliers_name_their_frame() {
    let dir = tempfile::tempdir().unwrap();
    for (folder, scale) in [("desk", 1), ("board", 9)] {
        fs::create_dir(dir.path().join(folder)).unwrap();
        for clip in ["sav_1_obj0", "sav_2_obj0"] {
            recording(&dir.path().join(folder).join(format!("{clip}.sqlite")), scale);
        }
    }
    let place = |name: &str, folder: &str| format!("{name}={}", dir.path().join(folder).display());
    let (desk, board) = (place("RTX 3090", "desk"), place("Orin", "board"));
    let document = json(&[&desk, &board, "--report", "boxes"], 0);
    let platforms = document["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), 2);
    let board_of = platforms.iter().find(|one| one["platform"] == "Orin").unwrap();
    assert_eq!(board_of["reports"].as_array().unwrap().len(), 2);
    let boxes = cells(&board_of["tables"]["nvtx_box"], &["Range", "Instances", "Outliers"]);
    assert_eq!(boxes[0], json!(["segtrt:pipeline", 24, 2]));
    let outlier = &board_of["tables"]["nvtx_outliers"][0];
    assert_eq!((&outlier["Frame"], outlier["Range"].as_str()), (&json!(5), Some("segtrt:track")));
    assert!(outlier["In"].as_str().unwrap().contains("sav_"), "{outlier}");
    let output = segtrt().args(["nsys", &desk, &board, "--report", "boxes"]).output().unwrap();
    let screen = String::from_utf8(output.stdout).unwrap();
    let title = screen.find("Platforms: Ranges as boxes: Med").expect(&screen);
    let header = screen[title..].lines().find(|line| line.contains("Range, On")).unwrap();
    assert!(header.contains("RTX 3090") && header.contains("Orin"), "{header}");

    let page = dir.path().join("page.html");
    segtrt()
        .args(["report", "--nsys", &desk, "--nsys", &board, "-o", page.to_str().unwrap()])
        .assert()
        .success();
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("Ranges on the CPU") && page.contains("frame 5, sav_1"), "no boxes");
    assert!(page.contains("Outliers of ranges, Orin: 4 of 4"), "no table");
    let none = dir.path().join("none.html");
    fs::write(dir.path().join("x.sqlite"), "video,fps").unwrap();
    segtrt()
        .args(["report", "-o", none.to_str().unwrap(), "--nsys"])
        .arg(dir.path().join("x.sqlite"))
        .assert()
        .code(1)
        .stderr(contains("x.sqlite is not an SQLite file"));
}
