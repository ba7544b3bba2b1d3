//! Several clips at once on a GPU, on stand-ins for driver, kernels and TensorRT 8.6: each lane is a
//! thread with streams, memory and captured graphs of its own, in one context.

use std::fs;

use predicates::str::contains;
use report::compare::runs::RunFolder;

use crate::bench_gpu::{PADDED, Setting};
use crate::support::column;

#[test]
fn each_clip_has_the_masks_that_it_has_alone_beside_any_others() {
    let Some(setting) = Setting::of_clips(3, 1, 12, &PADDED) else { return };
    setting.cpu("cpu").assert().success();
    let expected = setting.masks("cpu");
    // Lazy streams, and any order. Five lanes are more than there are objects.
    for (lanes, seed) in [("3", "77"), ("5", "0")] {
        let mut command = setting.gpu("out");
        command.args(["--lanes", lanes, "--profile-runs", "2"]).env("FAKE_CUDA_SEED", seed);
        command.env("RUST_LOG", "info");
        let told =
            String::from_utf8(command.assert().success().get_output().stderr.clone()).unwrap();
        assert!(setting.masks("out") == expected, "{lanes} lanes, seed {seed}");
        let of = |name: &str| setting.column("out", name);
        for (name, value) in
            [("lanes", lanes), ("mode", "offline"), ("runs", "2"), ("frames", "12")]
        {
            assert_eq!(of(name), [value; 3], "{name}");
        }
        // Each lane has engines of its own where shapes are open: TensorRT 8 asks for it.
        let own = "lanes has engines of its own for prompt, memory, track_padded:";
        let own = format!("each of {lanes} {own}");
        assert!(told.contains(&own), "{told}");
        for name in ["fps", "latency_p50_ms", "latency_p99_ms", "encoder_ms"] {
            assert!(of(name).iter().all(|value| value.parse::<f64>().unwrap() > 0.0), "{name}");
        }
        // A lane's calls wait for those of others, so their time is none of the frame's.
        assert_eq!(
            (of("enqueue_ms"), of("launches")),
            (vec![String::new(); 3], vec!["4".to_owned(); 3])
        );
        let busy = of("decode_busy").iter().all(|busy| busy.parse::<f64>().is_ok());
        assert!(busy, "{:?}", of("decode_busy"));
        let waits =
            of("decode_wait").iter().map(|wait| wait.parse::<f64>().unwrap()).collect::<Vec<_>>();
        assert!(waits.iter().all(|wait| (0.0..1.0).contains(wait)), "{waits:?}");
        let limits = of("limited_by");
        assert!(limits.iter().all(|by| by == "gpu" || by == "decode"), "{limits:?}");
        // Readers of the folder see frames that overlap.
        let folder = RunFolder::read(&setting.path("out")).unwrap();
        assert!(folder.rows.iter().all(|row| row.mode == "offline"));
    }
    let sidecar = fs::read_to_string(setting.path("out/sidecar.json")).unwrap();
    assert!(sidecar.contains("\"lanes\": 5") && sidecar.contains("lane_latency_ms"), "{sidecar}");
    assert!(sidecar.contains("\"launches\"") && !sidecar.contains("\"enqueue_ms\""), "{sidecar}");
    // Tables of other runs keep their columns.
    let summary = fs::read_to_string(setting.path("cpu/sav_benchmark_summary.csv")).unwrap();
    assert!(!summary.contains("lanes") && !summary.contains("limited_by"), "{summary}");
}

#[test]
fn the_rate_against_the_lanes_is_a_page() {
    let Some(setting) = Setting::of_clips(2, 1, 6, &PADDED) else { return };
    setting.sweep("sweep", "lanes=1,2").assert().success();
    let table = setting.path("sweep/sweep.csv");
    let of = |name: &str| column(&table, name);
    assert_eq!(of("combination"), ["lanes_01", "lanes_02"]);
    assert_eq!(of("masks"), ["reference", "same"]);
    assert_eq!(of("swept lanes"), ["1", "2"]);
    let page = fs::read_to_string(setting.path("sweep/sweep.html")).unwrap();
    assert!(page.contains("plot-sweep_edgetam_mini_points_rate"));
}

