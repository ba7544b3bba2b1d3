use std::collections::BTreeMap;

use super::*;
use crate::regression::{ChangeVerdict, Limits, Metric, ModelRun, ObjectRun, PassSummary};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A run whose passes take these times for 200 frames each, ms, with this J&F.
fn run(durations: &[f64], jf: f64) -> RunSummary {
    let pass = |duration_ms: &f64| PassSummary {
        frames: 200,
        duration_ms: *duration_ms,
        p95_ms: Some(duration_ms / 200.0),
        gpu_peak_alloc_mib: Some(1000.0),
        jf: Some(jf),
        ..PassSummary::default()
    };
    let passes = durations.iter().map(pass).collect();
    let object = ObjectRun { video: "a".into(), object: "0".into(), reason: None, passes };
    let model = ModelRun {
        model: "m_points".into(),
        conditions: map(&[("precision", "fp16"), ("imgsz", "1024"), ("fidelity", "exact")]),
        weights: Some("w".into()),
        graphs: Vec::new(),
        objects: vec![object],
    };
    RunSummary {
        machine: map(&[("gpu", "H200"), ("driver", "580")]),
        models: vec![model],
        ..RunSummary::default()
    }
}

/// A history of runs with these times.
fn history(runs: &[&[f64]]) -> History {
    let entry = |durations: &&[f64]| Entry {
        format: FORMAT.into(),
        added: "2026-11-24T00:00:00Z".into(),
        from: "out".into(),
        differences: Vec::new(),
        run: run(durations, 0.8),
    };
    History { path: "h.jsonl".into(), entries: runs.iter().map(entry).collect() }
}

fn of(history: &History, metric: Metric) -> Series {
    let all = series(history, &Limits::default());
    all.into_iter().find(|series| series.metric == metric).unwrap()
}

/// The runs at which the rate changed: index, percent, verdict.
fn changes(runs: &[&[f64]]) -> Vec<(usize, f64, ChangeVerdict)> {
    let found = of(&history(runs), Metric::Fps);
    let percent = |change: f64| (1000.0 * change).round() / 10.0;
    let changes = found.changes.iter();
    changes.map(|it| (it.entry, percent(it.change.unwrap()), it.verdict)).collect()
}

#[test]
fn a_step_is_named_once_and_at_its_run() {
    let (old, new) = (&[1000.0, 1004.0, 998.0][..], &[1100.0, 1103.0, 1098.0][..]);
    assert_eq!(changes(&[old, old, old]), []);
    let worse = (2, -9.1, ChangeVerdict::Worse);
    assert_eq!(changes(&[old, old, new, new, new]), [worse]);
    let better = (4, 10.0, ChangeVerdict::Better);
    assert_eq!(changes(&[old, old, new, new, old]), [worse, better]);
    // Of the percentile too, and not of memory and J&F, which stayed.
    let history = history(&[old, new]);
    assert_eq!(of(&history, Metric::P95Ms).changes[0].verdict, ChangeVerdict::Worse);
    assert!(of(&history, Metric::GpuPeakAllocMib).changes.is_empty());
    assert!(of(&history, Metric::JandF).changes.is_empty());
    assert!(series(&history, &Limits::default()).iter().all(|it| it.metric != Metric::P99Ms));
}

#[test]
fn variation_between_runs_is_learnt() {
    // 4 % between runs. A baseline of the first run alone calls the second worse.
    let [fast, slow, slower] = [1000.0, 1042.0, 1043.0].map(|ms| vec![ms, ms + 1.0]);
    let noisy: Vec<&[f64]> = vec![&fast, &slow];
    assert_eq!(changes(&noisy).len(), 1);
    // After runs of both kinds a level spans both.
    let wide = [999.0, 1042.0];
    let runs: Vec<&[f64]> = vec![&wide, &fast, &wide, &slow, &fast, &slow];
    assert_eq!(changes(&runs), []);
    let runs: Vec<&[f64]> = vec![&wide, &fast, &wide, &slower];
    assert_eq!(changes(&runs), [(3, -4.1, ChangeVerdict::Worse)]);
}

#[test]
fn a_drift_is_named_when_it_leaves_the_level() {
    let runs: Vec<Vec<f64>> = (0..8).map(|at| vec![1000.0 * 1.01_f64.powi(at)]).collect();
    let runs: Vec<&[f64]> = runs.iter().map(Vec::as_slice).collect();
    let found = changes(&runs);
    assert!(!found.is_empty() && found[0].0 > 2, "{found:?}");
    assert!(found.iter().all(|(_, _, verdict)| *verdict == ChangeVerdict::Worse));
}

