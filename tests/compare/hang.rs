//! A side that says nothing any more; a comparison that is gone itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::measure::order;
use super::shared::{compare, json, measure, run, side};
use crate::support::processes_with;

/// Such a script is a process of its own, and the interpreter that it started has the GPU.
#[test]
fn a_script_for_an_interpreter_leaves_none_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (out, python) = (dir.path().join("cmp"), dir.path().join("python"));
    fs::write(&python, "#!/bin/sh\npython3 \"$@\"\nexit $?\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = measure(&out, "compile", "1");
    command.args(["--runner-arg=--fake-hang=compile", "--stall-limit", "3", "--python"]);
    let said = run(command.arg(&python).timeout(std::time::Duration::from_secs(120)));
    assert_eq!(said.code, 1, "{}", said.err);
    let why = side(&json(&out.join("comparison.json")), "compile")["why"].to_string();
    assert!(why.contains("it finished no frame for 3 s and was ended"), "{why}");
    assert_eq!(processes_with(&out), Vec::<String>::new());
}

/// It tells of a frame and then of nothing: without a limit the comparison would wait for ever.
#[test]
fn a_side_that_hangs_is_ended_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let mut command = measure(&out, "eager,compile", "2");
    command.args(["--runner-arg=--fake-hang=compile", "--stall-limit", "3"]);
    let said = run(command.timeout(std::time::Duration::from_secs(120)));
    assert_eq!(said.code, 1, "{}", said.err);
    let comparison = json(&out.join("comparison.json"));
    let found = side(&comparison, "compile");
    assert_eq!(found["outcome"], "not_available");
    let why = found["why"].as_str().unwrap();
    let told = "it finished no frame for 3 s and was ended";
    assert!(why.contains(told) && why.contains("wrote: frame 3 of 8; see "), "{why}");
    assert_eq!(side(&comparison, "cpu")["outcome"], "same");
    let measured = json(&out.join("measured.json"));
    assert_eq!(order(&measured), ["cpu 1", "eager 1", "cpu 2", "eager 2"]);

    // Shorter than what children tell by.
    let said = run(measure(&dir.path().join("none"), "eager", "1").args(["--stall-limit", "1"]));
    assert!(said.code == 2 && said.err.contains("3 or more"), "{}", said.err);
}

/// Compiling takes as long as it takes, unless somebody says how long it may: the others are
/// measured all the same.
#[test]
fn a_side_that_does_not_get_ready_in_time_is_ended_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    // Whether it tells of progress, as a runner of one's own may while it warms up, makes no difference.
    let ways = [&[][..], &["--runner-arg=--fake-tell"]];
    for how in ways {
        let out = dir.path().join(format!("cmp_{}", how.len()));
        let mut command = measure(&out, "compile,eager", "1");
        command.args(["--runner-arg=--fake-never-ready=compile", "--ready-limit", "4"]).args(how);
        let said = run(command.timeout(std::time::Duration::from_secs(120)));
        assert_eq!(said.code, 1, "{}", said.err);
        let comparison = json(&out.join("comparison.json"));
        let why = side(&comparison, "compile")["why"].to_string();
        let told = "was not ready after 4 s and was ended (a longer --ready-limit";
        assert!(why.contains(told) && why.contains("kernel 3 of 900; see "), "{why}");
        assert_eq!(side(&comparison, "eager")["outcome"], "reference", "it starts all the same");
        assert_eq!(order(&json(&out.join("measured.json"))), ["cpu 1", "eager 1"]);
        assert_eq!(processes_with(&out), Vec::<String>::new());
    }
}

/// The rounds that it has are judged, and what ended it is said.
#[test]
fn a_side_that_hangs_later_is_said_to_have_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let mut command = measure(&out, "eager,compile", "2");
    command.args(["--runner-arg=--fake-hang=compile-1", "--stall-limit", "3"]);
    let said = run(command.timeout(std::time::Duration::from_secs(120)));
    assert_eq!(order(&json(&out.join("measured.json"))).len(), 5, "{}", said.err);
    let found = side(&json(&out.join("comparison.json")), "compile");
    assert_eq!(found["rounds"], 1);
    let verdict = found["verdict"].to_string();
    assert!(
        verdict.contains("stopped_early") && verdict.contains("finished no frame for 3 s"),
        "{verdict}"
    );
    let told = "compile: only 1 of its 2 rounds could be measured: ";
    assert!(said.out.contains(&format!("stopped_early: {told}")), "{}", said.out);
    // Its row looks like any other's: the exit code and the last line tell.
    assert_eq!((said.code, found["outcome"].as_str()), (1, Some("same")), "{}", said.err);
    let last = said.err.lines().last().unwrap();
    assert!(last.starts_with(&format!("edgetam_mini_points {told}")), "{}", said.err);
}

/// What it measured is there, whatever becomes of its process behind it.
#[test]
fn a_side_that_dies_behind_a_round_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let mut command = measure(&out, "eager,compile", "3");
    let said = run(command.arg("--runner-arg=--fake-die-behind=compile"));
    let measured = json(&out.join("measured.json"));
    let expected = ["cpu 1", "eager 1", "compile 1", "cpu 2", "eager 2", "cpu 3", "eager 3"];
    assert_eq!(order(&measured), expected, "{}", said.err);
    let found = side(&json(&out.join("comparison.json")), "compile");
    assert_eq!((&found["outcome"], &found["rounds"]), (&"same".into(), &1.into()));
    let verdict = found["verdict"].to_string();
    assert!(verdict.contains("stopped_early") && verdict.contains("exit status: 7"), "{verdict}");
    assert_eq!(said.code, 1, "{}", said.err);
    let told = "edgetam_mini_points compile: only 1 of its 3 rounds could be measured: ";
    assert!(said.err.lines().last().unwrap().starts_with(told), "{}", said.err);
    assert!(out.join("comparison.csv").is_file() && said.out.contains("comparison.md"));
    // Judged once more, from the files: what is missing still is.
    let again = run(compare(&dir.path().join("again")).arg("--runs").arg(&out));
    let last = again.err.lines().last().unwrap().to_owned();
    assert!(again.code == 1 && last.starts_with(told), "{}", again.err);
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_comparison_leaves_no_bench_behind() {
    let dir = tempfile::tempdir().unwrap();
    let made = measure(&dir.path().join("cmp"), "", "1");
    let mut command = std::process::Command::new(made.get_program());
    // Passes for hours: the bench ends because it is told to, not because it is done.
    command.args(made.get_args()).arg("--bench-arg=--profile-runs=100000");
    crate::support::killed_it_leaves_no_bench(&mut command, dir.path());
}
