//! A bench over a video file: what its rows say of the decoder, and what is left of its frames
//! whatever ends it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use predicates::prelude::*;
use predicates::str::contains;

use crate::bench_gpu::{PADDED, Setting};
use crate::selftest::fakes::nvjpeg;
use crate::support::{bench, column, require_onnxruntime, segtrt, synth};

const SUMMARY: &str = "sav_benchmark_summary.csv";
const SIGNALS: [&str; 4] = ["INT", "TERM", "HUP", "KILL"];

/// A split whose clip is a video file; none, said aloud, without ffmpeg.
fn film(dir: &Path, frames: usize) -> Option<PathBuf> {
    let split = synth(dir, 1, 1, frames);
    to_film(&split).then_some(split)
}

/// Makes a video file of the JPEGs of the first clip.
fn to_film(split: &Path) -> bool {
    if crate::dataset::film::ffmpeg().is_none() {
        return false;
    }
    let frames = split.join("JPEGImages_24fps/synth_000");
    fs::create_dir(split.join("video_fps_24")).unwrap();
    let mut command = Command::new("ffmpeg");
    command.args(["-loglevel", "error", "-nostdin", "-framerate", "24", "-i"]);
    command.arg(frames.join("%05d.jpg")).args(["-c:v", "ffv1"]);
    assert!(command.arg(split.join("video_fps_24/synth_000.mkv")).status().unwrap().success());
    fs::remove_dir_all(split.join("JPEGImages_24fps")).unwrap();
    true
}

#[test]
fn rows_and_sidecar_name_what_decoded_a_video() {
    let dir = tempfile::tempdir().unwrap();
    let Some(split) = film(dir.path(), 6) else { return };
    let out = dir.path().join("out");
    bench(&split, &out).assert().success();
    let fidelity = &column(&out.join(SUMMARY), "fidelity")[0];
    let sidecar: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("sidecar.json")).unwrap()).unwrap();
    let decoder = sidecar["environment"]["video_decoder"].as_str().unwrap();
    assert!(decoder.starts_with("ffmpeg-"), "{decoder}");
    let resize = fidelity.split('/').nth(3).unwrap();
    assert!(resize.ends_with(&format!("-{decoder}")), "{fidelity}");
    assert_eq!(fidelity.split('/').count(), 6, "{fidelity}");
    // What was decoded is the one file.
    let bytes = fs::metadata(split.join("video_fps_24/synth_000.mkv")).unwrap().len();
    assert_eq!(sidecar["inputs"]["synth_000/frames"]["bytes"], bytes);
    // Frames that are decoded ahead are of that decoder too.
    let ready = dir.path().join("ready");
    let mut command = segtrt();
    command.args(["predecode", "--imgsz", "256", "--values", "u8", "--out-dir"]).arg(&ready);
    command.arg("--split-dir").arg(&split).assert().success();
    let page = fs::read(ready.join("synth_000__256_stretch_u8.frames")).unwrap();
    let header = String::from_utf8_lossy(&page[..4096]);
    assert!(header.contains(&format!(r#""decoder":"{decoder}""#)), "{header}");
    let again = dir.path().join("again");
    bench(&split, &again).arg("--predecoded").arg(&ready).assert().success();
    let fidelity = &column(&again.join(SUMMARY), "fidelity")[0];
    assert!(fidelity.contains("-predecoded-u8") && fidelity.contains(decoder), "{fidelity}");
}

#[test]
fn a_gpu_measures_a_video_and_nvjpeg_refuses_it_by_name() {
    let (Some(setting), Some(nvjpeg)) = (Setting::new(1, 8, &PADDED), nvjpeg()) else { return };
    if !to_film(&setting.split) {
        return;
    }
    setting.cpu("cpu").assert().success();
    setting.gpu("gpu").assert().success();
    assert!(setting.masks("gpu") == setting.masks("cpu"));
    let mut command = setting.gpu("nvjpeg");
    command.args(["--jpeg-decoder", "nvjpeg"]).env("SEGTRT_NVJPEG_LIB", nvjpeg).assert().failure();
    let reason = &setting.column("nvjpeg", "reason")[0];
    for part in ["unreadable_frame: ", "synth_000.mkv", "it is a video", "--jpeg-decoder turbo"] {
        assert!(reason.contains(part), "no {part:?} in {reason}");
    }
}

/// A bench over `split` that does not end by itself, with temporary files in `temporary`.
fn started(split: &Path, temporary: &Path, out: &Path) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("segtrt"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["bench", "--models", "edgetam_mini_points", "--threads", "1"])
        .args(["--profile-runs", "1000", "--split-dir"])
        .arg(split)
        .arg("--out-dir")
        .arg(out)
        .env("TMPDIR", temporary)
        // What `make test` sets for this process; the program has to set it for its worker.
        .env_remove("ORT_DISABLE_TELEMETRY")
        .env("ORT_DYLIB_PATH", require_onnxruntime())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Files below `/proc/PID/fd` of the process or its worker that lie in `folder` and have no name.
fn unnamed(folder: &Path) -> usize {
    let here = folder.display().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let open = processes.filter_map(|process| fs::read_dir(process.path().join("fd")).ok());
    let open = open.flatten().flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
    open.filter(|path| {
        let path = path.display().to_string();
        path.starts_with(&here) && path.ends_with(" (deleted)")
    })
    .count()
}

#[test]
fn nobody_sees_the_frames_of_a_video_and_no_signal_leaves_them_behind() {
    let dir = tempfile::tempdir().unwrap();
    let Some(split) = film(dir.path(), 8) else { return };
    let temporary = dir.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let names = || fs::read_dir(&temporary).unwrap().count();
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < deadline, "not in 60 s: {what}");
            assert_eq!(names(), 0, "frames lie where others can read them");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    for signal in SIGNALS {
        let mut program = started(&split, &temporary, &dir.path().join(signal));
        wait("the frames are decoded", &|| unnamed(&temporary) > 0);
        let id = program.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        program.wait().unwrap();
        wait("the worker is gone", &|| unnamed(&temporary) == 0);
        assert_eq!(names(), 0, "{signal}");
    }
}

#[test]
fn a_full_disk_is_named_with_what_to_set() {
    let dir = tempfile::tempdir().unwrap();
    let Some(split) = film(dir.path(), 4) else { return };
    let absent = dir.path().join("no-such-folder");
    let mut command = bench(&split, &dir.path().join("out"));
    let failed = command.env("TMPDIR", &absent).assert().failure();
    failed.stderr(contains("no space for").and(contains("set TMPDIR to a folder with more")));
}
