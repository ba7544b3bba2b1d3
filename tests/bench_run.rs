//! The whole way on the CPU: clips to masks of the committed network to the standard files.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::support::{
    bench, child_of, column, read_csv, require_onnxruntime, segtrt, small_bundle, synth,
};

const SUMMARY: &str = "sav_benchmark_summary.csv";

#[test]
fn every_object_of_every_model_gets_its_row_with_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 2, 9);
    let out = dir.path().join("out");
    bench(&split, &out)
        .args(["--models", "edgetam_mini_points,edgetam_mini_bbox,edgetam_mini_mask"])
        .args(["--profile-runs", "2", "--warmup-runs", "1"])
        .assert()
        .success();

    let summary = out.join(SUMMARY);
    let keys: Vec<(String, String)> =
        column(&summary, "video").into_iter().zip(column(&summary, "model")).collect();
    let expected: Vec<(String, String)> = ["synth_000", "synth_001"]
        .iter()
        .flat_map(|video| {
            let tags = ["edgetam_mini_points", "edgetam_mini_bbox", "edgetam_mini_mask"];
            [tags, tags].concat().into_iter().map(|tag| ((*video).to_owned(), tag.to_owned()))
        })
        .collect();
    assert_eq!(keys, expected, "the predecessor's order: video, object, model");
    for name in [
        "fps",
        "latency_ms",
        "J",
        "F",
        "JandF",
        "cpu_peak_rss_MiB",
        "setup_ms",
        "first_frame_ms",
        "latency_p99_ms",
        "encoder_ms",
        "track_ms",
        "memory_ms",
        "decode_ms",
        "decode_p50_ms",
        "encoder_p99_ms",
        "prompt_p50_ms",
        "track_p99_ms",
    ] {
        for value in column(&summary, name) {
            let number: f64 = value.parse().unwrap_or_else(|_| panic!("{name} is {value:?}"));
            assert!(number.is_finite() && number >= 0.0, "{name} is {number}");
        }
    }
    assert!(column(&summary, "status").iter().all(|status| status == "ok"));
    assert!(column(&summary, "frames").iter().all(|frames| frames == "9"));
    // A CPU has no GPU memory, and nothing is enqueued: the columns stay empty rather than zero.
    for name in ["gpu_peak_alloc_MiB", "upload_p50_ms", "enqueue_ms", "launches", "graph_launches"]
    {
        assert!(column(&summary, name).iter().all(String::is_empty), "{name}");
    }

    let runs = column(&out.join("profile_summary.csv"), "run");
    assert_eq!(runs.iter().filter(|run| *run == "1").count(), 12);
    let text = fs::read_to_string(&summary).unwrap();
    assert!(text.lines().count() == 13 && text.matches("\r\n").count() == 13, "CRLF line ends");
    let stats: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("profile_stats.json")).unwrap()).unwrap();
    assert!(stats["edgetam_mini_mask"]["fps"]["median"].as_f64().unwrap() > 0.0);
    let sidecar: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("sidecar.json")).unwrap()).unwrap();
    let passes = sidecar["passes"].as_array().unwrap();
    assert_eq!(passes.len(), 24);
    assert_eq!(passes[0]["frame_times"]["latency_ms"].as_array().unwrap().len(), 9);
}

#[test]
fn results_lie_in_the_working_directory_and_nothing_in_the_split() {
    require_onnxruntime();
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let before = fs::read_dir(&split).unwrap().count();
    let place = dir.path().join("place");
    fs::create_dir(&place).unwrap();
    let mut command = segtrt();
    command.current_dir(&place).env("ORT_DYLIB_PATH", require_onnxruntime());
    command.args(["bench", "--models", "edgetam_mini_points", "--threads", "1", "--onnx-dir"]);
    command.arg(small_bundle().parent().unwrap()).arg("--split-dir").arg(&split);
    command.args(["--warmup-runs", "0", "--save-overlays"]).assert().success();
    assert_eq!(fs::read_dir(&split).unwrap().count(), before);
    // The folder may be moved: its table names the overlay below it.
    let out = place.join("benchmark_outputs");
    let overlay = column(&out.join(SUMMARY), "overlay").remove(0);
    assert!(!Path::new(&overlay).is_absolute() && out.join(&overlay).exists(), "{overlay}");
}

