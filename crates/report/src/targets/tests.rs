//! Files of targets, limits, patterns.

use super::*;

#[test]
fn the_built_in_targets_are_those_of_the_method_document() {
    let targets = Targets::open(Path::new("default")).unwrap();
    let limit =
        |name: &str| targets.list.iter().find(|target| target.name == name).unwrap().limit();
    assert_eq!(limit("Latency P50"), "< 16.67 ms");
    assert_eq!((limit("Latency P95"), limit("Latency P99")), ("< 20 ms".into(), "< 25 ms".into()));
    assert_eq!((limit("GPU memory"), limit("GPU utilisation")), ("< 80 %".into(), "> 85 %".into()));
    assert!(targets.unknown(&[]).is_empty());
}

#[test]
fn a_source_is_a_size_and_takes_a_column() {
    let of = Targets::of_sources().unwrap();
    let sizes: Vec<_> = of.iter().map(Target::size).collect();
    assert_eq!(sizes, [Some((1920, 1080)), Some((3840, 2160)), None]);
    assert!(of[2].is_stereo());
    let refused = |metric: &str, source: &str| {
        let text = format!(
            "[[target]]\nname = \"a\"\nmetric = \"{metric}\"\nabove = 1\nsource = \"{source}\""
        );
        format!("{:#}", Targets::parse(&text, "x").unwrap_err())
    };
    assert!(refused("fps", "4K").contains("expected width and height"));
    assert!(refused("inference_ms", "1920x1080").contains("expected a column"));
}

#[test]
fn a_target_has_one_limit_and_known_keys() {
    let refused = |text: &str| format!("{:#}", Targets::parse(text, "x").unwrap_err());
    let head = "[[target]]\nname = \"a\"\nmetric = \"fps\"\n";
    assert!(refused(head).contains("\"a\" has 0 limits"));
    assert!(refused(&format!("{head}above = 1\nbelow = 3")).contains("has 2 limits"));
    assert!(refused(&format!("{head}over = 1")).contains("unknown field"));
    assert!(refused("").contains("target"));
    let wrong = Targets::parse(&format!("{head}above = 1").replace("fps", "fsp"), "x").unwrap();
    assert_eq!(wrong.unknown(&[])[0].metric, "fsp");
}

#[test]
fn limits_hold_at_their_ends_as_they_say() {
    let target = |limit: &str| {
        Targets::parse(&format!("[[target]]\nname = \"a\"\nmetric = \"fps\"\n{limit} = 20"), "x")
            .unwrap()
            .list
            .remove(0)
    };
    for (limit, less, equal, more) in [
        ("below", true, false, false),
        ("at_most", true, true, false),
        ("above", false, false, true),
        ("at_least", false, true, true),
    ] {
        let target = target(limit);
        assert_eq!(
            (target.holds(19.9), target.holds(20.0), target.holds(20.1)),
            (less, equal, more),
            "{limit}"
        );
    }
}

#[test]
fn stars_stand_for_anything() {
    assert!(
        fits("sam2_*", "sam2_tiny_points") && fits("*points", "edgetam_points") && fits("*", "")
    );
    assert!(
        fits("*_tiny_*", "sam2_tiny_bbox")
            && !fits("sam2_*", "edgetam_points")
            && !fits("edgetam", "edgetam_points")
    );
}
