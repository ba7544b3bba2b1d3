//! The committed network follows what is clicked, on clips of seeds that its training never saw.

use predicates::str::contains;

use crate::support::{bench, column, segtrt};

/// Mean IoU over the scored frames of all targets, and the targets' own.
fn mean_iou(more: &[&str]) -> (f64, Vec<f64>) {
    let dir = tempfile::tempdir().unwrap();
    let split = dir.path().join("split");
    segtrt()
        .args(["synth", "--videos", "3", "--objects", "2", "--frames", "48", "--size", "320x180"])
        .args(["--seed", "2026", "--out"])
        .arg(&split)
        .args(more)
        .assert()
        .success();
    let out = dir.path().join("out");
    bench(&split, &out).assert().success().stdout(contains("edgetam_mini_points"));
    let values = column(&out.join("sav_benchmark_summary.csv"), "J");
    let ious: Vec<f64> = values.iter().map(|value| value.parse().unwrap()).collect();
    assert_eq!(ious.len(), 6);
    (ious.iter().sum::<f64>() / 6.0, ious)
}

/// Both objects have one outline, size and texture: a network that knew objects by their looks
/// alone would swap them.
#[test]
fn of_two_objects_that_look_alike_the_clicked_one_is_followed() {
    let (mean, ious) = mean_iou(&["--alike"]);
    assert!(mean >= 0.80, "mean IoU {mean}: {ious:?}");
}

#[test]
fn the_clicked_object_is_followed_where_objects_hide_one_another() {
    let (mean, ious) = mean_iou(&[]);
    assert!(mean >= 0.75, "mean IoU {mean}: {ious:?}");
}
