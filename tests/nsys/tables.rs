//! Every table of the export that is worked out by hand, number by number.

use std::fs;

use predicates::str::contains;
use serde_json::{Value, json};

use super::json;
use super::made::{MAIN, Made, frames};
use crate::support::segtrt;

/// The rows of a table as lists of its values under these columns.
fn rows(table: &Value, columns: &[&str]) -> Vec<Value> {
    let rows = table.as_array().unwrap_or_else(|| panic!("no such table"));
    let row = |row: &Value| {
        columns
            .iter()
            .map(|column| {
                row.get(*column).unwrap_or_else(|| panic!("no column {column} in {row}")).clone()
            })
            .collect::<Value>()
    };
    rows.iter().map(row).collect()
}

fn tables(path: &std::path::Path, more: &[&str]) -> Value {
    let args: Vec<&str> = [path.to_str().unwrap()].iter().chain(more).copied().collect();
    json(&args, 0)["reports"][0]["tables"].take()
}

#[test]
fn ranges_are_projected_onto_the_gpu() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    frames(&path);
    let tables = tables(&path, &[]);
    let whole = [
        "Range",
        "Style",
        "Total Proj Time (ns)",
        "Total Range Time (ns)",
        "Range Instances",
        "Total GPU Ops",
    ];
    // pipeline: 1150 to 2050 and 6130 to 6900; the one at 5000 launches from another thread only.
    assert_eq!(
        rows(&tables["nvtx_gpu_proj_sum"], &whole),
        [
            json!(["segtrt:pipeline", "PushPop", 900 + 770, 2000, 2, 5]),
            json!(["segtrt:encoder", "PushPop", 500 + 770, 400, 2, 3]),
            json!([":se", "StartEnd", 770, 1100, 1, 2]),
            json!(["segtrt:plain", "PushPop", 770, 185, 1, 2]),
            json!(["segtrt:track", "PushPop", 350, 400, 1, 2]),
            json!(["segtrt:inner", "PushPop", 200, 50, 1, 1]),
            json!(["segtrt:exact", "PushPop", 100, 100, 1, 1]),
        ]
    );
    let spread = [
        "Proj Avg (ns)",
        "Proj Med (ns)",
        "Proj Min (ns)",
        "Proj Max (ns)",
        "Avg GPU Ops",
        "Avg Range Lvl",
        "Avg Num Child",
    ];
    let spreads = rows(&tables["nvtx_gpu_proj_sum"], &spread);
    // The second frame lies in `se`; `nothing` and `straddled` have no projection and are nobody's
    // children.
    assert_eq!(spreads[0], json!([835.0, 835.0, 770, 900, 2.5, 0.5, 1.5]));
    assert_eq!(spreads[1], json!([635.0, 635.0, 500, 770, 1.5, 1.5, 0.5]));
    assert_eq!(spreads[3], json!([770.0, 770.0, 770, 770, 2.0, 3.0, 0.0]));
    // Of a sample: sqrt((65² + 65²) / 1).
    let deviation = tables["nvtx_gpu_proj_sum"][0]["Proj StdDev (ns)"].as_f64().unwrap();
    assert!((deviation - 65.0 * 2f64.sqrt()).abs() < 1e-9, "{deviation}");
}

#[test]
fn ranges_kernels_memory_and_calls_are_summed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    frames(&path);
    let tables = tables(&path, &[]);
    let on_cpu = rows(&tables["nvtx_sum"], &["Range", "Instances", "Total Time (ns)", "Med (ns)"]);
    assert_eq!(on_cpu[0], json!(["segtrt:pipeline", 3, 2500, 1000.0]));
    assert_eq!(on_cpu.len(), 10, "{on_cpu:?}");
    let share = tables["nvtx_sum"][0]["Time (%)"].as_f64().unwrap();
    let all = 2500 + 400 + 400 + 50 + 50 + 100 + 200 + 1100 + 1100 + 185;
    assert!((share - 100.0 * 2500.0 / f64::from(all)).abs() < 1e-9, "{share}");

    let columns = ["Name", "Instances", "Total Time (ns)", "Avg (ns)", "Min (ns)", "Max (ns)"];
    assert_eq!(
        rows(&tables["cuda_gpu_kern_sum"], &columns),
        [
            json!(["encode(int)", 6, 1600, 1600.0 / 6.0, 100, 700]),
            json!(["attend(int)", 1, 200, 200.0, 200, 200])
        ]
    );
    assert_eq!(
        rows(
            &tables["cuda_gpu_mem_time_sum"],
            &["Operation", "Count", "Total Time (ns)", "Time (%)"]
        ),
        [
            json!(["[CUDA memcpy Device-to-Host]", 1, 100, 100.0 * 100.0 / 110.0]),
            json!(["[CUDA memset]", 1, 10, 100.0 * 10.0 / 110.0])
        ]
    );
    assert_eq!(
        rows(&tables["cuda_gpu_mem_size_sum"], &["Operation", "Count", "Total (B)", "Max (B)"]),
        [
            json!(["[CUDA memcpy Device-to-Host]", 1, 1_000_000, 1_000_000]),
            json!(["[CUDA memset]", 1, 4096, 4096])
        ]
    );
    assert_eq!(
        rows(&tables["cuda_api_sum"], &["Name", "Num Calls", "Total Time (ns)"]),
        [
            json!(["cudaLaunchKernel", 7, 175]),
            json!(["cudaStreamSynchronize", 1, 80]),
            json!(["cudaMemcpyAsync", 1, 20]),
            json!(["cudaMemsetAsync", 1, 10])
        ]
    );
    assert_eq!(
        rows(&tables["cuda_api_sync"], &["Name", "Num Calls", "Time (%)"]),
        [json!(["cudaStreamSynchronize", 1, 100.0])]
    );
}

