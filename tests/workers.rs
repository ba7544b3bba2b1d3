//! Worker processes: jobs that cannot be handed over, threads that cannot be started.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use crate::build_engines::{rtx, table};
use crate::support::{bench, copy, require_onnxruntime, segtrt, small_bundle, synth};

/// Whoever works on for longer waits for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// More than any machine has for a thread's stack: none can be started.
const NO_THREADS: (&str, &str) = ("RUST_MIN_STACK", "1000000000000000");

/// What a command printed, which must come to its end.
fn printed(command: &mut assert_cmd::Command) -> (Option<i32>, String) {
    let ended = command.timeout(PATIENCE).output().unwrap();
    let text = [ended.stdout, ended.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(ended.status.code().is_some(), "it did not end: {text}");
    assert!(!text.contains("panicked"), "{text}");
    (ended.status.code(), text)
}

/// Jobs are JSON, and JSON is UTF-8. A worker that was handed none waited for it, and its parent
/// for the worker.
#[test]
fn a_path_that_is_not_utf8_is_refused_by_name_and_nothing_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let odd = |name: &str| -> OsString {
        let path = dir.path().join(name).into_os_string().into_vec();
        OsString::from_vec([path, b"\xff".to_vec()].concat())
    };
    let names = |text: &str, name: &str| {
        let told = format!("{name}\\xFF");
        // Tables break lines.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&told) && text.contains("is not UTF-8"), "{text}");
    };
    copy(&split, Path::new(&odd("clips")));
    copy(&small_bundle(), &Path::new(&odd("bundles")).join("edgetam_mini_256_fp32"));
    let libraries = Path::new(&odd("libraries")).to_owned();
    fs::create_dir(&libraries).unwrap();
    fs::copy(require_onnxruntime(), libraries.join("libonnxruntime.so")).unwrap();

    let out = dir.path().join("out");
    for (flag, name) in [
        ("--out-dir", "odd_out"),
        ("--split-dir", "clips"),
        ("--onnx-dir", "bundles"),
        ("--ort-lib", "libraries"),
    ] {
        let (code, text) = printed(bench(&split, &out).arg(flag).arg(odd(name)));
        assert_eq!(code, Some(2), "{text}");
        names(&text, name);
    }
    assert!(!out.exists() && !Path::new(&odd("odd_out")).exists(), "refused before it begins");

    let mut doctor = segtrt();
    doctor.arg("doctor").arg("--split-dir").arg(odd("clips")).arg("--ort-lib").arg(&libraries);
    names(&printed(&mut doctor).1, "libraries");

    let plans = Path::new(&odd("plans")).to_owned();
    fs::create_dir(&plans).unwrap();
    fs::write(plans.join("prompt.plan"), "ftrt, but no plan").unwrap();
    names(&printed(segtrt().arg("inspect").arg(plans.join("prompt.plan"))).1, "plans");

    if rtx().is_some() {
        let mut build = segtrt();
        build.args(["build-engines", "--platform", "small", "--models", "edgetam_mini"]);
        build.args(["--graphs", "prompt", "--platforms"]).arg(table(dir.path(), 86));
        let (code, text) = printed(build.arg("--out").arg(odd("engines")));
        assert_eq!(code, Some(1), "{text}");
        names(&text, "engines");
    }
}

/// As at the limit of processes (`ulimit -u`), which root has not.
#[test]
fn where_no_thread_can_be_started_an_error_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let (name, value) = NO_THREADS;
    let (code, text) = printed(bench(&split, &dir.path().join("out")).env(name, value));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("cannot start the thread") && text.contains("ulimit -u"), "{text}");
    // A worker alone.
    let mut worker = segtrt();
    worker.arg("inspect-worker").env(name, value).env("SEGTRT_ATTENDED", "1");
    worker.write_stdin("{\"plan\":\"a.plan\",\"tensorrt_lib\":null,\"built_by\":null}\n");
    let (code, text) = printed(&mut worker);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("cannot start the thread") && text.contains("ulimit -u"), "{text}");
}

/// As the refusal advises.
#[test]
fn a_symbolic_link_is_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let odd = OsString::from_vec(
        [dir.path().as_os_str().to_owned().into_vec(), b"/clips\xff".to_vec()].concat(),
    );
    fs::rename(&split, &odd).unwrap();
    std::os::unix::fs::symlink(OsStr::new(&odd), &split).unwrap();
    bench(&split, &dir.path().join("out")).assert().success();
}
