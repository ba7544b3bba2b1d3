//! What the tests of the program share: the command, a small split, the small bundle, ONNX Runtime.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use assert_cmd::Command;
use flate2::read::GzDecoder;
use ort::environment::Environment;

/// A file of `tests/data`, inflated if its name ends in gz.
pub fn golden(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let bytes = std::fs::read(path).unwrap();
    if !name.ends_with(".gz") {
        return bytes;
    }
    let mut inflated = Vec::new();
    GzDecoder::new(bytes.as_slice()).read_to_end(&mut inflated).unwrap();
    inflated
}

/// The program under test, with nothing of the caller's environment that could change a result.
pub fn segtrt() -> Command {
    let mut command = Command::cargo_bin("segtrt").expect("the program is built with the tests");
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    for name in [
        "RUST_LOG",
        "SEGTRT_ONNX_DIR",
        "SEGTRT_RUNNER",
        "SEGTRT_STALL_LIMIT",
        "ORT_DISABLE_TELEMETRY",
    ] {
        command.env_remove(name);
    }
    // Nobody's installed bundles, only those of the sources.
    command.env("SEGTRT_SHARE", "/nonexistent/segtrt");
    command
}

/// A bench over `split` with the small bundle, writing to `out`.
pub fn bench(split: &Path, out: &Path) -> Command {
    require_onnxruntime();
    let mut command = segtrt();
    command.args([
        "bench",
        "--models",
        "edgetam_mini_points",
        "--warmup-runs",
        "0",
        "--threads",
        "1",
    ]);
    command.arg("--split-dir").arg(split).arg("--out-dir").arg(out);
    command
}

/// Writes a synthetic split and returns its folder.
pub fn synth(dir: &Path, videos: usize, objects: usize, frames: usize) -> PathBuf {
    let out = dir.join("split");
    let numbers = [videos, objects, frames].map(|n| n.to_string());
    segtrt()
        .args(["synth", "--videos", &numbers[0], "--objects", &numbers[1], "--frames", &numbers[2]])
        .args(["--size", "160x120", "--seed", "3", "--out"])
        .arg(&out)
        .assert()
        .success();
    out
}

/// The committed bundle.
pub fn small_bundle() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("onnx/bundles/edgetam_mini_256_fp32")
}

/// ONNX Runtime is part of what `make test` prepares; a suite without it would prove little.
pub fn require_onnxruntime() -> PathBuf {
    runtime::backend::find_library(None)
        .expect("these tests run a network: `make test` installs ONNX Runtime first")
}

/// ONNX Runtime, opened once: a process may have one environment, and tests run side by side.
pub fn onnxruntime() -> &'static Environment {
    static OPENED: OnceLock<Environment> = OnceLock::new();
    OPENED.get_or_init(|| {
        let (environment, _) =
            runtime::backend::open(Some(&require_onnxruntime())).expect("ONNX Runtime opens");
        environment
    })
}

/// A CSV file as header and rows of fields.
pub fn read_csv(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let mut reader = csv::Reader::from_path(path).expect("a CSV file");
    let header = reader.headers().expect("a header").iter().map(str::to_owned).collect();
    let rows = reader.records().map(|row| row.expect("a row").iter().map(str::to_owned).collect());
    (header, rows.collect())
}

/// One column of a CSV file.
pub fn column(path: &Path, name: &str) -> Vec<String> {
    let (header, rows) = read_csv(path);
    let at = header.iter().position(|column| column == name);
    let at = at.unwrap_or_else(|| panic!("no column {name} in {}", path.display()));
    rows.into_iter().map(|row| row[at].clone()).collect()
}

/// An nsys that runs, of those that the program itself finds or unpacked below target/nsys; none,
/// said aloud, where there is none.
pub fn nsys() -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/nsys/nsys");
    let found = report::nsys::Nsys::find().or_else(|_| report::nsys::Nsys::at(&unpacked));
    if let (Err(error), true) = (&found, std::env::var_os("NSYS_CMD").is_some()) {
        panic!("{error}");
    }
    if found.is_err() {
        eprintln!("SKIPPED: no nsys; name one with NSYS_CMD, or unpack one into target/nsys");
    }
    found.ok().map(|nsys| nsys.path)
}

/// Writes a shell script that can be run. Another process writes it: a file that this one has open
/// for writing while another test forks cannot be run.
pub fn script(path: &Path, text: &str) -> PathBuf {
    std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder");
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" >"$0" && chmod +x "$0""#;
    let written = std::process::Command::new("sh").args(["-c", write]).arg(path).arg(text).status();
    assert!(written.expect("sh runs").success());
    path.to_owned()
}

/// Copies a folder with all that is in it.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// What a frame gave.
#[derive(PartialEq, serde::Deserialize)]
pub struct Frame {
    pub mask: vos::rle::Rle,
    pub objectness: f32,
    pub predicted_iou: f32,
}

/// The frames of all objects that a run saved, object by object.
pub fn frames_of(run: &Path) -> Vec<Frame> {
    #[derive(serde::Deserialize)]
    struct Frames {
        frames: Vec<Frame>,
    }
    let entries = std::fs::read_dir(run.join("masks")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: &PathBuf| -> Frames {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    files.iter().flat_map(|path| read(path).frames).collect()
}

/// The lowest IoU of any frame of one run with the same frame of another.
pub fn lowest_iou(expected: &[Frame], found: &[Frame]) -> f64 {
    assert_eq!(expected.len(), found.len());
    let frames = expected.iter().zip(found);
    frames.fold(1.0_f64, |iou, (expected, found)| {
        iou.min(expected.mask.to_mask().unwrap().iou(&found.mask.to_mask().unwrap()))
    })
}

/// Starts `command`, kills it once a bench of its is at work on something in `folder`, and waits
/// for that bench to be gone.
#[cfg(target_os = "linux")]
pub fn killed_it_leaves_no_bench(command: &mut std::process::Command, folder: &Path) {
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    let wait = |what: &str, limit: u64, done: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(limit);
        while !done() {
            assert!(Instant::now() < deadline, "not after {limit} s: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut program = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("ORT_DYLIB_PATH", require_onnxruntime())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("segtrt starts");
    let at_work = || processes_with(folder).iter().any(|line| line.contains(" bench "));
    wait("a bench is at work", 60, &at_work);
    program.kill().expect("it runs");
    program.wait().expect("it is our child");
    wait("the bench is gone", 20, &|| !at_work());
}

/// The worker's process id, found as the only child of `parent`.
pub fn child_of(parent: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The command lines of running processes that name `path`, words parted by blanks.
pub fn processes_with(path: &Path) -> Vec<String> {
    let path = path.display().to_string();
    let entries = std::fs::read_dir("/proc").expect("there is /proc").flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&path)).collect()
}
