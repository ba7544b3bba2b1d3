//! The commands: names, files, exporter, environment, what they say.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;

use super::has_curl;
use super::server::{Answer, Server};
use crate::support::{require_onnxruntime, segtrt};

/// The command with a folder of its own for all that it installs.
fn command(user: &Path, words: &[&str]) -> Command {
    let mut command = segtrt();
    command.env("SEGTRT_SHARE", user).env_remove("PIP_INDEX_URL").args(words);
    command
}

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn unknown_names_and_missing_files_are_refused_before_anything_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let user = dir.path();
    command(user, &["fetch", "sam2_huge"]).assert().code(2).stderr(contains(
        "no released checkpoint is called sam2_huge; known are edgetam, sam2.1_tiny",
    ));
    command(user, &["fetch"]).assert().code(2).stderr(contains("MODEL"));
    command(user, &["fetch", "edgetam", "--checkpoint", "no.pt"])
        .assert()
        .code(2)
        .stderr(contains("--checkpoint no.pt: there is no such file"));
    command(user, &["fetch", "edgetam", "sam2_tiny", "--checkpoint", "Cargo.toml"])
        .assert()
        .code(2)
        .stderr(contains("--checkpoint Cargo.toml is of one model, found 2"));
    assert_eq!(fs::read_dir(user).unwrap().count(), 0);
    let said = "Cargo.toml: the file is none; expected a checkpoint by PyTorch (.pt)";
    let wrong = command(user, &["fetch", "edgetam", "--checkpoint", "Cargo.toml"]).assert().code(2);
    wrong.stderr(contains(said));
    let empty = user.join("empty.pt");
    fs::write(&empty, "").unwrap();
    let wrong = command(user, &["fetch", "edgetam", "--checkpoint"]).arg(&empty).assert().code(2);
    wrong.stderr(contains("empty.pt: the file is empty; expected a checkpoint"));
}

#[test]
fn a_mirrors_file_is_checked_and_the_licence_shown() {
    if !has_curl() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let missing = Server::start(&[Answer::Status(404)]);
    let words = ["fetch", "sam2.1-tiny", "--checkpoint-only", "--mirror"];
    let to = dir.path().join("checkpoints/sam2.1_hiera_tiny.pt");
    command(dir.path(), &words)
        .arg(format!("{}/x/", missing.url))
        .assert()
        .code(1)
        .stdout(contains("licence Apache-2.0").and(contains("facebookresearch/sam2")))
        .stderr(contains("status 404").and(contains(format!("copy it to {}", to.display()))));
    assert_eq!(missing.requests()[0].path, "/x/sam2.1_hiera_tiny.pt");

    let page = b"<html>Log in first".to_vec();
    let wrong = Server::start(&[Answer::Whole(page)]);
    command(dir.path(), &["fetch", "edgetam", "--checkpoint-only", "--mirror", &wrong.url])
        .assert()
        .code(1)
        .stderr(
            contains("expected abd54d22bbd22ba3e53cf59a307e59e0f3701be6")
                .and(contains("HTML page"))
                .and(contains("edgetam.pt.rejected")),
        );
}

#[test]
fn a_proxy_of_the_environment_is_used() {
    if !has_curl() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let proxy = Server::start(&[Answer::Status(404)]);
    command(dir.path(), &["fetch", "edgetam", "--checkpoint-only"])
        .args(["--mirror", "http://weights.invalid/x"])
        .env("http_proxy", &proxy.url)
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .assert()
        .code(1);
    assert_eq!(proxy.requests()[0].path, "http://weights.invalid/x/edgetam.pt");
}

#[test]
fn without_curl_the_command_that_installs_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    command(dir.path(), &["fetch", "edgetam", "--checkpoint-only"])
        .env("PATH", dir.path())
        .assert()
        .code(1)
        .stderr(contains("curl is not installed; install it with: sudo apt-get install curl"));
}

/// A Python that writes down its words and makes the bundle's folder as the exporter would.
fn fake_python(dir: &Path) -> (PathBuf, PathBuf) {
    let (python, log) = (dir.join("fake-python"), dir.join("calls"));
    script(&python, &format!("echo \"$@\" >> '{}'\n", log.display()));
    (python, log)
}

