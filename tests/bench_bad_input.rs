//! Whatever is wrong with the input costs a row or ends with one clear sentence, never with a
//! panic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

use crate::support::{bench, column, copy, require_onnxruntime, segtrt, small_bundle, synth};

const SUMMARY: &str = "sav_benchmark_summary.csv";

struct Case {
    _dir: tempfile::TempDir,
    split: PathBuf,
    out: PathBuf,
}

/// Two clips of one object each.
fn case() -> Case {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 1, 6);
    Case { split, out: dir.path().join("out"), _dir: dir }
}

impl Case {
    fn frame(&self, video: &str, index: usize) -> PathBuf {
        self.split.join(format!("JPEGImages_24fps/{video}/{index:05}.jpg"))
    }

    fn mask(&self, video: &str, index: usize) -> PathBuf {
        self.split.join(format!("Annotations_6fps/{video}/000/{index:05}.png"))
    }

    /// Runs and returns (status, reason) of the two clips' rows; the second clip must be fine.
    fn rows(&self, code: i32) -> (String, String) {
        bench(&self.split, &self.out).assert().code(code).stderr(contains("panicked").not());
        let summary = self.out.join(SUMMARY);
        let (status, reason) = (column(&summary, "status"), column(&summary, "reason"));
        assert_eq!(status.len(), 2);
        assert_eq!(status[1], "ok", "{}", reason[1]);
        if status[0] != "ok" {
            for name in ["fps", "latency_ms", "J", "F", "JandF", "setup_ms", "latency_p50_ms"] {
                assert_eq!(column(&summary, name)[0], "", "{name} of a row that is not ok");
            }
        }
        (status[0].clone(), reason[0].clone())
    }
}

#[test]
fn a_corrupt_frame_in_the_middle_fails_its_object_only() {
    let case = case();
    let path = case.frame("synth_000", 3);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let (status, reason) = case.rows(1);
    assert_eq!(status, "failed");
    assert!(reason.starts_with("unreadable_frame: ") && reason.contains("00003.jpg"), "{reason}");
}

#[test]
fn a_frame_of_another_size_fails_its_object_only() {
    let case = case();
    let other = tempfile::tempdir().unwrap();
    segtrt()
        .args([
            "synth",
            "--videos",
            "1",
            "--frames",
            "3",
            "--objects",
            "1",
            "--size",
            "64x48",
            "--out",
        ])
        .arg(other.path().join("split"))
        .assert()
        .success();
    fs::copy(
        other.path().join("split/JPEGImages_24fps/synth_000/00002.jpg"),
        case.frame("synth_000", 4),
    )
    .unwrap();
    let (status, reason) = case.rows(1);
    assert_eq!(status, "failed");
    assert!(reason.starts_with("frame_size_change: ") && reason.contains("64x48"), "{reason}");
}

/// Writes an 8-bit grey mask of one value.
fn write_mask(path: &Path, width: u32, height: u32, depth: png::BitDepth, value: u8) {
    let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), width, height);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(depth);
    let bytes = if depth == png::BitDepth::Sixteen { 2 } else { 1 };
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&vec![value; (width * height) as usize * bytes]).unwrap();
}

#[test]
fn an_empty_prompt_mask_skips_its_object_as_the_predecessor_did() {
    let case = case();
    write_mask(&case.mask("synth_000", 0), 160, 120, png::BitDepth::Eight, 0);
    let (status, reason) = case.rows(0);
    assert_eq!(status, "skipped");
    assert!(reason.starts_with("empty_prompt_mask: ") && reason.contains("00000.png"), "{reason}");
}

#[test]
fn a_prompt_mask_of_another_size_fails_its_object_only() {
    let case = case();
    write_mask(&case.mask("synth_000", 0), 80, 60, png::BitDepth::Eight, 255);
    let (status, reason) = case.rows(1);
    assert_eq!(status, "failed");
    assert!(reason.starts_with("mask_size: ") && reason.contains("80x60"), "{reason}");
}

#[test]
fn a_later_mask_of_another_size_is_told_in_the_row() {
    let case = case();
    write_mask(&case.mask("synth_000", 4), 80, 60, png::BitDepth::Eight, 255);
    let (status, reason) = case.rows(0);
    assert_eq!(status, "ok");
    assert!(reason.starts_with("mask_size: "), "{reason}");
}

#[test]
fn a_sixteen_bit_mask_is_read_as_ids() {
    let case = case();
    write_mask(&case.mask("synth_000", 0), 160, 120, png::BitDepth::Sixteen, 1);
    let (status, reason) = case.rows(0);
    assert_eq!((status.as_str(), reason.as_str()), ("ok", ""));
}

