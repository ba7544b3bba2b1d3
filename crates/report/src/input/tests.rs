//! Reading files of all kinds: old, new, truncated, foreign.

use std::path::PathBuf;

use super::*;

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

fn read_one(path: &Path) -> Result<Inputs> {
    read(&[path.display().to_string()], &[])
}

/// The columns of the predecessor's tables.
const OLD: &str = "video,object,model,imgsz,frames,fps,latency_ms,gpu_peak_alloc_MiB,gpu_peak_reserved_MiB,cpu_peak_rss_MiB,J,JandF_proxy,overlay,setup_ms\r\nsav_1,000,edgetam_points,1024,300,24.7,40.5,5923.0,,4000.1,0.595,0.595,,\r\n";

#[test]
fn old_tables_have_what_they_have_and_no_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = read_one(&write(dir.path(), "a.csv", OLD)).unwrap();
    let source = &inputs.sources[0];
    let row = &source.rows[0];
    assert_eq!((source.label.as_str(), source.is_predecessors()), ("a", true));
    assert_eq!((row.number("fps"), row.number("gpu_peak_reserved_MiB")), (Some(24.7), None));
    assert_eq!(
        (row.number("JandF"), row.number("J"), row.text("object")),
        (None, Some(0.595), Some("000"))
    );
    assert_eq!(row.validity(), Validity::NoVerdict);
}

#[test]
fn rows_without_numbers_are_not_measured() {
    let dir = tempfile::tempdir().unwrap();
    let table = "video,object,model,fps,status,verdict,reason\nv,0,m,12.5,failed,-,oom: it \
                 broke\nv,1,m,,ok,VALID,\nv,2,m,nan,ok,VALID,\nv,3,m,9,ok,INVALID,\nv,4,m,9,ok,-,\nv,5,m,-1,ok,VALID,\nv,6,m\n";
    let inputs = read_one(&write(dir.path(), "sav_benchmark_summary.csv", table)).unwrap();
    let validity: Vec<Validity> = inputs.sources[0].rows.iter().map(ResultRow::validity).collect();
    use Validity::{Invalid, Unjudged, Unmeasured};
    assert_eq!(
        validity,
        [Unmeasured, Unmeasured, Unmeasured, Invalid, Unjudged, Unmeasured, Unmeasured]
    );
    assert_eq!(inputs.sources[0].rows[0].why(), Some("oom: it broke"));
}

#[test]
fn runs_are_found_below_and_one_bad_file_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a/sav_benchmark_summary.csv", OLD);
    write(dir.path(), "a/profile_summary.csv", OLD);
    write(dir.path(), "b/round_1/profile_summary.csv", OLD);
    write(dir.path(), "b/round_2/profile_summary.csv", OLD);
    write(dir.path(), "c/sav_benchmark_summary.csv", "time,value\n1,2\n");
    write(dir.path(), "masks/profile_summary.csv", OLD);
    let inputs = read(&[dir.path().display().to_string(), "/no/such".into()], &[]).unwrap();
    let labels: Vec<&str> = inputs.sources.iter().map(|source| source.label.as_str()).collect();
    assert_eq!(labels, ["a", "b", "b"]);
    assert!(inputs.sources[0].path.ends_with("sav_benchmark_summary.csv"));
    let problems = inputs.problems.join("\n");
    assert!(problems.contains("/no/such does not exist; expected a run folder"), "{problems}");
    assert!(problems.contains("has no column video, model, fps; found time,value"), "{problems}");
}

#[test]
fn nothing_at_all_is_an_error_that_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let error = format!("{:#}", read_one(dir.path()).unwrap_err());
    assert!(error.contains("has no results; expected one of sav_benchmark_summary.csv"), "{error}");
    let error = format!("{:#}", read_one(&write(dir.path(), "e.csv", "")).unwrap_err());
    assert!(error.contains("an empty file"), "{error}");
    let error = format!(
        "{:#}",
        read_one(&write(dir.path(), "b.csv", "video,model,fps\n\u{0}\n"))
            .map(|i| i.sources.len())
            .map_or_else(|e| e, |n| anyhow::anyhow!("{n} sources"))
    );
    assert!(error.contains("1 sources"), "{error}");
}