#[test]
fn a_local_checkpoint_is_exported_in_both_precisions() {
    let dir = tempfile::tempdir().unwrap();
    let (python, log) = fake_python(dir.path());
    let checkpoint = dir.path().join("mine.pt");
    fs::write(&checkpoint, "PK weights").unwrap();
    let out = dir.path().join("bundles");
    command(dir.path(), &["fetch", "sam2_base", "--imgsz", "512", "--checkpoint"])
        .arg(&checkpoint)
        .arg("--python")
        .arg(&python)
        .arg("--out")
        .arg(&out)
        .assert()
        .success()
        .stdout(contains("segtrt bench --split-dir DIR --models sam2.1_base_plus_points"));
    let calls = fs::read_to_string(&log).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    for (call, precision) in calls.iter().zip(["fp32", "fp16"]) {
        let wanted = format!(
            "onnx/export.py --model sam2.1_base_plus --precision {precision} --segments \
             --padded-track --checkpoint {} --out {} --imgsz 512",
            checkpoint.display(),
            out.display()
        );
        assert!(call.ends_with(&wanted), "{call}\n{wanted}");
    }
}

#[test]
fn a_bundle_of_this_checkpoint_is_not_exported_again() {
    let dir = tempfile::tempdir().unwrap();
    let (python, log) = fake_python(dir.path());
    let checkpoint = dir.path().join("mine.pt");
    fs::write(&checkpoint, "PK weights").unwrap();
    let sum = segtrt::download::sha256(&checkpoint).unwrap();
    let out = dir.path().join("bundles");
    let bundle = out.join("edgetam_1024_fp32");
    fs::create_dir_all(&bundle).unwrap();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("onnx/bundles/edgetam_mini_256_fp32");
    for entry in fs::read_dir(demo).unwrap().flatten() {
        fs::copy(entry.path(), bundle.join(entry.file_name())).unwrap();
    }
    let manifest = bundle.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let was = text.split("checkpoint_sha256 = \"").nth(1).unwrap().split('"').next().unwrap();
    fs::write(&manifest, text.replace(was, &sum)).unwrap();
    let fetch = |more: &[&str]| {
        let mut command = command(dir.path(), &["fetch", "edgetam", "--precision", "fp32"]);
        command.arg("--checkpoint").arg(&checkpoint).arg("--python").arg(&python);
        command.arg("--out").arg(&out).args(more).assert().success()
    };
    fetch(&[]).stdout(contains("edgetam_1024_fp32 is there"));
    assert!(!log.exists());
    fetch(&["--force"]);
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 1);
    fs::write(&checkpoint, "PK other weights").unwrap();
    fetch(&[]);
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 2);
}

/// A `python3` whose `venv` makes itself, and whose `pip` fails on a word in the file `broken`.
fn python_on_path(dir: &Path) -> PathBuf {
    let bin = dir.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let text = format!(
        "echo \"$@\" >> '{0}/calls'\n\
         case \"$1 $2\" in\n\
         '-m venv') mkdir -p \"$4/bin\"; cp \"$0\" \"$4/bin/python\";;\n\
         '-m pip') if [ -e '{0}/broken' ]; then echo 'No matching distribution' >&2; exit 1; fi;;\n\
         esac\n",
        dir.display()
    );
    script(&bin.join("python3"), &text);
    bin
}

#[test]
fn the_exporters_environment_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let bin = python_on_path(dir.path());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let checkpoint = dir.path().join("edgetam.pt");
    fs::write(&checkpoint, "PK weights").unwrap();
    let fetch = || {
        let mut command = command(dir.path(), &["fetch", "edgetam", "--precision", "fp32"]);
        command.env("PATH", &path).arg("--checkpoint").arg(&checkpoint);
        command.arg("--out").arg(dir.path().join("bundles")).assert()
    };
    fs::write(dir.path().join("broken"), "").unwrap();
    fetch().code(1).stderr(
        contains("-m pip install").and(contains("failed")).and(contains("messages are above")),
    );
    fs::remove_file(dir.path().join("broken")).unwrap();
    fetch().success();
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    for wanted in ["onnx/requirements.txt", "requirements-sam2.txt", "requirements-edgetam.txt"] {
        assert!(calls.contains(wanted), "{calls}");
    }
    assert!(calls.lines().last().unwrap().contains("onnx/export.py --model edgetam"), "{calls}");
    let before = calls.lines().count();
    fetch().success();
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    assert_eq!(calls.lines().count(), before + 1, "only the exporter ran: {calls}");
}

