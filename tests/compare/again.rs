//! Rounds that are measured again.

use std::fs;

use super::shared::{json, measure, run};

/// A process numbers its rounds from 0: one that is asked for round 1 again, and for round 3, would
/// write over round 2.
#[test]
fn a_round_that_is_measured_again_takes_no_others_place() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("cmp");
    let said = run(measure(&out, "eager", "2").arg("--measure-only"));
    assert_eq!(said.code, 0, "{}", said.err);
    fs::remove_dir_all(out.join("runs/edgetam_mini_points/eager/from_round_1/round_0")).unwrap();
    let said = run(measure(&out, "eager", "3").arg("--measure-only"));
    assert_eq!(said.code, 0, "{}", said.err);
    let measured = json(&out.join("measured.json"));
    let of_eager = measured["runs"].as_array().unwrap().iter().filter(|run| run["side"] == "eager");
    let mut places: Vec<(u64, &str)> = of_eager
        .map(|run| (run["round"].as_u64().unwrap(), run["folder"].as_str().unwrap()))
        .collect();
    places.sort_unstable();
    let expected =
        [(1, "from_round_1_2/round_0"), (2, "from_round_1/round_1"), (3, "from_round_1_2/round_1")];
    let expected =
        expected.map(|(round, place)| (round, format!("runs/edgetam_mini_points/eager/{place}")));
    assert_eq!(places, expected.each_ref().map(|(round, place)| (*round, place.as_str())));
    assert!(places.iter().all(|(_, place)| out.join(place).join("sidecar.json").is_file()));
}
