//! What is left of a ratio whose passes were disturbed.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::shared::{edit_passes, edit_sidecar, json as read, run};
use crate::support::{bench, copy, segtrt, synth};

/// Every frame takes `ms`, in the tracking step; those of a disturbance three times as long.
pub fn with_times(run: &Path, ms: f64, disturbed: bool) {
    edit_sidecar(run, |sidecar| sidecar["environment"]["build"] = "release".into());
    edit_passes(run, |pass| {
        for (name, times) in pass["frame_times"].as_object_mut().unwrap() {
            let own = f64::from(["latency_ms", "track_ms"].contains(&name.as_str()));
            if name.ends_with("_ms") {
                for (frame, time) in times.as_array_mut().unwrap().iter_mut().enumerate() {
                    let late = disturbed && (20..30).contains(&frame);
                    *time = (own * ms * if late { 3.0 } else { 1.0 }).into();
                }
            }
        }
    });
}

/// The ratio of three rounds of two sides, and the standard output.
/// `edit` gets side, round and folder of each copy of `run_of`.
pub fn compared(
    (split, run_of): (&Path, &Path),
    in_turn: bool,
    edit: impl Fn(usize, usize, &Path),
) -> (Value, String) {
    let out = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    for (side, name) in ["fast", "slow"].into_iter().enumerate() {
        for round in 0..3 {
            let folder = format!("{name}_{round}");
            copy(run_of, &out.path().join(&folder));
            edit(side, round, &out.path().join(&folder));
            let began = if in_turn { 20 * round + 10 * side } else { 10 * round + 30 * side };
            runs.push(json!({"model": "edgetam_mini_points", "side": name, "round": round + 1, "folder": folder,
                "started_unix_s": began, "ended_unix_s": began + 9, "waiting": 0}));
        }
    }
    // As they were noted: in the order in which they ended.
    runs.sort_by_key(|run| run["started_unix_s"].as_u64());
    let measured = json!({"format": "segtrt comparison 1", "configuration": {}, "side_settings": {},
        "sides": ["fast", "slow"], "reference": "fast", "runs": runs, "missing": []});
    fs::write(out.path().join("measured.json"), measured.to_string()).unwrap();
    let mut command = segtrt();
    command.args(["compare", "--split-dir"]).arg(split).arg("--runs").arg(out.path());
    let said = run(command.arg("--out-dir").arg(out.path().join("cmp")));
    assert_eq!(said.code, 0, "{}", said.err);
    let found = read(&out.path().join("cmp/comparison.json"));
    (found["models"][0]["ratios"][0].clone(), said.out)
}

#[test]
fn of_passes_that_were_disturbed_a_bound_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let (split, long) = (synth(dir.path(), 1, 1, 44), dir.path().join("long"));
    bench(&split, &long).arg("--save-masks").assert().success();
    let compared = |slow: [(f64, bool); 3], in_turn| {
        let calm = [(10.0, false), (10.0, false), (10.5, false)];
        compared((&split, &long), in_turn, |side, round, run| {
            let (ms, disturbed) = [calm, slow][side][round];
            with_times(run, ms, disturbed);
        })
    };
    let disturbed = [(30.0, true), (31.5, false), (33.0, true)];
    let (ratio, said) = compared(disturbed, true);
    assert_eq!(ratio["verdict"]["judgement"], "invalid", "{ratio}");
    // Ten of 44 frames came late in two of the passes.
    let expected = (34.0 * 30.0 + 10.0 * 31.5) / (44.0 * 10.5);
    assert!((ratio["at_least"].as_f64().unwrap() - expected).abs() < 1e-9, "{ratio}");
    assert!(said.contains("INVALID; at least 2.88 times (fast's slowest passes"), "{said}");
    // Nothing is left of rounds that were not beside each other, nor where no pass was undisturbed;
    // nothing is needed where none was.
    let (ratio, _) = compared(disturbed, false);
    assert!(ratio["at_least"].is_null() && ratio.to_string().contains("not_in_turn"), "{ratio}");
    assert!(compared([(30.0, true); 3], true).0["at_least"].is_null());
    let (ratio, _) = compared([(30.0, false), (30.3, false), (30.6, false)], true);
    assert_eq!(ratio["verdict"]["judgement"], "valid", "{ratio}");
    assert!(ratio["at_least"].is_null(), "{ratio}");
}