#[test]
fn setup_installs_a_local_library_and_the_demo_network() {
    let library = require_onnxruntime();
    let dir = tempfile::tempdir().unwrap();
    command(dir.path(), &["setup", "--from"])
        .arg(&library)
        .assert()
        .success()
        .stdout(contains("demo network: ").and(contains("ONNX Runtime: onnxruntime 1.")));
    assert!(dir.path().join("onnx/bundles/edgetam_mini_256_fp32/manifest.toml").is_file());
    let name = library.file_name().unwrap();
    assert!(dir.path().join("lib").join(name).is_file());
    // Now it is found without a flag, from any folder.
    command(dir.path(), &["setup"]).current_dir(dir.path()).assert().success();
}

#[test]
fn setup_refuses_and_removes_what_is_no_onnxruntime() {
    let dir = tempfile::tempdir().unwrap();
    let fake = dir.path().join("libonnxruntime.so.9");
    fs::write(&fake, b"\x7fELF but no more").unwrap();
    command(dir.path(), &["setup", "--from"])
        .arg(&fake)
        .assert()
        .code(1)
        .stderr(contains("does not work here and was removed"));
    assert_eq!(fs::read_dir(dir.path().join("lib")).unwrap().count(), 0);
    command(dir.path(), &["setup", "--from", "Cargo.toml"])
        .assert()
        .code(2)
        .stderr(contains("Cargo.toml is neither a wheel of ONNX Runtime"));
}

#[test]
fn setup_finds_the_wheel_in_an_index_and_checks_it() {
    if !has_curl() {
        return;
    }
    let Some(wheel) = segtrt::setup::WHEEL else {
        eprintln!("SKIPPED: there is no wheel for this processor");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let page = format!("<a href=\"../../files/{}#sha256=0\">wheel</a>", wheel.file);
    let content = vec![0; usize::try_from(wheel.bytes).unwrap()];
    let index = Server::start(&[Answer::Whole(page.into_bytes()), Answer::Ranges(content)]);
    let setup = |url: &str| {
        command(dir.path(), &["setup", "--force", "--mirror", &format!("{url}/simple")]).assert()
    };
    setup(&index.url)
        .code(1)
        .stdout(contains("MIT licence"))
        .stderr(contains(wheel.sha256).and(contains("segtrt setup --from onnxruntime-")));
    let paths: Vec<String> = index.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/simple/onnxruntime/".to_owned(), format!("/files/{}", wheel.file)]);
    assert!(
        fs::read_dir(dir.path().join("lib"))
            .unwrap()
            .flatten()
            .all(|entry| { !entry.file_name().to_string_lossy().starts_with("libonnxruntime") })
    );

    let other = Server::start(&[Answer::Whole(b"<a href=\"other.whl\">".to_vec())]);
    setup(&other.url).code(1).stderr(contains("has no onnxruntime-"));
    let missing = Server::start(&[Answer::Status(404)]);
    setup(&missing.url).code(1).stderr(
        contains("cannot read the package index").and(contains("segtrt setup --from onnxruntime-")),
    );
}

#[test]
fn the_demo_network_is_found_from_any_folder() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let inspected = |words: &[&str]| command(dir.path(), words).current_dir(&empty).assert();
    inspected(&["synth", "--out", "split", "--videos", "1", "--objects", "1", "--frames", "4"]);
    require_onnxruntime();
    inspected(&["bench", "--split-dir", "split", "--out-dir", "out", "--warmup-runs", "0"])
        .success()
        .stdout(contains("edgetam_mini_points").and(contains("edgetam_mini_bbox")));
}
