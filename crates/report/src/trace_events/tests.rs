//! The rules of the Trace Event format, and durations of the sources.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use super::*;

/// Checks every event of a trace, and returns those that are no metadata.
fn checked(trace: &EventTrace) -> Vec<Value> {
    let document = serde_json::to_value(trace).unwrap();
    assert_eq!(document["displayTimeUnit"], "ms");
    let events = document["traceEvents"].as_array().unwrap().clone();
    let mut named: BTreeSet<(String, u64, u64)> = BTreeSet::new();
    let mut open: BTreeMap<(u64, String), f64> = BTreeMap::new();
    let mut spans: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for event in &events {
        let number = |key: &str| event[key].as_f64().unwrap_or_else(|| panic!("no {key}: {event}"));
        let place = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        assert!(!event["name"].as_str().unwrap().is_empty(), "{event}");
        assert!(number("ts") >= 0.0, "{event}");
        match event["ph"].as_str().unwrap() {
            "M" => {
                let name = event["name"].as_str().unwrap();
                match name {
                    "process_name" | "thread_name" => {
                        assert!(event["args"]["name"].is_string(), "{event}");
                    }
                    "process_sort_index" | "thread_sort_index" => {
                        assert!(event["args"]["sort_index"].is_u64(), "{event}");
                    }
                    other => panic!("unknown metadata {other}"),
                }
                assert!(named.insert((name.to_owned(), place.0, place.1)), "named twice: {event}");
            }
            "X" => {
                assert!(number("dur") >= 0.0 && event["cat"].is_string(), "{event}");
                spans.entry(place).or_default().push((number("ts"), number("dur")));
            }
            "C" => assert!(event["args"]["value"].is_number(), "{event}"),
            phase @ ("b" | "e") => {
                let key = (event["id"].as_u64().unwrap(), event["name"].to_string());
                match phase {
                    "b" => assert!(open.insert(key, number("ts")).is_none(), "{event}"),
                    _ => assert!(open.remove(&key).unwrap() <= number("ts"), "{event}"),
                }
            }
            other => panic!("unknown phase {other}"),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for (place, spans) in &mut spans {
        assert!(named.contains(&("process_name".to_owned(), place.0, 0)), "{place:?}");
        assert!(named.contains(&("thread_name".to_owned(), place.0, place.1)), "{place:?}");
        // Complete events of a thread must nest.
        spans.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut ends: Vec<f64> = Vec::new();
        for (start, length) in spans.iter() {
            let rounding = 1e-6;
            ends.retain(|end| *end > start + rounding);
            assert!(ends.iter().all(|end| start + length <= end + rounding), "{place:?} {start}");
            ends.push(start + length);
        }
    }
    events.into_iter().filter(|event| event["ph"] != "M").collect()
}

fn run(dir: &Path, times: &str) -> PathBuf {
    let pass = format!(
        "{{\"video\": \"v\", \"object\": \"000\", \"model\": \"m_points\", \"run\": 0, \"frame_times\": {times}}}"
    );
    let skipped = "{\"video\": \"w\", \"object\": \"000\", \"model\": \"m_points\"}";
    let text = format!("{{\"segtrt\": \"0\", \"passes\": [{pass}, {skipped}]}}");
    std::fs::write(dir.join("sidecar.json"), text).unwrap();
    dir.to_owned()
}

fn durations(events: &[Value], name: &str) -> Vec<f64> {
    let of = events.iter().filter(|event| event["name"] == name);
    of.map(|event| event["dur"].as_f64().unwrap()).collect()
}

#[test]
fn a_runs_frames_and_stages_keep_their_durations() {
    let dir = tempfile::tempdir().unwrap();
    let times = "{\"frame\": [0, 1, 2], \"latency_ms\": [5.5, 3.25, 3.0], \"decode_ms\": [1.0, \
                 0.5, 0.25], \"encoder_ms\": [2.0, 1.0, 1.0], \"prompt_ms\": [1.5, null, null], \
                 \"track_ms\": [null, 2.0, 1.75], \"objectness\": [1, 2, 3]}";
    let trace = EventTrace::of(&[run(dir.path(), times)]).unwrap();
    assert_eq!((trace.processes(), trace.events()), (1, 12));
    let events = checked(&trace);
    assert_eq!(durations(&events, "Decode"), [1000.0, 500.0, 250.0]);
    assert_eq!(durations(&events, "Inference: track"), [2000.0, 1750.0]);
    let frames: Vec<&Value> = events.iter().filter(|event| event["cat"] == "latency").collect();
    let of =
        |key: &str| frames.iter().map(|event| event[key].as_f64().unwrap()).collect::<Vec<_>>();
    assert_eq!(of("dur"), [5500.0, 3250.0, 3000.0]);
    assert_eq!(of("ts"), [1000.0, 7000.0, 10_500.0]);
    assert_eq!(frames[2]["args"]["frame"], 2);
}

#[test]
fn overlapping_frames_have_a_thread_for_each_stage() {
    let dir = tempfile::tempdir().unwrap();
    let times = "{\"frame\": [0, 1], \"interval_ms\": [2.0, 1.0], \"encoder_ms\": [3.0, 1.0], \
                 \"track_ms\": [2.5, 0.5]}";
    let events = checked(&EventTrace::of(&[run(dir.path(), times)]).unwrap());
    assert_eq!(durations(&events, "frame 0"), [2000.0]);
    assert_eq!(durations(&events, "Inference: encoder"), [3000.0, 1000.0]);
}

/// Two streams of a GPU with overlapping work, a range with a call, one that ends elsewhere.
fn report(path: &Path) {
    let thread = (100_i64 << 24) | 1;
    let sql = format!(
        "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
         CREATE TABLE StringIds (id INTEGER, value TEXT);
         INSERT INTO StringIds VALUES (1, 'track'), (2, 'cuLaunchKernel'), (3, 'attend'), (4, 'live');
         CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, textId INTEGER, globalTid INTEGER);
         INSERT INTO NVTX_EVENTS VALUES (1000, 5001, 59, 1, {thread}), (500, 9000, 60, 4, {thread});
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1100, 1350, {thread}, 7, 2);
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, shortName INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 3123, 0, 7, 7, 3), (2500, 4000, 0, 7, 7, 3), (2500, 2600, 0, 8, 7, 3);"
    );
    Connection::open(path).unwrap().execute_batch(&sql).unwrap();
}

