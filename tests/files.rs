/*!
Result files: byte for byte what Python writes (tests/data/files/make_golden.py), and the journal's
promises: order, crash safety, resumption.
*/
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde_json::Value;
use vos::files::python_format::{float_repr, round};
use vos::files::{ColumnSet, Configuration, ObjectResult, ResultStore, RowOrder, Sidecar};
use vos::files::{profile_csv, stats_json, summary_csv};
use vos::record::{
    Conditions, EnqueuedFrames, FrameTime, FrameTimes, Measured, MemoryPeaks, ObjectKey, RunRecord,
    StagePercentiles, StageTimes, Status, SummaryRecord, mean_stages, speed_of,
};
use vos::stage::Stage;

use crate::support::golden;

fn data(name: &str) -> Vec<u8> {
    golden(&format!("files/{name}"))
}

fn records() -> Vec<SummaryRecord> {
    serde_json::from_slice(&data("records.json.gz")).unwrap()
}

#[track_caller]
fn assert_same_bytes(found: &[u8], expected: &[u8]) {
    let lines = found.split(|&b| b == b'\n').zip(expected.split(|&b| b == b'\n'));
    for (number, (found, expected)) in lines.enumerate() {
        let text = String::from_utf8_lossy;
        assert_eq!(text(found), text(expected), "line {}", number + 1);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn python_rounds_and_prints_floats_the_same_way() {
    let golden: Vec<(String, usize, String, String)> =
        serde_json::from_slice(&data("floats.json.gz")).unwrap();
    assert!(golden.len() > 1000);
    for (bits, digits, plain, rounded) in golden {
        let value = f64::from_bits(bits.parse().unwrap());
        assert_eq!(float_repr(value), plain);
        assert_eq!(float_repr(round(value, digits)), rounded, "round({plain}, {digits})");
    }
}

#[test]
fn python_writes_the_same_summary() {
    let mut bytes = Vec::new();
    summary_csv::write(&mut bytes, ColumnSet::Standard, &records()).unwrap();
    assert_same_bytes(&bytes, &data("sav_benchmark_summary.csv.gz"));
}

#[test]
fn python_writes_the_same_extended_summary() {
    let mut bytes = Vec::new();
    summary_csv::write(&mut bytes, ColumnSet::Extended, &records()).unwrap();
    assert_same_bytes(&bytes, &data("extended_summary.csv.gz"));
    // No name twice: readers that look by name would see one of the two.
    let header = String::from_utf8(bytes).unwrap();
    let mut names: Vec<&str> = header.lines().next().unwrap().split(',').collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn python_writes_the_same_profile() {
    let mut bytes = Vec::new();
    profile_csv::write(&mut bytes, records().iter().map(|r| &r.pooled)).unwrap();
    assert_same_bytes(&bytes, &data("profile_summary.csv.gz"));
}

#[test]
fn python_writes_the_same_statistics() {
    let mut bytes = Vec::new();
    stats_json::write(&mut bytes, records().iter().map(|r| &r.pooled)).unwrap();
    assert_same_bytes(&bytes, &data("profile_stats.json"));
}

#[test]
fn a_record_survives_json() {
    let records = records();
    let text = serde_json::to_string(&records).unwrap();
    assert_eq!(serde_json::from_str::<Vec<SummaryRecord>>(&text).unwrap(), records);
}

fn key(video: usize, object: usize, model: usize) -> ObjectKey {
    ObjectKey {
        video: format!("v{video}"),
        object: format!("{object:03}"),
        tag: format!("m{model}"),
    }
}

fn order(video: usize, object: usize, model: usize) -> RowOrder {
    RowOrder { video, object, model }
}

fn measured(at: RowOrder, passes: usize) -> ObjectResult {
    let passes = (0..passes).map(|run| {
        let times: Vec<_> = (0..4)
            .map(|frame| FrameTimes {
                frame,
                time: FrameTime::Latency(10.0 + frame as f64 + run as f64 / 3.0),
                stages: StageTimes::of([(Stage::Encoder, 5.5)]),
                ..Default::default()
            })
            .collect();
        let mut record = unmeasured(at, Status::Ok);
        record.reason = None;
        record.run = run;
        record.measured = Some(Measured {
            speed: speed_of(&times).unwrap(),
            stages: mean_stages(&times),
            stage_percentiles: StagePercentiles::of(&[&times]),
            enqueued: EnqueuedFrames::of(&[&times]),
            memory: MemoryPeaks::default(),
            quality: None,
            setup_ms: None,
            gpu_ms: None,
            residue_ms: None,
            least: StageTimes::default(),
            observed: None,
            decode_load: None,
        });
        (record, times)
    });
    ObjectResult::new(at, passes.collect()).unwrap()
}

fn unmeasured(at: RowOrder, status: Status) -> RunRecord {
    let key = key(at.video, at.object, at.model);
    RunRecord::unmeasured(key, Conditions::default(), status, "no_mask", "the mask is empty")
}

fn settings() -> Configuration {
    Configuration::default().with("imgsz", 768).with("models", "m0,m1")
}

fn first_columns(path: &Path, count: usize) -> Vec<String> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader
        .records()
        .map(|row| row.unwrap().iter().take(count).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn rows_come_out_in_order_however_they_were_measured() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ResultStore::create(dir.path(), settings()).unwrap();
    for (video, object, model) in [(1, 0, 0), (0, 1, 1), (0, 0, 1), (0, 1, 0), (0, 0, 0)] {
        store.push(measured(order(video, object, model), 2)).unwrap();
    }
    let files = store.finish(&Sidecar::default()).unwrap();
    let expected = ["v0 000 m0", "v0 000 m1", "v0 001 m0", "v0 001 m1", "v1 000 m0"];
    assert_eq!(first_columns(&files.summary, 3), expected);
    let profile = first_columns(&files.profile, 4);
    assert_eq!(profile.len(), 10);
    assert_eq!(profile[..3], ["v0 000 m0 0", "v0 000 m0 1", "v0 000 m1 0"]);
}

#[test]
fn a_resumed_run_writes_the_bytes_of_an_uninterrupted_one() {
    let places = [order(0, 0, 0), order(0, 0, 1), order(0, 1, 0), order(1, 0, 0)];
    let whole = tempfile::tempdir().unwrap();
    let mut store = ResultStore::create(whole.path(), settings()).unwrap();
    places.iter().for_each(|&at| store.push(measured(at, 3)).unwrap());
    let expected = store.finish(&Sidecar::default()).unwrap();

    let broken = tempfile::tempdir().unwrap();
    let mut store = ResultStore::create(broken.path(), settings()).unwrap();
    store.push(measured(places[1], 3)).unwrap();
    store.push(measured(places[0], 3)).unwrap();
    drop(store);
    // The crash came in the middle of a line.
    let journal = broken.path().join("rows.jsonl");
    let torn = serde_json::to_string(&measured(places[2], 3)).unwrap();
    let mut file = OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all(&torn.as_bytes()[..torn.len() / 2]).unwrap();

    let mut store = ResultStore::resume(broken.path(), settings()).unwrap();
    assert_eq!(store.done_before(), 2);
    for at in places {
        let done = store.is_done(&key(at.video, at.object, at.model), at.model);
        assert_eq!(done, at == places[0] || at == places[1]);
        if !done {
            store.push(measured(at, 3)).unwrap();
        }
    }
    let found = store.finish(&Sidecar::default()).unwrap();
    for (found, expected) in [
        (&found.summary, &expected.summary),
        (&found.profile, &expected.profile),
        (&found.stats, &expected.stats),
        (&found.sidecar, &expected.sidecar),
    ] {
        assert_same_bytes(&fs::read(found).unwrap(), &fs::read(expected).unwrap());
    }
}

#[test]
fn failed_objects_are_tried_again_and_skipped_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let (skipped, failed) = (order(0, 0, 0), order(0, 1, 0));
    let mut store = ResultStore::create(dir.path(), settings()).unwrap();
    for (at, status) in [(skipped, Status::Skipped), (failed, Status::Failed)] {
        store.push(ObjectResult::unmeasured(at, unmeasured(at, status))).unwrap();
    }
    drop(store);
    let mut store = ResultStore::resume(dir.path(), settings()).unwrap();
    assert!(store.is_done(&key(0, 0, 0), 0));
    assert!(!store.is_done(&key(0, 1, 0), 0));
    store.push(measured(failed, 1)).unwrap();
    let statuses: Vec<_> = store.summaries().map(|row| row.pooled.status).collect();
    assert_eq!(statuses, [Status::Skipped, Status::Ok]);
    // The second attempt replaced the first for good.
    drop(store);
    let store = ResultStore::resume(dir.path(), settings()).unwrap();
    assert_eq!((store.done_before(), store.runs().count()), (2, 2));
}

#[test]
fn other_settings_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    drop(ResultStore::create(dir.path(), settings()).unwrap());
    let error = ResultStore::resume(dir.path(), settings().with("imgsz", 1024)).err().unwrap();
    let text = format!("{error:#}");
    assert!(text.contains("rows.jsonl"), "{text}");
    assert!(text.contains("imgsz was 768 and is 1024"), "{text}");
    assert!(text.contains("--out-dir"), "{text}");
}

#[test]
fn a_damaged_line_in_the_middle_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ResultStore::create(dir.path(), settings()).unwrap();
    store.push(measured(order(0, 0, 0), 1)).unwrap();
    store.push(measured(order(0, 1, 0), 1)).unwrap();
    drop(store);
    let journal = dir.path().join("rows.jsonl");
    let text = fs::read_to_string(&journal).unwrap().replacen("\"order\"", "\"odor\"", 1);
    fs::write(&journal, text).unwrap();
    let error = ResultStore::resume(dir.path(), settings()).err().unwrap();
    assert!(format!("{error:#}").contains("rows.jsonl: line 2 is damaged"), "{error:#}");
}