#[test]
fn idle_gpus_show_as_gaps_and_utilisation() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    let mut made = frames(&path);
    // On a second GPU two kernels side by side; no time counts twice.
    made.kernel_on(1, "encode", 1000, 1400, 20);
    made.kernel_on(1, "encode", 1200, 1500, 21);
    made.kernel_on(1, "encode", 1900, 2000, 22);
    made.sql(
        "CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, returnValue INTEGER);
         INSERT INTO PROFILER_OVERHEAD VALUES (2040, 2150, 1, 1, 0), (2100, 2200, 1, 1, 0), (9000, 9100, 1, 1, 0)",
    );
    drop(made);
    let tables = tables(&path, &["--report", "util,gaps", "--gap", "400ns"]);
    let columns = [
        "Device ID",
        "Name",
        "Busy Time (ns)",
        "Span (ns)",
        "Kernel Time (ns)",
        "Memory Time (ns)",
        "Longest Gap (ns)",
        "GPU Ops",
    ];
    let busy = 500 + 200 + 100 + 4 * 100 + 10 + 700;
    assert_eq!(
        rows(&tables["gpu_time_util"], &columns),
        [
            json!([0, "Made Up 1", busy, 6900 - 1150, busy - 110, 110, 1150, 9]),
            json!([1, null, 600, 1000, 600, 0, 400, 3])
        ]
    );
    let utilisation = tables["gpu_time_util"][1]["Utilisation (%)"].as_f64().unwrap();
    assert!((utilisation - 60.0).abs() < 1e-9, "{utilisation}");
    let columns = [
        "Device ID",
        "Duration (ns)",
        "Start (ns)",
        "Range on CPU",
        "After",
        "Before",
        "Profiler Overhead (ns)",
    ];
    // The middle of the first gap, 2625, lies in no range; that of the second, 4675, neither; 5715
    // neither; at 3500 a range begins.
    assert_eq!(
        rows(&tables["gpu_gaps"], &columns),
        [
            json!([0, 1150, 2050, null, "[CUDA memcpy Device-to-Host]", "encode(int)", 150]),
            json!([0, 1050, 4150, null, "encode(int)", "encode(int)", 0]),
            json!([0, 830, 5300, null, "encode(int)", "[CUDA memset]", 0]),
            json!([0, 400, 3300, "segtrt:straddled", "encode(int)", "encode(int)", 0]),
            json!([1, 400, 1500, "segtrt:track", "encode(int)", "encode(int)", 0]),
        ]
    );
    assert_eq!(tables.as_object().unwrap().len(), 2, "only what was asked for");
}

#[test]
fn cuda_graphs_count_as_work_whole_or_by_their_kernels() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graphs.sqlite");
    let mut made = Made::new(&path);
    made.domain();
    made.range("track", 100, 200);
    made.call("cudaGraphLaunch_v10000", 110, 120, 1, MAIN);
    made.graph(3, 300, 900, 1);
    made.range("memory", 1000, 1100);
    made.call("cudaGraphLaunch_v10000", 1010, 1020, 2, MAIN);
    made.kernel("a", 1200, 1300, 2);
    made.kernel("b", 1250, 1600, 2);
    drop(made);
    let tables = tables(&path, &[]);
    assert_eq!(
        rows(&tables["nvtx_gpu_proj_sum"], &["Range", "Total Proj Time (ns)", "Total GPU Ops"]),
        [json!(["segtrt:track", 600, 1]), json!(["segtrt:memory", 400, 2])]
    );
    assert_eq!(
        rows(&tables["cuda_gpu_kern_sum"], &["Name", "Total Time (ns)"]),
        [json!(["[CUDA graph 3]", 600]), json!(["b(int)", 350]), json!(["a(int)", 100])]
    );
}