#[test]
fn a_number_that_a_run_lacks_is_named_once() {
    let mut history = history(&[&[1000.0], &[1000.0], &[1000.0]]);
    for entry in &mut history.entries[1..] {
        entry.run.models[0].objects[0].passes[0].jf = None;
    }
    let found = of(&history, Metric::JandF);
    assert_eq!(found.changes.len(), 1);
    assert_eq!((found.changes[0].entry, found.changes[0].verdict), (1, ChangeVerdict::Missing));
    assert!(found.changes[0].is_regression());
}

#[test]
fn an_object_that_no_run_scores_does_not_hide_the_others() {
    let mut history = history(&[&[1000.0], &[1000.0], &[1000.0]]);
    for entry in &mut history.entries {
        let objects = &mut entry.run.models[0].objects;
        let mut other = objects[0].clone();
        other.object = "1".into();
        other.passes[0].jf = None;
        objects.push(other);
    }
    let found = of(&history, Metric::JandF);
    assert!(found.points.iter().all(|point| point.range.is_some()) && found.changes.is_empty());
    // One that was scored before is missed.
    history.entries[0].run.models[0].objects[1].passes[0].jf = Some(0.8);
    let found = of(&history, Metric::JandF);
    assert_eq!((found.changes.len(), found.changes[0].verdict), (1, ChangeVerdict::Missing));
}

#[test]
fn a_loss_of_quality_is_a_regression_by_its_limit_alone() {
    let mut history = history(&[&[1000.0], &[1000.0]]);
    history.entries[1].run.models[0].objects[0].passes[0].jf = Some(0.797);
    let found = of(&history, Metric::JandF);
    assert_eq!(found.changes[0].verdict, ChangeVerdict::Worse);
    assert!((found.changes[0].change.unwrap() + 0.3).abs() < 1e-9, "points of a hundred");
}

#[test]
fn runs_are_added_kept_and_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/history.jsonl");
    let mut history = History::read(&path).unwrap();
    assert!(history.entries.is_empty());
    history.add(Path::new("a"), run(&[1000.0], 0.8), &[]).unwrap();
    history.add(Path::new("b"), run(&[1001.0], 0.8), &[]).unwrap();
    assert_eq!(History::read(&path).unwrap().entries, history.entries);
    let again = history.add(Path::new("c"), run(&[1000.0], 0.8), &[]).unwrap_err().to_string();
    assert!(again.contains("c is in") && again.contains("since 20"), "{again}");
    // Other hardware, other fidelity.
    let mut other = run(&[1002.0], 0.8);
    other.machine.insert("gpu".into(), "H100".into());
    other.models[0].conditions.insert("fidelity".into(), "cond1".into());
    let refused = history.add(Path::new("d"), other.clone(), &[]).unwrap_err().to_string();
    for part in ["gpu: H200 in the last run, H100", "fidelity of m_points", "fidelity,gpu"] {
        assert!(refused.contains(part), "no {part:?} in: {refused}");
    }
    let allowed = ["gpu".to_owned(), "fidelity".to_owned()];
    history.add(Path::new("d"), other, &allowed).unwrap();
    assert_eq!(history.entries[2].differences.len(), 2);
    // An object without numbers.
    let mut partial = run(&[1003.0], 0.8);
    partial.models[0].objects[0] = ObjectRun {
        passes: Vec::new(),
        reason: Some("cuda_error".into()),
        ..partial.models[0].objects[0].clone()
    };
    let refused = history.add(Path::new("e"), partial, &[]).unwrap_err().to_string();
    assert!(refused.contains("m_points a/0 (cuda_error)"), "{refused}");
    assert_eq!(History::read(&path).unwrap().entries.len(), 3, "nothing was written");
}

#[test]
fn damaged_lines_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h.jsonl");
    let mut history = History::read(&path).unwrap();
    history.add(Path::new("a"), run(&[1000.0], 0.8), &[]).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let error = |more: &str| {
        std::fs::write(&path, format!("{text}{more}")).unwrap();
        format!("{:#}", History::read(&path).unwrap_err())
    };
    let cut = error(&text[..text.len() / 2]);
    assert!(cut.contains("h.jsonl line 2") && cut.contains("is damaged; remove it"), "{cut}");
    let newer = error("{\"format\": \"segtrt history 2\"}\n");
    assert!(newer.contains("history 2") && newer.contains("history 1"), "{newer}");
    assert!(error("{}\n").contains("line 2"));
}