#[test]
fn a_crash_before_the_first_row_leaves_nothing_to_trip_over() {
    for content in ["", "{\"format\":\"segtrt ro", "\0\0\0\0"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("rows.jsonl"), content).unwrap();
        let mut store = ResultStore::resume(dir.path(), settings()).unwrap();
        store.push(measured(order(0, 0, 0), 1)).unwrap();
        drop(store);
        assert_eq!(ResultStore::resume(dir.path(), settings()).unwrap().done_before(), 1);
    }
}

#[test]
fn a_new_run_sets_the_old_journal_aside() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ResultStore::create(dir.path(), settings()).unwrap();
    store.push(measured(order(0, 0, 0), 1)).unwrap();
    drop(store);
    let store = ResultStore::create(dir.path(), settings()).unwrap();
    assert_eq!(store.summaries().count(), 0);
    let previous = fs::read_to_string(dir.path().join("rows.previous.jsonl")).unwrap();
    assert_eq!(previous.lines().count(), 2);
    // Nor does the table of the old run stay behind.
    assert!(first_columns(&dir.path().join(summary_csv::FILE_NAME), 3).is_empty());
    assert!(!dir.path().join(stats_json::FILE_NAME).exists());
    // Nor are its rows lost to a third run, and a fourth.
    drop(store);
    for count in 3..=4 {
        drop(ResultStore::create(dir.path(), settings()).unwrap());
        let first = fs::read_to_string(dir.path().join("rows.previous-2.jsonl")).unwrap();
        assert_eq!(first, previous);
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let journals = names.filter(|name| name.to_string_lossy().starts_with("rows"));
        assert_eq!(journals.count(), count);
    }
}

