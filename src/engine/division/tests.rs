use super::*;
use crate::engine::Precision;
use crate::engine::manifest::{FORMAT, Sources};
use crate::selftest::case::tests::{manifest as bundle, plan};

fn levels() -> Vec<ProfileShapes> {
    let bundle = bundle();
    profiles(bundle.graph(Role::Track).unwrap(), &bundle.contract, 1)
}

fn sizes(most: Option<usize>) -> Vec<usize> {
    divide(levels(), most).iter().map(|(_, profiles)| profiles.len()).collect()
}

#[test]
fn only_the_exact_track_is_divided_and_only_a_slow_release_does_so_unasked() {
    let (slow, quick) = (Some(Family::Trt8), [Family::Trt10, Family::Trt11, Family::Rtx15]);
    assert_eq!(profiles_per_plan(Role::Track, None, slow), Some(4));
    assert_eq!(profiles_per_plan(Role::Track, Some(8), slow), Some(8));
    for family in quick {
        assert_eq!(profiles_per_plan(Role::Track, None, Some(family)), None);
        assert_eq!(profiles_per_plan(Role::Track, Some(2), Some(family)), Some(2));
    }
    for role in Role::ALL.into_iter().filter(|role| *role != Role::Track) {
        assert_eq!(profiles_per_plan(role, Some(1), slow), None, "{role:?}");
    }
}

#[test]
fn parts_have_all_profiles_in_order_and_none_has_more_than_allowed() {
    assert_eq!(sizes(Some(4)), [4; 4]);
    assert_eq!(sizes(Some(8)), [8; 2]);
    assert_eq!(sizes(Some(6)), [6, 5, 5]);
    assert_eq!(sizes(Some(15)), [8; 2]);
    assert_eq!(sizes(Some(1)), [1; 16]);
    for most in 1..16 {
        let parts = divide(levels(), Some(most));
        assert!(parts.iter().all(|(_, profiles)| (1..=most).contains(&profiles.len())), "{most}");
        for (number, (part, _)) in parts.iter().enumerate() {
            assert_eq!(*part, Some(Part { number, of: parts.len() }));
        }
        let all: Vec<ProfileShapes> =
            parts.into_iter().flat_map(|(_, profiles)| profiles).collect();
        assert_eq!(all, levels(), "{most}");
    }
}

#[test]
fn what_fits_into_one_plan_is_not_divided() {
    for most in [None, Some(16), Some(100)] {
        assert_eq!(divide(levels(), most), [(None, levels())], "{most:?}");
    }
    assert_eq!(divide(Vec::new(), Some(4)), [(None, Vec::new())]);
}

#[test]
fn names_tell_parts_apart_and_from_other_graphs() {
    let part = Some(Part { number: 1, of: 4 });
    assert_eq!(file_name(Role::Track, part), "track_1.plan");
    assert_eq!(file_name(Role::Track, None), "track.plan");
    assert_eq!(label(Role::Track.name(), part), "track 2/4");
    assert_eq!(serde_json::to_string(&part).unwrap(), "\"2/4\"");
    assert_eq!(stem("track_1.plan"), "track_1");
    for file in ["track.plan", "track_0.plan", "track_15.plan"] {
        assert!(is_file_of(Role::Track, file), "{file}");
    }
    let others = ["track_.plan", "track_a.plan", "track_0.plan.7.partial", "track", "mytrack.plan"];
    for file in others.map(str::to_owned).into_iter().chain(
        Role::ALL.into_iter().filter(|role| *role != Role::Track).map(|role| file_name(role, None)),
    ) {
        assert!(!is_file_of(Role::Track, &file), "{file}");
    }
    for role in Role::ALL {
        let takes = |other: &Role| is_file_of(role, &file_name(*other, None));
        assert_eq!(Role::ALL.iter().filter(|other| takes(other)).count(), 1, "{role:?}");
    }
}

/// Plans of the exact track step with these profiles, as a build left them.
fn folder(plans: &[(&str, std::ops::Range<usize>)]) -> EngineManifest {
    let bundle = bundle();
    let mut manifest = EngineManifest {
        format: FORMAT,
        platform: "h200".into(),
        precision: Precision::Fp16,
        plans: vec![plan(&bundle, Role::Prompt)],
        bundle,
        products: None,
        sources: Sources::default(),
        dir: None,
    };
    for (file, profiles) in plans {
        let mut record = plan(&manifest.bundle, Role::Track);
        record.file = (*file).to_owned();
        record.settings.profiles = levels()[profiles.clone()].to_vec();
        manifest.set(record);
    }
    manifest
}

fn chosen(plans: &[(&str, std::ops::Range<usize>)]) -> (Vec<String>, usize) {
    let manifest = folder(plans);
    let Exact { plans, missing } = exact(&manifest);
    (plans.iter().map(|plan| plan.file.clone()).collect(), missing.len())
}

#[test]
fn the_plans_that_together_have_every_fill_level_are_chosen() {
    let (one, two) = (("track_0.plan", 0..8), ("track_1.plan", 8..16));
    assert_eq!(chosen(&[("track.plan", 0..16)]), (vec!["track.plan".into()], 0));
    let both = vec!["track_0.plan".to_owned(), "track_1.plan".to_owned()];
    assert_eq!(chosen(&[one.clone(), two.clone()]), (both, 0));
    // What a stopped build left beside the whole has no level that the whole lacks.
    assert_eq!(chosen(&[("track.plan", 0..16), one.clone()]), (vec!["track.plan".into()], 0));
    assert_eq!(chosen(&[two]), (vec!["track_1.plan".into()], 8));
    assert_eq!(chosen(&[]), (vec![], 16));
    let manifest = folder(&[one]);
    assert_eq!(exact(&manifest).missing[0], "1 object, 7 memories, 9 pointers");
}

#[test]
fn of_plans_for_several_objects_only_those_for_one_are_chosen() {
    let mut manifest = folder(&[("track_0.plan", 0..16)]);
    let mut record = plan(&manifest.bundle, Role::Track);
    record.file = "track_1.plan".into();
    let graph = manifest.bundle.graph(Role::Track).unwrap();
    record.settings.profiles = profiles(graph, &manifest.bundle.contract, 2).split_off(16);
    manifest.set(record);
    assert_eq!(manifest.plans_of(Role::Track).count(), 2);
    assert_eq!(exact(&manifest).plans.len(), 1);
}

#[test]
fn a_record_replaces_that_of_its_own_file_alone() {
    let mut manifest = folder(&[("track_0.plan", 0..8), ("track_1.plan", 8..16)]);
    let mut again = manifest.plan_in(Role::Track, "track_1.plan").unwrap().clone();
    again.sha256 = "new".into();
    manifest.set(again);
    let hashes: Vec<&str> =
        manifest.plans_of(Role::Track).map(|plan| plan.sha256.as_str()).collect();
    assert_eq!(hashes, ["", "new"]);
    assert!(manifest.plan_in(Role::Track, "track.plan").is_none());
    assert!(manifest.plan_in(Role::Prompt, "track_0.plan").is_none());
}