#[test]
fn a_reports_ranges_calls_and_kernels_keep_their_durations() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("clip_obj0.sqlite");
    report(&path);
    let trace = EventTrace::of(std::slice::from_ref(&path)).unwrap();
    assert_eq!(trace.processes(), 2, "the program and its GPU");
    let events = checked(&trace);
    assert_eq!(durations(&events, ":track"), [4001.0 * 1e-3]);
    assert_eq!(durations(&events, "cuLaunchKernel"), [0.25]);
    assert_eq!(durations(&events, "attend"), [1123.0 * 1e-3, 100.0 * 1e-3, 1.5]);
    let kernels = events.iter().filter(|event| event["cat"] == "kernel");
    let threads: Vec<u64> = kernels.map(|event| event["tid"].as_u64().unwrap()).collect();
    assert_eq!(threads, [1, 2, 3], "another stream, and an overlapping kernel of the first");
    let both = EventTrace::of(&[path, run(dir.path(), "{\"latency_ms\": [1.0]}")]).unwrap();
    checked(&both);
    assert_eq!(both.processes(), 3);
}

#[test]
fn what_has_no_times_is_refused_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: PathBuf| format!("{:#}", EventTrace::of(&[path]).unwrap_err());
    let missing = refused(dir.path().join("none"));
    assert!(missing.contains("none does not exist; expected the folder of a run"), "{missing}");
    assert!(refused(dir.path().to_owned()).contains("has no sidecar.json"));
    for (times, sentence) in [
        ("null", "has no pass with frame times"),
        ("{}", "neither latency_ms nor interval_ms"),
        ("{\"latency_ms\": [1, \"x\"]}", "expected a list of numbers"),
        ("{\"latency_ms\": [-1]}", "a time that is negative"),
        (
            "{\"latency_ms\": [1, 2], \"track_ms\": [1]}",
            "track_ms has 1 values, expected one for each of 2",
        ),
        ("{\"latency_ms\": [1, 2], \"frame\": [1]}", "frame has 1 values, expected 2"),
    ] {
        let error = refused(run(dir.path(), times));
        assert!(error.contains(sentence), "{error}");
    }
    std::fs::write(dir.path().join("sidecar.json"), "{\"passes\": [").unwrap();
    assert!(refused(dir.path().to_owned()).contains("is not a sidecar of segtrt, or is truncated"));
    let other = dir.path().join("x.sqlite");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE songs (name)").unwrap();
    assert!(refused(other).contains("is not an export of nsys: found songs"));
}