#[test]
fn two_runs_may_not_write_one_directory() {
    let dir = tempfile::tempdir().unwrap();
    let _first = ResultStore::create(dir.path(), settings()).unwrap();
    let error = ResultStore::create(dir.path(), settings()).err().unwrap();
    assert!(format!("{error:#}").contains("another segtrt"), "{error:#}");
}

#[test]
fn every_row_is_on_disk_in_the_journal_when_push_returns() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ResultStore::create(dir.path(), settings()).unwrap();
    for video in 0..20 {
        store.push(measured(order(video, 0, 0), 1)).unwrap();
        let journal = fs::read_to_string(dir.path().join("rows.jsonl")).unwrap();
        assert_eq!(journal.lines().count(), video + 2);
    }
}

#[test]
fn quick_rows_do_not_rewrite_the_tables_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ResultStore::create(dir.path(), settings()).unwrap();
    let table = dir.path().join(summary_csv::FILE_NAME);
    let (mut rewritten, mut latest) = (0, fs::read(&table).unwrap());
    let started = std::time::Instant::now();
    for video in 0..200 {
        store.push(measured(order(video, 0, 0), 1)).unwrap();
        let now = fs::read(&table).unwrap();
        rewritten += usize::from(now != latest);
        latest = now;
    }
    // Every half second at most; all 200 times would make a long run quadratic.
    let allowed = started.elapsed().as_millis() as usize / 500 + 1;
    assert!(rewritten <= allowed, "{rewritten} times in {:?}", started.elapsed());
    let files = store.finish(&Sidecar::default()).unwrap();
    assert_eq!(first_columns(&files.summary, 1).len(), 200);
}