/// ONNX Runtime 1.29 and newer would keep a telemetry database and a session file.
#[test]
fn a_bench_writes_to_its_results_alone() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let (home, temporary) = (dir.path().join("home"), dir.path().join("tmp"));
    let empty = |folder: &Path| fs::read_dir(folder).unwrap().next().is_none();
    for folder in [&home, &temporary] {
        fs::create_dir(folder).unwrap();
    }
    let mut command = bench(&split, &dir.path().join("out"));
    command.env("HOME", &home).env("TMPDIR", &temporary).env_remove("XDG_CACHE_HOME");
    // Found before the home folder is another one.
    command.env("ORT_DYLIB_PATH", require_onnxruntime()).assert().success();
    assert!(empty(&home) && empty(&temporary));
}

#[test]
fn a_runner_starts_the_worker_and_its_rows_are_no_measurement() {
    let dir = tempfile::tempdir().unwrap();
    let (split, out) = (synth(dir.path(), 1, 1, 6), dir.path().join("out"));
    bench(&split, &out).env("SEGTRT_RUNNER", "env SEGTRT_SEEN='a b'").assert().success();
    assert_eq!(column(&out.join(SUMMARY), "verdict"), ["INVALID"]);
    let reason = &column(&out.join(SUMMARY), "verdict_reason")[0];
    let expected = "runner: not a measurement of this machine: SEGTRT_RUNNER (env SEGTRT_SEEN='a \
                    b') started the worker";
    assert!(reason.contains(expected), "{reason}");
    for (runner, words) in [
        ("/nonexistent/qemu", "cannot start a worker process by \"/nonexistent/qemu\""),
        ("qemu 'open", "SEGTRT_RUNNER is \"qemu 'open\"; expected a command with its arguments"),
    ] {
        let failed =
            bench(&split, &dir.path().join("failed")).env("SEGTRT_RUNNER", runner).assert();
        failed.code(1).stderr(predicates::str::contains(words));
    }
}

#[test]
fn the_same_pass_gives_the_same_masks_and_a_resume_measures_nothing_again() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 6);
    let out = dir.path().join("out");
    let masks = out.join("masks/synth_000__obj000__edgetam_mini_points.json");
    bench(&split, &out).arg("--save-masks").assert().success();
    let (first, rows) = (fs::read(&masks).unwrap(), fs::read(out.join(SUMMARY)).unwrap());
    bench(&split, &out).arg("--save-masks").assert().success();
    assert_eq!(fs::read(&masks).unwrap(), first, "masks differ between two runs");
    assert_ne!(fs::read(out.join(SUMMARY)).unwrap(), rows, "the second run measured anew");

    let rows = fs::read(out.join(SUMMARY)).unwrap();
    bench(&split, &out).arg("--resume").assert().success();
    assert_eq!(fs::read(out.join(SUMMARY)).unwrap(), rows, "the resumed run measured again");
    bench(&split, &out)
        .args(["--resume", "--geometry", "letterbox"])
        .assert()
        .code(1)
        .stderr(predicates::str::contains("geometry was \"stretch\" and is \"letterbox\""));
}

/// Masks and overlays are found by clip, object and tag: those of another run would pass for this one's.
#[test]
fn files_of_an_earlier_run_do_not_lie_beside_those_of_a_new_one_and_a_resumed_run_keeps_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 1, 4);
    let out = dir.path().join("out");
    let files = |folder: &str| {
        let entries = fs::read_dir(out.join(folder)).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    // Films, or folders of frames where no ffmpeg is; as masks are called.
    let overlays = |folder: &str| {
        let shown = files(folder).into_iter().filter(|name| name.contains("__obj"));
        shown.map(|name| format!("{}.json", name.trim_end_matches(".mp4"))).collect::<Vec<_>>()
    };
    let of = |video: &str, prompt: &str| format!("{video}__obj000__edgetam_mini_{prompt}.json");
    let save = ["--save-masks", "--save-overlays"];
    bench(&split, &out).args(save).args(["--limit-videos", "2"]).assert().success();
    let both = [of("synth_000", "points"), of("synth_001", "points")];
    assert_eq!((files("masks"), overlays("")), (both.to_vec(), both.to_vec()));
    bench(&split, &out).args(save).arg("--resume").assert().success();
    assert_eq!((files("masks"), files("masks.previous")), (both.to_vec(), vec![]));
    assert_eq!((overlays(""), overlays("overlays.previous")), (both.to_vec(), vec![]));

    // Other clips and another tag.
    let other = ["--limit-videos", "1", "--models", "edgetam_mini_bbox"];
    let said = bench(&split, &out).args(save).args(other).assert().success();
    let said = String::from_utf8(said.get_output().stderr.clone()).unwrap();
    for folder in ["masks.previous", "overlays.previous"] {
        assert!(said.contains(&format!("kept in {folder}")), "{said}");
    }
    let video = column(&out.join(SUMMARY), "video").remove(0);
    let one = [of(&video, "bbox")];
    assert_eq!((files("masks"), overlays("")), (one.to_vec(), one.to_vec()));
    assert_eq!(files("masks.previous"), both);
    assert_eq!(overlays("overlays.previous"), both);
    bench(&split, &out).arg("--resume").args(other).assert().success();
    assert_eq!((files("masks"), overlays("")), (one.to_vec(), one.to_vec()));

    // A run that saves none has none, and what it found is with its rows.
    bench(&split, &out).assert().success();
    assert_eq!((files("masks"), overlays("")), (vec![], vec![]));
    assert_eq!(
        (files("masks.previous"), overlays("overlays.previous")),
        (one.to_vec(), one.to_vec())
    );
    assert_eq!(files("masks.previous-2"), both);
    assert_eq!(overlays("overlays.previous-2"), both);
    assert!(out.join("rows.previous-2.jsonl").is_file());
}

