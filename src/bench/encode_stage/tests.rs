//! Times of encoded frames in both modes and both places.

use std::time::Duration;

use super::*;
use vos::record::FrameTimes;

const START: u64 = 100;

/// A pass of two frames whose masks came 10 and 14 ms after its beginning, and their encoding of
/// 3 ms each, the second one 1 ms after its mask.
fn times(place: EncodePlace, time: fn(f64) -> FrameTime) -> Vec<FrameTimes> {
    let origin = Instant::now();
    let at = |ms: u64| origin + Duration::from_millis(START + ms);
    let frame = |index, mask, begun, interval_ms| Encoded {
        index,
        mask_at: at(mask),
        interval_ms,
        begun: at(begun),
        done: at(begun + 3),
    };
    let encoded = [frame(7, 10, 10, 10.0), frame(8, 14, 15, 4.0)];
    let of = |index, ms| FrameTimes {
        frame: index,
        time: time(ms),
        end_to_end_ms: Some(20.0),
        ..FrameTimes::default()
    };
    let mut pass = ClipPass { times: vec![of(7, 10.0), of(8, 4.0)], ..ClipPass::default() };
    add_times(&mut pass, &encoded, place);
    pass.times
}

#[test]
fn a_latency_has_its_encoding_inside_and_an_interval_runs_between_encoded_frames() {
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}");
    let latency = times(EncodePlace::Inside, FrameTime::Latency);
    near(latency[0].time.ms(), 13.0);
    near(latency[1].time.ms(), 7.0);
    let interval = times(EncodePlace::Inside, FrameTime::Interval);
    near(interval[0].time.ms(), 13.0);
    near(interval[1].time.ms(), 5.0);
    for times in [latency, interval] {
        near(times[1].stages[Stage::Encode].unwrap(), 3.0);
        near(times[1].end_to_end_ms.unwrap(), 24.0);
        assert!(times[1].includes(Stage::Encode));
    }
}

#[test]
fn encoding_beside_changes_no_time_but_the_end_to_end_one() {
    let times = times(EncodePlace::Beside, FrameTime::Latency);
    assert_eq!([times[0].time.ms(), times[1].time.ms()], [10.0, 4.0]);
    assert!((times[0].end_to_end_ms.unwrap() - 23.0).abs() < 1e-6);
    assert!(!times[0].includes(Stage::Encode));
}

#[test]
fn objects_of_a_pass_share_a_file_named_after_all() {
    let key =
        |object: &str| ObjectKey { video: "v".into(), object: object.into(), tag: "m".into() };
    let (one, two) = (key("000"), key("001"));
    assert_eq!(stem_of(&[&one, &two]).unwrap(), "v__obj000+001__m__encoded");
    assert_eq!(stem_of(&[]), None);
}