#[test]
fn a_part_of_a_report_can_be_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    frames(&path);
    let inside = tables(&path, &["--range", "track"]);
    let names = rows(&inside["nvtx_gpu_proj_sum"], &["Range"]);
    assert_eq!(names, [json!(["segtrt:track"]), json!(["segtrt:inner"])]);
    assert_eq!(rows(&inside["cuda_gpu_kern_sum"], &["Name"]), [json!(["attend(int)"])]);
    let early = tables(&path, &["--time", ":2us"]);
    let kernels = rows(&early["cuda_gpu_kern_sum"], &["Name", "Instances"]);
    assert_eq!(kernels, [json!(["encode(int)", 1]), json!(["attend(int)", 1])]);
    // The copy ends after the window: it would be cut in two.
    assert_eq!(early["cuda_gpu_mem_time_sum"], json!([]));
    let first = tables(&path, &["--top", "1"]);
    assert_eq!(rows(&first["nvtx_sum"], &["Range"]), [json!(["segtrt:pipeline"])]);
    segtrt()
        .args(["nsys", path.to_str().unwrap(), "--range", "tracker"])
        .assert()
        .code(1)
        .stderr(contains("no range is called tracker; there are :se, :se_other, segtrt:encoder"));
    segtrt()
        .args(["nsys", path.to_str().unwrap(), "--time", "1:2"])
        .assert()
        .code(1)
        .stderr(contains("has no data in the requested time"));
}

#[test]
fn the_screen_names_the_slowest_stage_and_files_hold_the_tables() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("a.sqlite"), dir.path().join("tables"));
    frames(&path);
    segtrt()
        .args(["nsys", path.to_str().unwrap(), "--top", "2", "--csv", out.to_str().unwrap()])
        .assert()
        .success()
        .stdout(contains("Ranges projected onto the GPU"))
        .stdout(contains("… and 5 more (--top)"))
        .stdout(contains(
            "slowest stage on the GPU: segtrt:encoder, 500 ns on average, 56 % of segtrt:pipeline \
             (1 of them, 900 ns",
        ));
    let projected = fs::read_to_string(out.join("nvtx_gpu_proj_sum.csv")).unwrap();
    let lines: Vec<&str> = projected.lines().collect();
    assert_eq!(
        lines[0],
        "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),Proj \
         Med (ns),Proj Min (ns),Proj Max (ns),Proj StdDev (ns),Total GPU Ops,Avg GPU Ops,Avg Range \
         Lvl,Avg Num Child"
    );
    assert_eq!(
        lines[1],
        "segtrt:pipeline,PushPop,1670,2000,2,835.0,835.0,770,900,91.9,5,2.5,0.5,1.5"
    );
    assert_eq!(lines.len(), 3, "--top 2");
    for name in
        ["nvtx_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "gpu_time_util", "cuda_api_sync"]
    {
        assert!(out.join(format!("{name}.csv")).is_file(), "{name}");
    }
}

#[test]
fn counters_are_read_from_the_first_work_to_the_last_and_inside_what_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    let made = frames(&path);
    // Work is from 1150 to 6900; the first and the last reading lie outside.
    let read = [(1100, 100), (1160, 30), (1700, 50), (6200, 10), (7000, 100)];
    made.counter(0, 3, "DRAM Read Bandwidth [Throughput %]", &read);
    made.counter(1, 3, "DRAM Read Bandwidth [Throughput %]", &[(1700, 5)]);
    drop(made);
    let columns = ["Device ID", "Counter", "Avg", "Min", "Max", "Samples"];
    let name = "DRAM Read Bandwidth [Throughput %]";
    let all = tables(&path, &[]);
    assert_eq!(
        rows(&all["gpu_metric_util"], &columns),
        [json!([0, name, 30.0, 10, 50, 3]), json!([1, name, 5.0, 5, 5, 1])]
    );
    let part = tables(&path, &["--range", "track", "--report", "counters"]);
    assert_eq!(
        rows(&part["gpu_metric_util"], &columns),
        [json!([0, name, 50.0, 50, 50, 1]), json!([1, name, 5.0, 5, 5, 1])]
    );
}

#[test]
fn counters_that_nobody_sampled_are_missed_only_where_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sqlite");
    frames(&path);
    let path = path.to_str().unwrap();
    segtrt().args(["nsys", path]).assert().success();
    segtrt()
        .args(["nsys", path, "--report", "counters"])
        .assert()
        .code(1)
        .stderr(contains("segtrt profile --gpu-metrics all"));
}
