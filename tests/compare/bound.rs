//! What is left of a ratio whose passes were disturbed.

use std::path::Path;

use super::shared::{edit_passes, edit_sidecar, json as read, run};
use crate::support::{bench, copy, segtrt, synth};

/// Every frame takes `ms`, in the tracking step; those of a disturbance three times as long.
fn with_times(run: &Path, ms: f64, disturbed: bool) {
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

#[test]
fn of_passes_that_were_disturbed_a_bound_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let (split, long) = (synth(dir.path(), 1, 1, 44), dir.path().join("long"));
    bench(&split, &long).arg("--save-masks").assert().success();
    let compared = |slow: [(f64, bool); 3]| {
        let out = tempfile::tempdir().unwrap();
        let mut command = segtrt();
        command.args(["compare", "--subject", "fast", "--split-dir"]).arg(&split);
        command.arg("--out-dir").arg(out.path()).arg("--runs");
        let calm = [(10.0, false), (10.0, false), (10.5, false)];
        for (name, rounds) in [("fast", calm), ("slow", slow)] {
            for (round, (ms, disturbed)) in rounds.into_iter().enumerate() {
                let folder = out.path().join(format!("{name}_{round}"));
                copy(&long, &folder);
                with_times(&folder, ms, disturbed);
                command.arg(format!("{name}={}", folder.display()));
            }
        }
        let said = run(&mut command);
        assert_eq!(said.code, 0, "{}", said.err);
        let found = read(&out.path().join("comparison.json"));
        (found["models"][0]["ratios"][0].clone(), said.out)
    };
    let (ratio, said) = compared([(30.0, true), (31.5, false), (33.0, true)]);
    assert_eq!(ratio["verdict"]["judgement"], "invalid", "{ratio}");
    assert!((ratio["at_least"].as_f64().unwrap() - 31.5 / 10.5).abs() < 1e-9, "{ratio}");
    assert!(said.contains("INVALID; at least 3.00 times, by fast's slowest"), "{said}");
    // Nothing is left where no pass was undisturbed, and nothing is needed where few were disturbed.
    assert!(compared([(30.0, true); 3]).0["at_least"].is_null());
    let (ratio, _) = compared([(30.0, false), (30.3, false), (30.6, false)]);
    assert_eq!(ratio["verdict"]["judgement"], "valid", "{ratio}");
    assert!(ratio["at_least"].is_null(), "{ratio}");
}
