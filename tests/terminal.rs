//! What reaches a pipe, a terminal and a shell: no control codes where nobody asked, completions,
//! manual pages, JSON.

use std::fs;
use std::process::{Command, Output};

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

use crate::support::{bench, segtrt, synth};

const ESCAPE: u8 = 0x1b;

/// No control code in what was printed.
#[track_caller]
fn plain(output: &Output, what: &str) {
    for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let text = String::from_utf8_lossy(bytes);
        assert!(!bytes.contains(&ESCAPE), "{what} prints control codes into {stream}: {text:?}");
        assert!(!text.contains('\r'), "{what} overwrites lines in {stream}: {text:?}");
    }
}

/// `segtrt … | head -c0`: neither a panic nor an error, and the exit code that a shell gives a
/// program ended by SIGPIPE.
#[test]
#[cfg(unix)]
fn a_reader_that_went_away_ends_the_program_quietly() {
    for args in [
        &["inspect", "onnx/bundles/edgetam_mini_256_fp32"][..],
        &["inspect", "onnx/bundles/edgetam_mini_256_fp32", "--json"],
        &["doctor", "--json"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = Command::new(assert_cmd::cargo::cargo_bin("segtrt"))
            .args(args)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdout(writer)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(!told.contains("panicked") && !told.contains("Broken pipe"), "{args:?}: {told}");
        assert_eq!(ended.status.code(), Some(141), "{args:?}: {told}");
    }
}

#[test]
fn a_pipe_gets_no_control_codes() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let out = dir.path().join("out");
    // Where a terminal would be wanted whatever the pipe: a variable that forces colours is the
    // user's own word.
    for args in [
        &["--help"][..],
        &["bench", "--help"],
        &["bnech"],
        &["bench", "--profile-runs", "0"],
        &["inspect", "onnx/bundles/edgetam_mini_256_fp32"],
        &["inspect", "/nowhere"],
        &["suite", "lowfps", "--split-dir", "/nowhere"],
        &["selftest", "--engines", "/nowhere"],
        &["build-engines", "--dry-run", "--platform", "orin", "--tensorrt-lib", "/nowhere"],
    ] {
        plain(&segtrt().args(args).output().unwrap(), &args.join(" "));
    }
    let output = bench(&split, &out).output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty());
    plain(&output, "bench");
}

/// Runs `line` on a terminal of util-linux's `script`; None, said aloud, where there is none.
fn on_a_terminal(line: &str, no_color: bool) -> Option<Vec<u8>> {
    let mut command = Command::new("script");
    command.args(["-qec", line, "/dev/null"]).env("TERM", "xterm-256color").env_remove("NO_COLOR");
    command.env_remove("CLICOLOR").env_remove("CLICOLOR_FORCE");
    if no_color {
        command.env("NO_COLOR", "1");
    }
    let Ok(output) = command.output() else {
        eprintln!("SKIPPED: no `script` to make a terminal with");
        return None;
    };
    Some(output.stdout)
}

/// Codes that colour: ESC [ … m with more than a reset in it.
fn colours(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let codes = text.split("\x1b[").skip(1).filter_map(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';')?;
        let (code, rest) = part.split_at(end);
        (rest.starts_with('m') && !code.is_empty() && code != "0").then(|| code.to_owned())
    });
    // Bold and underlined, as headings of a help text are, is no colour.
    codes.filter(|code| !["1", "4"].contains(&code.as_str())).collect()
}

#[test]
fn no_color_is_respected_on_a_terminal() {
    let program = segtrt().get_program().to_owned();
    let program = program.to_str().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 4);
    let out = dir.path().join("out");
    // The bar is drawn in colours, and clap's errors are.
    let mut run = bench(&split, &out);
    run.arg("--profile-runs").arg("3");
    let words: Vec<&str> = run.get_args().map(|word| word.to_str().unwrap()).collect();
    let lines = [format!("{program} {}", words.join(" ")), format!("{program} bnech")];
    for line in &lines {
        let Some(coloured) = on_a_terminal(line, false) else { return };
        let Some(plain) = on_a_terminal(line, true) else { return };
        assert!(!colours(&coloured).is_empty(), "no colours to leave out: {line}");
        assert!(colours(&plain).is_empty(), "{line}: {:?}", String::from_utf8_lossy(&plain));
    }
}