#[test]
fn a_prompt_past_the_end_fails_its_object_only() {
    let case = case();
    for index in [0, 4] {
        fs::remove_file(case.mask("synth_000", index)).unwrap();
    }
    write_mask(&case.mask("synth_000", 40), 160, 120, png::BitDepth::Eight, 255);
    let (status, reason) = case.rows(1);
    assert_eq!(status, "failed");
    assert!(reason.starts_with("prompt_out_of_range: "), "{reason}");
}

#[test]
fn an_absent_video_of_the_manifest_gets_a_row() {
    let case = case();
    fs::write(case.split.join("sav_val.txt"), "absent_video\nsynth_001\n").unwrap();
    let (status, reason) = case.rows(1);
    assert_eq!(status, "failed");
    assert!(reason.starts_with("missing_video: ") && reason.contains("absent_video"), "{reason}");
    // Repaired and resumed: the video's objects have rows, and the one that stood for them is gone.
    let annotations = case.split.join("Annotations_6fps");
    fs::rename(
        case.split.join("JPEGImages_24fps/synth_000"),
        case.split.join("JPEGImages_24fps/absent_video"),
    )
    .unwrap();
    fs::rename(annotations.join("synth_000"), annotations.join("absent_video")).unwrap();
    bench(&case.split, &case.out).arg("--resume").assert().success();
    let summary = case.out.join(SUMMARY);
    assert_eq!(column(&summary, "video"), ["absent_video", "synth_001"]);
    assert_eq!(column(&summary, "status"), ["ok", "ok"]);
}

#[test]
fn a_damaged_prompt_mask_fails_its_object_only_and_is_tried_again() {
    let case = case();
    let path = case.mask("synth_000", 0);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let (status, reason) = case.rows(1);
    assert_eq!(status, "failed");
    assert!(
        reason.starts_with("unreadable_prompt_mask: ") && reason.contains("00000.png"),
        "{reason}"
    );
    fs::write(&path, whole).unwrap();
    bench(&case.split, &case.out).arg("--resume").assert().success();
    assert_eq!(column(&case.out.join(SUMMARY), "status"), ["ok", "ok"]);
}

#[test]
fn a_folder_that_is_taken_for_no_object_is_told_of() {
    let case = case();
    let stray = case.split.join("Annotations_6fps/synth_000/001");
    fs::create_dir(&stray).unwrap();
    fs::copy(case.mask("synth_000", 0), stray.join("frame0.png")).unwrap();
    bench(&case.split, &case.out)
        .assert()
        .success()
        .stderr(contains("001 is skipped").and(contains("as its name")));
    assert_eq!(column(&case.out.join(SUMMARY), "object"), ["000", "000"]);
}

#[test]
fn missing_and_empty_splits_say_what_was_expected() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let missing = dir.path().join("nowhere");
    bench(&missing, &out)
        .assert()
        .code(1)
        .stderr(contains("does not exist").and(contains("segtrt synth")));
    bench(dir.path(), &out)
        .assert()
        .code(1)
        .stderr(contains("is not a video split").and(contains("expected JPEGImages_24fps/")));
    segtrt().arg("bench").assert().code(2).stderr(contains("--split-dir is required"));
}

#[test]
fn unknown_tags_are_left_out_and_none_left_is_a_usage_error() {
    let case = case();
    bench(&case.split, &case.out)
        .args(["--models", "sam2_huge_points,edgetam_mini_points"])
        .assert()
        .code(1)
        .stderr(contains("[WARN] skipping: --models sam2_huge_points: no such model tag"));
    assert_eq!(column(&case.out.join(SUMMARY), "status"), ["ok", "ok"]);
    bench(&case.split, &case.out)
        .args(["--models", "sam2_huge_points"])
        .assert()
        .code(2)
        .stderr(contains("Error: --models sam2_huge_points: no such model tag"))
        .stderr(contains("[WARN]").not());
    bench(&case.split, &case.out)
        .args(["--models", "edgetam_mini_pionts"])
        .assert()
        .code(2)
        .stderr(contains("did you mean edgetam_mini_points?"));
}

/// A copy of the small bundle that a test may damage.
fn copied_bundle(dir: &Path) -> PathBuf {
    let to = dir.join("bundle");
    copy(&small_bundle(), &to);
    to
}

#[test]
fn a_graph_that_is_not_its_manifests_is_refused() {
    let case = case();
    let dir = tempfile::tempdir().unwrap();
    let bundle = copied_bundle(dir.path());
    let graph = bundle.join("track.onnx");
    let mut bytes = fs::read(&graph).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&graph, bytes).unwrap();
    bench(&case.split, &case.out).arg("--onnx-dir").arg(&bundle).assert().code(1);
    let reasons = column(&case.out.join(SUMMARY), "reason");
    assert_eq!(reasons.len(), 2);
    for reason in reasons {
        assert!(
            reason.starts_with("model_not_loaded: ") && reason.contains("track.onnx"),
            "{reason}"
        );
        assert!(reason.contains("sha256 found") && reason.contains("expected"), "{reason}");
    }
}

