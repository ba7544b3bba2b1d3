//! Stages of a profiled pass on stand-ins for the GPU: by events from the pass, projected from a
//! made-up export.

use std::path::Path;

use assert_cmd::Command;
use predicates::str::contains;

use super::{FAKE, PROFILE};
use crate::bench_gpu::{PADDED, Setting};
use crate::nsys::made::{MAIN, Made};
use crate::selftest::fakes::shared;
use crate::support::{column, read_csv, require_onnxruntime, script, segtrt};

const FRAMES: i64 = 5;

/// The report of a pass after a warm-up frame, whose encoder is the slowest. The encoder takes 1.0,
/// 1.2 … 1.8 ms, the prompt 3 ms, the track step 0.5 ms. One frame's memory launched nothing.
fn export(path: &Path) {
    let mut made = Made::new(path);
    made.domain();
    let mut number = 0;
    let mut stage = |made: &mut Made, name: &str, start: i64, work_us: i64| {
        made.range(name, start, start + 50_000);
        number += 1;
        made.call("cudaGraphLaunch_v10000", start + 10, start + 20_000, number, MAIN);
        made.kernel(name, start + 100_000, start + 100_000 + work_us * 1000, number);
    };
    made.range("warmup", 0, 20_000_000);
    made.range("pipeline", 10, 19_000_000);
    stage(&mut made, "encoder", 1000, 9000);
    for frame in 0..FRAMES {
        let start = 30_000_000 + 10_000_000 * frame;
        made.range("pipeline", start, start + 9_000_000);
        stage(&mut made, "encoder", start + 10, 1000 + 200 * frame);
        match frame {
            0 => stage(&mut made, "prompt", start + 60_000, 3000),
            _ => stage(&mut made, "track", start + 60_000, 500),
        }
        match frame {
            2 => made.range("memory", start + 200_000, start + 250_000),
            _ => stage(&mut made, "memory", start + 200_000, 700),
        }
    }
}

/// `segtrt profile -- bench …` on the stand-ins into the folder `out`.
fn profile(setting: &Setting, out: &str, flags: &[&str], more: &[&str]) -> Command {
    let nsys = script(&setting.path("bin/nsys"), FAKE);
    let mut command = segtrt();
    command.arg("profile").args(flags).arg("--").args(setting.gpu(out).get_args()).args(more);
    command.env("LD_LIBRARY_PATH", shared().unwrap().dir());
    command.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime());
    command.env("NSYS_CMD", nsys).env("FAKE_NSYS_LOG", setting.path("nsys.log"));
    command
}

#[test]
fn rows_have_projected_stage_times_beside_those_by_events() {
    let Some(setting) = Setting::new(1, FRAMES as usize, &PADDED) else { return };
    let rows = setting.path("out").join(PROFILE);
    let cell = |name: &str| column(&rows, name).remove(0);
    let is_time = |name: &str| cell(name).parse::<f64>().is_ok_and(|ms| ms >= 0.0);

    // A report that cannot be read costs no row.
    profile(&setting, "out", &[], &[])
        .assert()
        .success()
        .stdout(contains("1 of 1 reports"))
        .stderr(contains("no projected stage times of"))
        .stderr(contains("cannot export"))
        .stderr(contains("Look at it with: segtrt nsys"));
    let report = cell("nsight_report");
    assert!(Path::new(&report).is_file() && cell("status") == "ok");
    assert!(is_time("encoder_ms") && is_time("encoder_profiled_ms"));
    assert_eq!(cell("encoder_projected_ms"), "");

    // Once it can be read, nothing is recorded again.
    let made = setting.path("made.sqlite");
    export(&made);
    let timed = cell("encoder_profiled_ms");
    profile(&setting, "out", &[], &["--resume"])
        .env("FAKE_EXPORT", &made)
        .assert()
        .success()
        .stderr(contains("its report is there already"))
        .stdout(contains("edgetam_mini_points: stages under nsys, means of 1 pass"))
        .stdout(contains("projected ms"));
    let recorded = std::fs::read_to_string(setting.path("nsys.log")).unwrap();
    assert_eq!(recorded.lines().count(), 1, "{recorded}");
    assert_eq!((cell("nsight_report"), cell("encoder_profiled_ms")), (report, timed));
    // Without the warm-up's 9 ms. Of the memory one frame is missing.
    for (name, expected) in [
        ("encoder_projected_ms", "1.4"),
        ("prompt_projected_ms", "3.0"),
        ("track_projected_ms", "0.5"),
        ("memory_projected_ms", ""),
        ("upload_projected_ms", ""),
    ] {
        assert_eq!(cell(name), expected, "{name}");
        assert_eq!(setting.column("out", name), [expected], "{name} of the summary");
    }
    for name in ["upload", "preprocess", "prompt", "track", "memory", "postprocess", "download"] {
        assert!(is_time(&format!("{name}_profiled_ms")), "{name}");
    }

    // A resumed bench keeps them, and the report shows them.
    setting.gpu("out").arg("--resume").assert().success();
    assert_eq!(cell("encoder_projected_ms"), "1.4");
    let page = setting.path("page.html");
    segtrt().arg("report").arg(setting.path("out")).arg("-o").arg(&page).assert().success();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Projected ms") && page.contains("1.400"));
}

#[test]
fn json_has_the_stages_of_each_model() {
    let Some(setting) = Setting::new(1, FRAMES as usize, &PADDED) else { return };
    let made = setting.path("made.sqlite");
    export(&made);
    let output =
        profile(&setting, "out", &["--json"], &[]).env("FAKE_EXPORT", &made).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let model = &document["stages"][0];
    assert_eq!((&model["model"], &model["passes"]), (&"edgetam_mini_points".into(), &1.into()));
    let encoder = &model["stages"][0];
    assert_eq!(encoder["stage"], "encoder");
    let [event, projected, difference] =
        ["event_ms", "projected_ms", "difference_ms"].map(|name| encoder[name].as_f64().unwrap());
    assert!((projected - 1.4).abs() < 1e-9 && (event - projected - difference).abs() < 1e-9);
}

#[test]
fn overlapping_frames_have_no_such_columns() {
    let Some(setting) = Setting::new(1, FRAMES as usize, &PADDED) else { return };
    let made = setting.path("made.sqlite");
    export(&made);
    profile(&setting, "out", &[], &["--mode", "throughput"])
        .env("FAKE_EXPORT", &made)
        .assert()
        .success()
        .stdout(contains("1 of 1 reports"));
    let (header, _) = read_csv(&setting.path("out").join(PROFILE));
    let found =
        header.iter().filter(|name| name.contains("_projected_") || name.contains("_profiled_"));
    assert_eq!(found.count(), 0, "{header:?}");
}