#[test]
fn the_same_run_given_twice_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let table = write(dir.path(), "a/sav_benchmark_summary.csv", OLD);
    let inputs =
        read(&[dir.path().display().to_string(), table.display().to_string()], &[]).unwrap();
    assert_eq!(inputs.sources.len(), 1);
    assert!(inputs.problems[0].contains("was named twice"), "{:?}", inputs.problems);
}

#[test]
fn a_label_names_a_run_and_a_path_with_the_sign_is_a_path() {
    let dir = tempfile::tempdir().unwrap();
    let table = write(dir.path(), "a=b/sav_benchmark_summary.csv", OLD);
    let inputs = read(&[format!("RTX 3090={}", table.display())], &[]).unwrap();
    assert_eq!((inputs.sources[0].label.as_str(), inputs.sources[0].named), ("RTX 3090", true));
    let inputs = read(&[dir.path().join("a=b").display().to_string()], &[]).unwrap();
    assert_eq!((inputs.sources[0].label.as_str(), inputs.sources[0].named), ("a=b", false));
}

#[test]
fn a_sidecar_gives_times_and_a_torn_one_costs_only_these() {
    let dir = tempfile::tempdir().unwrap();
    let table = write(dir.path(), "r/sav_benchmark_summary.csv", OLD);
    let pass = r#"{"video":"v","object":"000","model":"m","run":1,"observed":{"power_max_w":30.5,"limits":["thermal"]},"verdict":{"judgement":"invalid","findings":[]},
        "frame_times":{"frame":[0,1],"latency_ms":[4.0,2.0],"encoder_ms":[1.0,1.5],"track_ms":[null,0.5],"gpu_ms":[3.0,1.0],"objectness":[[0.1],["x"]]}}"#;
    let strange = r#"{"video":"v","object":"000","model":"m","frame_times":{"latency_ms":"fast"}}"#;
    let never_run =
        r#"{"video":"w","object":"000","model":"m","run":0,"observed":null,"verdict":{}}"#;
    write(
        dir.path(),
        "r/sidecar.json",
        &format!(
            r#"{{"environment":{{"hostname":"h","gpu":{{"power_limit_w":60}}}},"passes":[{pass},{strange},{never_run}],"later":1}}"#
        ),
    );
    let inputs = read_one(&table).unwrap();
    let source = &inputs.sources[0];
    assert_eq!(source.passes.len(), 1);
    let read = &source.passes[0];
    assert_eq!((read.run, read.latencies_ms.as_slice()), (1, &[4.0, 2.0][..]));
    assert_eq!(read.stages[3], StageSum { sum_ms: 2.5, frames: 2 });
    assert_eq!((read.stages[5].frames, read.stages[0].frames), (1, 0));
    assert_eq!(read.observed["power_max_w"].as_f64(), Some(30.5));
    assert_eq!(
        (
            source.environment("hostname").unwrap().as_str(),
            source.environment("gpu").unwrap()["power_limit_w"].as_f64()
        ),
        (Some("h"), Some(60.0))
    );
    assert!(inputs.problems[0].contains("1 passes are not understood"), "{:?}", inputs.problems);
    write(dir.path(), "r/sidecar.json", r#"{"environment":{},"passes":[{"video":"#);
    let inputs = read_one(&table).unwrap();
    assert_eq!((inputs.sources[0].rows.len(), inputs.sources[0].passes.len()), (1, 0));
    assert!(
        inputs.problems[0].contains("or is truncated; its rows are shown"),
        "{:?}",
        inputs.problems
    );
}

#[test]
fn curves_of_teacher_forced_runs_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let curve = |memory: &str| {
        format!(
            r#"{{"model":"m","side":"fp16","memory":"{memory}","frame":[0,1],"iou":[1.0,0.6]}}"#
        )
    };
    let text = format!(r#"{{"drift_curves":[{},{}]}}"#, curve("free"), curve("teacher"));
    let path = write(dir.path(), "x/comparison.json", &text);
    let inputs = read(&[path.display().to_string()], &[]).unwrap();
    let curves = &inputs.comparisons[0].drift;
    let forced: Vec<bool> = curves.iter().map(|curve| curve.teacher_forced).collect();
    assert_eq!(forced, [false, true]);
}