#[test]
fn a_manifest_of_another_format_is_refused() {
    let case = case();
    let dir = tempfile::tempdir().unwrap();
    let bundle = copied_bundle(dir.path());
    let manifest = bundle.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replacen("format = 1", "format = 9", 1)).unwrap();
    bench(&case.split, &case.out)
        .arg("--onnx-dir")
        .arg(&bundle)
        .assert()
        .code(1)
        .stderr(contains("has format 9, this segtrt reads format 1"));
}

/// A library that claims to be an ONNX Runtime of this version.
fn fake_onnxruntime(dir: &Path, version: &str) -> PathBuf {
    let source = dir.join("fake.c");
    fs::write(
        &source,
        format!(
            "typedef struct {{ const void *(*get_api)(unsigned); const char *(*version)(void); }} \
             Base;\nstatic const void *get_api(unsigned v) {{ (void)v; return 0; }}\nstatic const \
             char *version(void) {{ return \"{version}\"; }}\nstatic const Base base = {{ get_api, \
             version }};\nconst Base *OrtGetApiBase(void) {{ return &base; }}\n"
        ),
    )
    .unwrap();
    let library = dir.join("libonnxruntime.so");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.expect("a C compiler").success());
    library
}

#[test]
fn onnxruntime_too_old_missing_or_something_else_is_told() {
    let case = case();
    let dir = tempfile::tempdir().unwrap();
    let old = fake_onnxruntime(dir.path(), "1.10.0");
    let not_it = dir.path().join("libnothing.so");
    fs::write(&not_it, "no library").unwrap();
    for (library, expected) in [
        (old, "is ONNX Runtime 1.10.0, expected 1.17 or newer"),
        (not_it, "cannot open ONNX Runtime"),
    ] {
        bench(&case.split, &case.out)
            .arg("--ort-lib")
            .arg(&library)
            .assert()
            .code(1)
            .stderr(contains("panicked").not());
        let reasons = column(&case.out.join(SUMMARY), "reason");
        assert!(reasons.iter().all(|reason| reason.contains(expected)), "{reasons:?}");
    }
    // Without a library no object can have numbers: the run ends before its first row.
    let absent = dir.path().join("absent.so");
    let none = dir.path().join("none");
    let mut command = bench(&case.split, &none);
    command.arg("--ort-lib").arg(&absent);
    command.assert().code(1).stderr(contains("does not exist"));
    assert!(!none.exists(), "a run that cannot begin writes nothing");
}

#[test]
fn a_provider_that_the_library_lacks_is_an_error_and_not_the_cpu() {
    let case = case();
    let path = require_onnxruntime();
    if path.with_file_name("libonnxruntime_providers_cuda.so").exists() {
        eprintln!("SKIPPED: this ONNX Runtime has a CUDA provider");
        return;
    }
    bench(&case.split, &case.out).args(["--ort-provider", "cuda"]).assert().code(1);
    let summary = case.out.join(SUMMARY);
    assert!(column(&summary, "status").iter().all(|status| status == "failed"));
    assert!(column(&summary, "reason").iter().all(|reason| reason.contains("CUDA")));
}

/// Processes whose parent is `parent`.
#[cfg(target_os = "linux")]
fn children_of(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let is_child = |process: &u32| {
        // "PID (NAME) STATE PARENT …"; a name may hold blanks and brackets.
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        after.split_whitespace().nth(1) == Some(parent.to_string().as_str())
    };
    processes.filter_map(number).filter(is_child).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_does_not_outlive_a_program_that_was_killed() {
    use std::time::{Duration, Instant};

    fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    let case = case();
    let mut command = bench(&case.split, &case.out);
    // Passes for hours: the worker ends because it is told to, not because it is done.
    command.args(["--profile-runs", "100000"]);
    let mut parent = Command::new(command.get_program())
        .args(command.get_args())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let worker = wait_for("no worker began", || children_of(parent.id()).first().copied());
    // Past reading its job, in the middle of its work.
    std::thread::sleep(Duration::from_secs(1));
    assert!(Path::new(&format!("/proc/{worker}")).exists());
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_for("the worker goes on without its parent", || {
        let state = fs::read_to_string(format!("/proc/{worker}/stat")).ok();
        // Gone, or dead and not yet collected by whoever inherited it.
        state.is_none_or(|stat| stat.contains(") Z ")).then_some(())
    });
}