#[test]
fn a_limited_clip_runs_only_its_first_frames() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 2, 9);
    let out = dir.path().join("out");
    let limits = ["--limit_videos", "1", "--limit-objects=1", "--max_clip_frames", "5"];
    bench(&split, &out).args(limits).assert().success();
    let (_, rows) = read_csv(&out.join(SUMMARY));
    assert_eq!(rows.len(), 1);
    assert_eq!(column(&out.join(SUMMARY), "frames"), ["5"]);
}

/// A bench over six objects whose journal holds its header and the first of them: its worker is at
/// the second one.
fn at_its_second_object(command: &assert_cmd::Command, out: &Path) -> Child {
    let mut bench = std::process::Command::new(command.get_program())
        .args(command.get_args())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let journal = out.join("rows.jsonl");
    let deadline = Instant::now() + Duration::from_secs(60);
    while lines(&journal) < 2 {
        if Instant::now() > deadline {
            bench.kill().unwrap();
            panic!("no row within a minute");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    bench
}

/// Sends its worker a signal; the worker's process id.
fn signal_worker(bench: &Child, signal: &str) -> String {
    let worker = child_of(bench.id()).expect("a worker runs").to_string();
    let sent = std::process::Command::new("kill").args([signal, &worker]).status();
    assert!(sent.unwrap().success());
    worker
}

/// Five of the six objects have their rows; where the rows are.
fn one_object_failed(mut bench: Child, status: ExitStatus, out: &Path) -> PathBuf {
    let mut stderr = String::new();
    bench.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{stderr}");
    let summary = out.join(SUMMARY);
    let statuses = column(&summary, "status");
    let count = |wanted: &str| statuses.iter().filter(|status| *status == wanted).count();
    assert_eq!((count("failed"), count("ok"), statuses.len()), (1, 5, 6), "{stderr}");
    summary
}

#[test]
fn a_killed_worker_costs_one_object_and_the_rest_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 3, 2, 16);
    let out = dir.path().join("out");
    let mut bench = at_its_second_object(&bench(&split, &out), &out);
    signal_worker(&bench, "-9");
    let status = bench.wait().unwrap();
    let summary = one_object_failed(bench, status, &out);
    let reasons = column(&summary, "reason");
    assert!(reasons.iter().any(|r| r.starts_with("worker_died: ") && r.contains("signal 9")));
}

/// A worker that is stopped stands for one that hangs: it is there, and finishes no frame.
#[test]
fn a_worker_that_hangs_costs_one_object_and_the_rest_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 3, 2, 16);
    let out = dir.path().join("out");
    let mut command = bench(&split, &out);
    command.args(["--stall-limit", "3"]);
    let mut bench = at_its_second_object(&command, &out);
    let worker = signal_worker(&bench, "-STOP");
    let deadline = Instant::now() + Duration::from_secs(120);
    let status = loop {
        if let Some(status) = bench.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            // The worker ends with it.
            bench.kill().unwrap();
            panic!("the bench waits for a worker that hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let summary = one_object_failed(bench, status, &out);
    let reasons = column(&summary, "reason");
    let told = |reason: &&String| reason.starts_with("worker_stalled: nothing for 3 s after ");
    assert!(reasons.iter().any(|reason| told(&reason)), "{reasons:?}");
    assert!(!Path::new(&format!("/proc/{worker}")).exists(), "it was ended");
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.matches('\n').count())
}