#[test]
fn drift_curves_are_found_wherever_they_lie() {
    let dir = tempfile::tempdir().unwrap();
    let flat = r#"{"drift":[{"model":"m","side":"fp16","frame":[0,2,4],"iou":[1.0,null,0.9]}]}"#;
    let nested =
        r#"{"models":[{"model":"m","sides":[{"side":"compile","drift":{"iou":[1,0.5]}}]}]}"#;
    let one = write(dir.path(), "x/comparison.json", flat);
    let other = write(dir.path(), "other.json", nested);
    let inputs = read(&[one.display().to_string(), other.display().to_string()], &[]).unwrap();
    let curve = |side: &str, frame: &[f64], iou: &[f64]| DriftCurve {
        model: "m".into(),
        side: side.into(),
        frame: frame.into(),
        iou: iou.into(),
        ..DriftCurve::default()
    };
    let found = inputs.comparisons.iter().flat_map(|read| read.drift.clone());
    let found = found.map(|curve| DriftCurve { comparison: String::new(), ..curve });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [curve("fp16", &[0.0, 4.0], &[1.0, 0.9]), curve("compile", &[0.0, 1.0], &[1.0, 0.5])]
    );
    let error =
        format!("{:#}", read_one(&write(dir.path(), "n.json", "{\"rows\":[]}")).unwrap_err());
    assert!(error.contains("has no drift curve and no judged side"), "{error}");
    let error = format!("{:#}", read_one(&write(dir.path(), "t.json", "{\"iou\":[")).unwrap_err());
    assert!(error.contains("is not JSON"), "{error}");
}

#[test]
fn profiles_are_read_as_tables_and_as_lists_of_objects() {
    let dir = tempfile::tempdir().unwrap();
    let tables = r#"[{"name":"bs01","gpu_util_percent":63.5,"tables":[
        {"table":"cuda_gpu_kern_sum","columns":["Name","Total Time (ns)","Instances"],"rows":[["gemm",900,3],["soft",100,1]]},
        {"table":"cuda_gpu_mem_size_sum","columns":[{"name":"Operation"},{"name":"Total (MB)"},{"name":"Count"}],"rows":[["H2D",2.5,4]]},
        {"table":"nvtx_gpu_proj_sum","columns":["Range","Total Proj Time (ns)"],"rows":[["pipeline",5000]]}]}]"#;
    let lists = r#"{"kernels":[{"name":"gemm","total_ns":7}],"nvtx":[{"range":"pipeline","total_ns":9}],"memory":[{"operation":"D2H","bytes":12}]}"#;
    let (a, b) = (write(dir.path(), "a.json", tables), write(dir.path(), "b.json", lists));
    let table = write(dir.path(), "t.csv", OLD);
    let inputs = read(&[table.display().to_string()], &[a, b]).unwrap();
    let [first, second] = &inputs.nsys[..] else { panic!("{:?}", inputs.nsys) };
    assert_eq!(
        (first.name.as_str(), first.gpu_util_percent, first.bandwidth_percent),
        ("bs01", Some(63.5), None)
    );
    let names = |ops: Vec<&NsysOperation>| ops.iter().map(|op| op.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(first.by_time()), ["gemm", "soft"], "a range is no work of the GPU");
    assert_eq!(
        (names(first.by_memory()), first.by_memory()[0].bytes),
        (vec!["H2D".to_owned()], Some(2.5e6))
    );
    assert_eq!(
        (names(second.by_time()), names(second.by_memory())),
        (vec!["gemm".to_owned()], vec!["D2H".to_owned()])
    );
    let empty = write(dir.path(), "e.json", "[]");
    let problems = read(&[table.display().to_string()], &[empty]).unwrap().problems;
    assert!(problems[0].contains("has no operation"), "{problems:?}");
}