#[test]
fn a_bad_clip_costs_its_own_rows_alone() {
    let Some(setting) = Setting::of_clips(3, 1, 10, &PADDED) else { return };
    setting.gpu("whole").args(["--lanes", "2"]).assert().success();
    let whole = setting.masks("whole");
    // Beyond the frames of the warm-up, which has one clip of each size.
    fs::write(setting.split.join("JPEGImages_24fps/synth_001/00007.jpg"), "no JPEG").unwrap();
    let wrong = setting.gpu("out").args(["--lanes", "2"]).assert().code(1);
    wrong.stdout(contains("frames a second by 2 lanes"));
    assert_eq!(setting.column("out", "status"), ["ok", "failed", "ok"]);
    assert!(setting.column("out", "reason")[1].contains("00007.jpg"));
    let masks = setting.masks("out");
    assert!(masks == [whole[0].clone(), whole[2].clone()]);
    // The clip that the warm-up takes.
    fs::write(setting.split.join("JPEGImages_24fps/synth_000/00001.jpg"), "no JPEG").unwrap();
    setting.gpu("out").args(["--lanes", "2"]).assert().code(1);
    assert_eq!(setting.column("out", "status"), ["failed", "failed", "ok"]);
    assert!(setting.column("out", "reason")[0].contains("00001.jpg"));
}

#[test]
fn a_lost_device_costs_one_object_and_another_worker_goes_on() {
    let Some(setting) = Setting::of_clips(4, 1, 8, &PADDED) else { return };
    let fault = setting.path("fault");
    fs::write(&fault, "").unwrap();
    let mut command = setting.gpu("out");
    // Two warm-ups make 16 masks.
    command.args(["--lanes", "2"]).env("FAKE_CUDA_FAULT", &fault).env("FAKE_CUDA_FAULT_AT", "21");
    command
        .assert()
        .code(1)
        .stderr(contains("2 clips ran at once, and any of them may be the cause"));
    let mut states = setting.column("out", "status");
    states.sort();
    assert_eq!(states, ["failed", "ok", "ok", "ok"]);
}

#[test]
fn a_lane_without_memory_is_named_with_what_to_type() {
    let Some(setting) = Setting::of_clips(2, 1, 4, &PADDED) else { return };
    setting.gpu("one").args(["--lanes", "1"]).assert().success();
    let peak: f64 = setting.column("one", "gpu_peak_alloc_MiB")[0].parse().unwrap();
    let room = ((1.5 * peak) as u64) << 20;
    let mut command = setting.gpu("out");
    command.args(["--lanes", "4"]).env("FAKE_CUDA_MEMORY", room.to_string()).assert().code(1);
    for reason in setting.column("out", "reason") {
        for part in ["lane 2 of 4: ", "MiB of GPU memory were free; use --lanes 1"] {
            assert!(reason.contains(part), "{reason}");
        }
    }
}

#[test]
fn flags_that_a_lane_does_not_have_are_refused() {
    let Some(setting) = Setting::new(1, 4, &PADDED) else { return };
    for (flags, says) in [
        (&["--mode", "throughput"][..], "leave --mode throughput out"),
        (&["--objects-together", "2"], "a lane tracks one object"),
        (&["--object-streams"], "a lane tracks one object"),
        (&["--stereo"], "a lane runs one clip"),
        (&["--encode", "masks"], "leave --encode out"),
        (&["--save-logits"], "no measurement of speed"),
        (&["--encode-batch", "2"], "--mode throughput"),
        (&["--lanes", "65"], "65 is not in 1..=64"),
    ] {
        let mut command = setting.gpu("out");
        command.args(flags);
        if flags[0] != "--lanes" {
            command.args(["--lanes", "2"]);
        }
        command.assert().code(2).stderr(contains(says));
    }
    let refused = setting.cpu("out").args(["--lanes", "2"]).assert().code(2);
    refused.stderr(contains("--lanes needs --backend tensorrt, where several clips run at once"));
}
