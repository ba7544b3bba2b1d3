//! Sides that reach the power limit in each long pass.

use serde_json::{Value, json};

use super::bound::{compared, with_times};
use super::shared::{edit_column, edit_passes, edit_sidecar};
use crate::support::{bench, synth};
use vos::verdict::THRESHOLDS;

#[test]
fn clocks_that_a_side_sustains_at_its_power_limit_may_be_lower() {
    let dir = tempfile::tempdir().unwrap();
    let (split, long) = (synth(dir.path(), 1, 1, 44), dir.path().join("long"));
    bench(&split, &long).arg("--save-masks").assert().success();
    // Of each side what held it down, the length of the judged frames, s, and the power limit, W.
    let judged = 44 - THRESHOLDS.steady_from as u64;
    let compared = |sides: [(Value, u64, f64); 2]| {
        let (ratio, said) = compared((&split, &long), true, |side, _, run| {
            let (limits, seconds, watts) = &sides[side];
            let clock = [1900.0, 1700.0][side];
            // At the limit clocks move by more than a fault takes elsewhere.
            let swing = if limits == &json!([]) { 20.0 } else { 60.0 };
            with_times(run, 1e3 * *seconds as f64 / judged as f64, false);
            edit_column(run, "device", "NVIDIA Test GPU");
            edit_sidecar(run, |file| file["environment"]["gpu"] = json!({"power_limit_w": watts}));
            edit_passes(run, |pass| {
                pass["observed"] = json!({"seconds": seconds, "readings": 10 * seconds, "limits": limits,
                    "sm_clock_min_mhz": clock - swing, "sm_clock_mean_mhz": clock, "sm_clock_max_mhz": clock + swing});
                // An earlier rule's finding is judged again.
                pass["verdict"]["findings"] =
                    json!([{"code": "throttled", "sentence": "", "weight": "fault"}]);
            });
        });
        (ratio["verdict"]["judgement"] == "valid", ratio.to_string(), said)
    };
    let cap = |seconds, watts| (json!(["power_cap"]), seconds, watts);
    let free = |seconds| (json!([]), seconds, 700.0);
    let (valid, ratio, said) = compared([free(12), cap(36, 700.0)]);
    assert!(valid && ratio.contains(r#""at_least":null"#), "{ratio}");
    assert!(said.contains("note: clocks_apart: the mean SM clock was 1900 MHz for fast"), "{said}");
    assert!(said.contains("note: power_limited: slow: 3 of 3 passes"), "{said}");
    for (sides, why) in [
        ([free(3), cap(9, 700.0)], "throttled"),
        ([cap(12, 700.0), free(36)], "clocks_apart"),
        ([cap(12, 700.0), cap(36, 500.0)], "clocks_apart"),
        // The fast side may have had clocks that it cannot hold.
        ([free(9), cap(27, 700.0)], "clocks_apart"),
    ] {
        let (valid, ratio, said) = compared(sides);
        assert!(!valid && said.contains(&format!("INVALID: {why}")), "{ratio}");
    }
}