#[test]
fn the_profile_of_segtrt_nsys_is_read_as_it_writes_it() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"reports":[{"label":"bs04","file":"bs04.sqlite","exported_by":"nsys","notes":[],"faults":["the program failed"],"findings":{"gpu":null},
        "tables":{"nvtx_gpu_proj_sum":[{"Range":"pipeline","Total Proj Time (ns)":900}],
        "cuda_gpu_kern_sum":[{"Time (%)":100.0,"Total Time (ns)":800,"Instances":4,"Name":"gemm"}],
        "cuda_gpu_mem_time_sum":[{"Total Time (ns)":50,"Count":2,"Operation":"H2D"}],
        "cuda_gpu_mem_size_sum":[{"Total (B)":4096,"Count":2,"Operation":"H2D"}],
        "cuda_api_sum":[{"Total Time (ns)":7000,"Num Calls":9,"Name":"cudaLaunchKernel"}],
        "gpu_time_util":[{"Device ID":0,"Name":"Orin","Utilisation (%)":71.5,"Busy Time (ns)":850}],
        "gpu_metric_util":[
        {"Device ID":0,"Name":"GPU Metrics","Counter":"DRAM Read Bandwidth [Throughput %]","Avg":40.5,"Min":0,"Max":90,"Samples":8},
        {"Device ID":0,"Name":"GPU Metrics","Counter":"DRAM Write Bandwidth [Throughput %]","Avg":12.0,"Min":0,"Max":30,"Samples":8},
        {"Device ID":0,"Name":"GPU Metrics","Counter":"SM Active [Throughput %]","Avg":99.0,"Min":0,"Max":100,"Samples":8},
        {"Device ID":1,"Name":"GPU Metrics","Counter":"DRAM Read Bandwidth [Throughput %]","Avg":3.0,"Min":0,"Max":5,"Samples":8}]}}],"failed":[],"fastest":null}"#;
    let (reports, _) = nsys::read(&write(dir.path(), "p.json", text)).unwrap();
    let report = &reports[0];
    assert_eq!((report.name.as_str(), report.gpu_util_percent), ("bs04", Some(71.5)));
    assert_eq!(report.bandwidth_percent, Some(52.5), "reads and writes of the busier GPU");
    assert_eq!(report.faults, ["the program failed"]);
    let times: Vec<(&str, Option<f64>, Option<f64>)> =
        report.by_time().iter().map(|op| (op.name.as_str(), op.total_ns, op.count)).collect();
    assert_eq!(times, [("gemm", Some(800.0), Some(4.0)), ("H2D", Some(50.0), Some(2.0))]);
    assert_eq!(report.by_memory()[0].bytes, Some(4096.0));
}

#[test]
fn a_side_without_proof_has_no_speed() {
    let dir = tempfile::tempdir().unwrap();
    let table = "video,object,model,fps,status,verdict\nv,0,m,90,ok,VALID\nv,0,n,80,ok,VALID\n";
    write(dir.path(), "fp16/round_1/sav_benchmark_summary.csv", table);
    write(dir.path(), "fp32/round_1/sav_benchmark_summary.csv", table);
    let comparison = r#"{"models":[{"model":"m","sides":[{"side":"fp32","outcome":"reference","folders":["fp32/round_1"]},
        {"side":"fp16","outcome":"mismatch","why":"lowest IoU 0.41","folders":["fp16/round_1","gone"]}]}],
        "drift_curves":[{"model":"m","side":"fp16","frame":[0,1],"iou":[1.0,0.6],"lowest":[0.9,0.41],"objects":[2,2]}]}"#;
    write(dir.path(), "comparison.json", comparison);
    let inputs = read_one(dir.path()).unwrap();
    let validity = |source: usize| {
        inputs.sources[source].rows.iter().map(ResultRow::validity).collect::<Vec<_>>()
    };
    assert_eq!(inputs.sources[0].label, "fp16");
    assert_eq!(validity(0), [Validity::Invalid, Validity::Valid]);
    assert_eq!(validity(1), [Validity::Valid, Validity::Valid]);
    assert_eq!(inputs.sources[0].rows[0].why(), Some("MISMATCH: lowest IoU 0.41"));
    let lowest = inputs.comparisons[0].drift[0].lowest;
    assert_eq!((lowest, inputs.problems.len()), (Some(0.41), 0));
    assert_eq!(inputs.sources[0].side.as_deref(), Some("fp16"), "without settings its own name");
}