#[test]
fn the_sidecar_holds_every_frame() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ResultStore::create(dir.path(), settings()).unwrap();
    let skipped = order(0, 0, 0);
    store.push(measured(order(1, 0, 1), 2)).unwrap();
    store.push(ObjectResult::unmeasured(skipped, unmeasured(skipped, Status::Skipped))).unwrap();
    let mut facts = Sidecar { timed_region: "encoder to mask".into(), ..Sidecar::default() };
    facts.environment.insert("cpu".into(), "a \"fast\" one".into());
    let files = store.finish(&facts).unwrap();
    let sidecar: Value = serde_json::from_slice(&fs::read(files.sidecar).unwrap()).unwrap();
    assert_eq!(sidecar["environment"]["cpu"], "a \"fast\" one");
    assert_eq!(sidecar["configuration"]["imgsz"], 768);
    assert_eq!(sidecar["configuration_sha256"], settings().sha256());
    let passes = sidecar["passes"].as_array().unwrap();
    assert_eq!(passes.len(), 2);
    assert_eq!((&passes[1]["model"], &passes[1]["run"]), (&"m1".into(), &1.into()));
    let times = &passes[1]["frame_times"];
    assert_eq!(times["frame"], serde_json::json!([0, 1, 2, 3]));
    assert_eq!(times["latency_ms"][3], 13.333333);
    assert_eq!(times["encoder_ms"][0], 5.5);
    assert_eq!(times.get("track_ms"), None);
}

#[test]
fn a_number_that_json_cannot_hold_is_refused_before_it_spoils_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ResultStore::create(dir.path(), settings()).unwrap();
    let mut result = measured(order(0, 0, 0), 1);
    if let Some(numbers) = &mut result.runs[0].measured {
        numbers.speed.first_frame_ms = f64::NAN;
    }
    assert!(format!("{:#}", store.push(result).unwrap_err()).contains("NaN"));
    drop(store);
    assert_eq!(ResultStore::resume(dir.path(), settings()).unwrap().done_before(), 0);
}

#[test]
fn an_unwritable_directory_shows_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("taken");
    fs::write(&file, "").unwrap();
    let error = ResultStore::create(&file, settings()).err().unwrap();
    assert!(format!("{error:#}").contains("choose a writable --out-dir"), "{error:#}");
}