#[test]
fn completions_name_every_subcommand_and_no_internal_one() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        segtrt().args(["completions", shell]).assert().success().stdout(
            contains("build-engines")
                .and(contains("input-frame-stride"))
                .and(contains("bench-worker").not()),
        );
    }
    segtrt().args(["completions", "tcsh"]).assert().code(2).stderr(contains("bash"));
    let script = segtrt().args(["completions", "bash"]).output().unwrap().stdout;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("segtrt");
    fs::write(&path, script).unwrap();
    // A real bash completes with it.
    let line = "source \"$0\" && COMP_WORDS=(segtrt be) COMP_CWORD=1 && _segtrt segtrt be segtrt \
                && echo \"${COMPREPLY[@]}\"";
    match Command::new("bash").args(["-c", line]).arg(&path).output() {
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(told.trim(), "bench", "{}", String::from_utf8_lossy(&output.stderr));
        }
        Err(error) => eprintln!("SKIPPED: no bash to complete in: {error}"),
    }
}

#[test]
fn every_shown_subcommand_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("man1");
    segtrt().args(["man", "--out"]).arg(&out).assert().success().stdout(contains("segtrt-bench.1"));
    let mut names: Vec<String> = fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in ["segtrt.1", "segtrt-bench.1", "segtrt-build-engines.1", "segtrt-suite.1"] {
        assert!(names.iter().any(|known| known == name), "{name} is not among {names:?}");
    }
    assert!(
        !names.iter().any(|name| name.contains("worker") || name.contains("help")),
        "{names:?}"
    );
    let page = fs::read_to_string(out.join("segtrt-bench.1")).unwrap();
    assert!(
        page.contains(".TH segtrt-bench 1") && page.contains("input\\-frame\\-stride"),
        "{page}"
    );
    assert!(page.contains("Example: segtrt bench"), "the example is in the page");
    assert!(page.contains(".SH SYNOPSIS\nsegtrt bench [OPTIONS]\n"), "{page}");
    let printed = segtrt().args(["man", "bench"]).output().unwrap();
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), page);
    segtrt()
        .args(["man", "bnech"])
        .assert()
        .code(2)
        .stderr(contains("expected ").and(contains("bench, ")));
}

#[test]
fn a_bench_tells_its_table_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 2, 5);
    let out = dir.path().join("out");
    let tags = ["--models", "edgetam_mini_points,edgetam_mini_bbox", "--json"];
    let told = bench(&split, &out).args(tags).output().unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let models = told["models"].as_array().unwrap();
    assert_eq!((models.len(), &models[1]["model"]), (2, &"edgetam_mini_bbox".into()));
    assert_eq!((&models[0]["objects"], &models[0]["measured"]), (&2.into(), &2.into()));
    assert!(models[0]["fps"].as_f64().unwrap() > 0.0 && models[0]["jf"].is_f64());
    assert_eq!((&told["failed"], &told["left_out"]), (&0.into(), &0.into()));
    for file in told["files"].as_array().unwrap() {
        assert!(fs::exists(file.as_str().unwrap()).unwrap(), "{file}");
    }
    let mut synth = segtrt();
    synth.args(["synth", "--json", "--frames", "5", "--out"]).arg(dir.path().join("s"));
    let told: Value = serde_json::from_slice(&synth.output().unwrap().stdout).unwrap();
    assert_eq!(
        (&told["frames"], &told["masks"], &told["objects"]),
        (&10.into(), &8.into(), &4.into())
    );
}
