use super::*;
use crate::record::{Enqueued, MaskSelection};

#[test]
fn how_many_shared_a_frame_is_a_column_where_any_did() {
    let columns = |objects: Option<usize>| {
        let frame = FrameTimes { objects, ..FrameTimes::default() };
        serde_json::to_value(FrameTable::new(&[frame])).unwrap()
    };
    assert_eq!(columns(Some(2))["objects"], serde_json::json!([2]));
    assert!(columns(None).get("objects").is_none());
}

#[test]
fn calls_are_columns_where_any_is_known() {
    let columns = |enqueued: Enqueued| {
        let frame = FrameTimes::default();
        serde_json::to_value(FrameTable::new(&[frame, FrameTimes { enqueued, ..frame }])).unwrap()
    };
    let enqueued = Enqueued { ms: Some(0.25), launches: Some(41), graph_launches: None };
    let known = columns(enqueued);
    assert_eq!(known["enqueue_ms"], serde_json::json!([null, 0.25]));
    assert_eq!(known["launches"], serde_json::json!([null, 41]));
    assert!(known.get("graph_launches").is_none());
    assert!(columns(Enqueued::default()).get("enqueue_ms").is_none());
}

#[test]
fn selections_are_columns_where_any_is_known() {
    let columns = |selection: Option<MaskSelection>| {
        let frame = FrameTimes::default();
        serde_json::to_value(FrameTable::new(&[frame, FrameTimes { selection, ..frame }])).unwrap()
    };
    let known = columns(MaskSelection::new([0.25, 0.75, 0.5]));
    assert_eq!(known["chosen_mask"], serde_json::json!([null, 2]));
    assert_eq!(known["iou_predictions"], serde_json::json!([null, [0.25, 0.75, 0.5]]));
    let unknown = columns(None);
    assert!(unknown.get("chosen_mask").is_none() && unknown.get("iou_predictions").is_none());
}

#[test]
fn intervals_are_no_latencies() {
    let columns = |time: FrameTime| {
        let frame = FrameTimes { time, ..FrameTimes::default() };
        serde_json::to_value(FrameTable::new(&[frame])).unwrap()
    };
    let expected = |name: &str| serde_json::json!({"frame": [0], name: [2.5]});
    assert_eq!(columns(FrameTime::Latency(2.5)), expected("latency_ms"));
    assert_eq!(columns(FrameTime::Interval(2.5)), expected("interval_ms"));
}
