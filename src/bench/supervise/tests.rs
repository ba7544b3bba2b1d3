use serde_json::json;

use super::*;
use vos::files::Configuration;
use vos::record::RunRecord;

const MODELS: [&str; 2] = ["edgetam_mini_points", "sam2_tiny_points"];

fn plan(out_dir: &std::path::Path) -> BenchPlan {
    let models = MODELS.map(|tag| {
        let tag = vos::model_tag::ModelTag::parse(tag, vos::prompt::PromptKind::Points).unwrap();
        json!({"tag": tag, "dir": ".", "imgsz": 256, "precision": "fp32"})
    });
    serde_json::from_value(json!({
        "split_dir": ".", "split_name": "none", "videos": ["v"], "limit_objects": 0, "max_clip_frames": 0,
        "models": models, "strides": vos::strides::Strides::default(), "prompt_policy": "interior",
        "geometry": "stretch", "metrics": "predecessor", "warmup_runs": 0, "profile_runs": 1,
        "out_dir": out_dir, "save_overlays": false, "save_masks": false, "provider": "cpu", "threads": 1,
        "telemetry_ms": 100,
    }))
    .unwrap()
}

/// Runs a bench over two models and three objects whose workers do as `worker` says; the reasons of
/// its rows, model by model, and for which models workers were started.
fn run_with(
    mut worker: impl FnMut(&mut VecDeque<Item>, &mut Option<Loaded>) -> Life,
) -> (Vec<Vec<String>>, Vec<usize>) {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(dir.path());
    let objects = ["0", "1", "2"].map(str::to_owned).to_vec();
    let mut work = Work::default();
    work.clips.push(("v".to_owned(), Ok(objects)));
    let mut store = ResultStore::create(dir.path(), Configuration::default()).unwrap();
    let mut started = Vec::new();
    let mut display = Display::new(6, 0);
    run_by(&plan, &work, &mut store, &mut display, |_, index, queue, _, _, ready| {
        started.push(index);
        Ok(worker(queue, ready))
    })
    .unwrap();
    let of_model = |tag: &&str| {
        let rows = store.runs().filter(|row| row.key.tag == **tag);
        rows.filter_map(|row: &RunRecord| row.reason.clone()).collect()
    };
    (MODELS.iter().map(of_model).collect(), started)
}

fn loaded() -> Option<Loaded> {
    let (conditions, library) = (Conditions::default(), String::new());
    Some(Loaded {
        conditions,
        load_ms: 1.0,
        version: library.clone(),
        library,
        sm: None,
        gpu: None,
        model: String::new(),
        memory: Default::default(),
    })
}

fn stalled(held: bool) -> Life {
    Life::Stalled(Stall { why: "process 7 is still there".to_owned(), held })
}

#[test]
fn beside_a_worker_that_cannot_be_ended_nothing_is_measured() {
    let (reasons, started) = run_with(|_, ready| {
        *ready = loaded();
        stalled(true)
    });
    assert_eq!(started, [0], "no second worker");
    let beside =
        "device_held: not measured, because a worker could not be ended: process 7 is still there";
    assert_eq!(reasons[0], ["device_held: process 7 is still there", beside, beside]);
    assert_eq!(reasons[1], [beside; 3]);
}

/// It has given all its rows, which stay; the next model has none.
#[test]
fn nor_is_anything_where_it_hangs_behind_its_last_row() {
    let (reasons, started) = run_with(|queue, ready| {
        *ready = loaded();
        queue.clear();
        stalled(true)
    });
    assert_eq!((started, reasons[0].len(), reasons[1].len()), (vec![0], 0, 3));
}

#[test]
fn one_that_was_ended_costs_an_object() {
    let mut calls = 0;
    let (reasons, started) = run_with(|queue, ready| {
        calls += 1;
        *ready = loaded();
        if calls == 1 {
            return stalled(false);
        }
        queue.clear();
        Life::Ended(End::Finished)
    });
    assert_eq!(started, [0, 0, 1]);
    assert_eq!(reasons, [vec!["worker_stalled: process 7 is still there".to_owned()], vec![]]);
}
