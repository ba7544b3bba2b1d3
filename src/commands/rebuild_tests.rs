//! The command that an engine folder names for building it again, as the program's own parser takes
//! it.

use clap::Parser;
use runtime::builder::recipe::track_variant_for;
use runtime::engine::fp32_pins::Fp32Pins;
use runtime::engine::manifest::Sources;
use runtime::engine::{EngineManifest, Settings, manifest, profiles};
use vos::bundle::Role;
use vos::platform::Platforms;
use vos::precision::Precision;
use vos::track_variant::TrackVariant;

use super::build_engines::BuildEnginesArgs;
use super::{Cli, Command};
use crate::selftest::case::tests::{manifest as bundle, plan};

/// A folder for Orin in fp16 with these plans, as the platform has them but for the bank.
fn folder(roles: &[Role]) -> EngineManifest {
    let bundle = bundle();
    let orin = Platforms::open(None).unwrap().get("orin").unwrap().clone();
    let plans = roles.iter().map(|role| {
        let mut plan = plan(&bundle, *role);
        plan.settings.workspace_bytes = orin.workspace_mb << 20;
        plan.settings.opt_level = Some(orin.opt_level);
        plan.settings.fp32_pins = Fp32Pins::Pinned;
        plan
    });
    EngineManifest {
        format: manifest::FORMAT,
        platform: orin.name.clone(),
        precision: Precision::Fp16,
        plans: plans.collect(),
        bundle: bundle.clone(),
        products: None,
        attention_kernels: false,
        sources: Sources::default(),
        dir: None,
    }
}

/// As the program takes it.
fn parsed(command: &str) -> BuildEnginesArgs {
    let words = shlex::split(command).unwrap();
    match Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{command}: {error}")).command {
        Command::BuildEngines(args) => *args,
        other => panic!("{command}: {other:?}"),
    }
}

fn change(folder: &mut EngineManifest, change: impl Fn(&mut Settings)) {
    folder.plans.iter_mut().for_each(|plan| change(&mut plan.settings));
}

const STEPS: [Role; 3] = [Role::Encoder, Role::Prompt, Role::Memory];
const PLAIN: &str =
    "segtrt build-engines --platform orin --models edgetam_mini --imgsz 256 --precision fp16";

fn with(track: Role) -> Vec<Role> {
    [&STEPS[..], &[track]].concat()
}

#[test]
fn what_the_platform_has_anyway_is_not_said() {
    // The kernels do not support the small network's f16 graphs: Orin's form of the track step is
    // the padded one then.
    let usual = track_variant_for(None, TrackVariant::Segmented, &bundle());
    assert_eq!(usual, TrackVariant::Padded);
    for roles in [&[][..], &STEPS, &with(Role::TrackPadded)] {
        assert_eq!(folder(roles).rebuild_command(), PLAIN);
    }
    assert_eq!(folder(&STEPS).rebuild_command_for(usual), PLAIN);
    let exact = format!("{PLAIN} --track-variant per-fill-level");
    assert_eq!(folder(&with(Role::Track)).rebuild_command(), exact);
    assert_eq!(folder(&STEPS).rebuild_command_for(TrackVariant::PerFillLevel), exact);
    let forced = folder(&with(Role::Track)).rebuild_command_with("--force");
    assert_eq!(forced, format!("{exact} --force"));
}

#[test]
fn what_differs_is_said_in_words_that_the_program_takes() {
    let mut folder = folder(&with(Role::Track));
    change(&mut folder, |settings| {
        settings.opt_level = Some(5);
        settings.timing_runs = Some(8);
        settings.workspace_bytes = 1 << 30;
        settings.tactic_bytes = Some(300 << 20);
        settings.memory_bytes = Some(4000 << 20);
        settings.library_tactics = true;
        settings.fp32_pins = Fp32Pins::Preferred;
        settings.fp32_layers = vec!["a part".to_owned(), "/norm".to_owned()];
    });
    let contract = folder.bundle.contract.clone();
    for plan in &mut folder.plans {
        plan.settings.profiles = profiles(folder.bundle.graph(plan.role).unwrap(), &contract, 4, 3);
    }
    let memory = folder.plans.iter_mut().find(|plan| plan.role == Role::Memory).unwrap();
    memory.settings.fp32_pins = Fp32Pins::Whole;
    let args = parsed(&folder.rebuild_command());
    assert_eq!((args.platform.as_str(), args.models.as_deref()), ("orin", Some("edgetam_mini")));
    assert_eq!(
        (args.imgsz, args.precision, args.track_variant),
        (Some(256), Some(Precision::Fp16), Some(TrackVariant::PerFillLevel))
    );
    assert_eq!((args.max_objects, args.opt_level, args.timing_runs), (4, Some(5), Some(8)));
    assert_eq!(args.prompt_points, 3);
    assert_eq!(
        (args.workspace_mb, args.tactic_mb, args.memory_mb),
        (Some(1024), Some(300), Some(4000))
    );
    assert_eq!(
        (args.fp32_pins, args.fp32_graphs.as_slice()),
        (Some(Fp32Pins::Preferred), &[Role::Memory][..])
    );
    assert_eq!(args.fp32_layers, ["a part", "/norm"]);
    assert!(args.library_tactics && !args.strongly_typed && args.graphs.is_empty());
}

#[test]
fn strong_types_are_asked_for_where_the_release_leaves_the_choice() {
    for (tensorrt, is_said) in
        [("TensorRT 10.3.0", true), ("TensorRT 11.4.0", false), ("TensorRT for RTX 1.7.1", false)]
    {
        let mut folder = folder(&STEPS);
        for plan in &mut folder.plans {
            plan.made_by.tensorrt = tensorrt.to_owned();
            let settings = &mut plan.settings;
            (settings.strongly_typed, settings.fp32_pins) = (true, Fp32Pins::None);
            settings.graphs = "fp16".to_owned();
        }
        let command = folder.rebuild_command();
        let expected = if is_said { format!("{PLAIN} --strongly-typed") } else { PLAIN.to_owned() };
        assert_eq!(command, expected);
        assert_eq!(parsed(&command).strongly_typed, is_said);
    }
}

/// Nothing tells what such a table's row has.
#[test]
fn of_a_platform_that_is_not_known_everything_is_said() {
    let mut folder = folder(&with(Role::TrackPadded));
    folder.platform = "mine".to_owned();
    let args = parsed(&folder.rebuild_command());
    let said = (args.track_variant, args.opt_level, args.workspace_mb);
    assert_eq!(said, (Some(TrackVariant::Padded), Some(3), Some(256)));
    assert!(args.platforms.is_none());
    // Of somebody's own, whatever it is called.
    let mut named = self::folder(&STEPS);
    named.platform = "my board; no 2".to_owned();
    assert_eq!(parsed(&named.rebuild_command()).platform, named.platform);
    // Nor of one whose table is gone, whatever the built-in one has under that name.
    let mut folder = self::folder(&with(Role::TrackPadded));
    folder.sources.platforms = Some("/gone/platforms.toml".into());
    let args = parsed(&folder.rebuild_command());
    assert_eq!(
        (args.track_variant, args.opt_level, args.workspace_mb, args.platforms),
        (said.0, said.1, said.2, None)
    );
}

#[test]
fn files_are_named_where_they_are_there_and_would_not_be_found() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("my bundles/mini");
    std::fs::create_dir_all(&place).unwrap();
    let table = dir.path().join("table.toml");
    let mut folder = folder(&STEPS);
    folder.sources = Sources::of(&place, Some(&table));
    std::fs::write(&table, vos::platform::BUILT_IN).unwrap();
    let args = parsed(&folder.rebuild_command());
    assert_eq!(args.platforms.as_deref(), Some(table.as_path()));
    assert!(args.onnx_dir.is_empty(), "there is no bundle");
    std::fs::write(place.join("manifest.toml"), "").unwrap();
    // What follows is not taken for another folder.
    let args = parsed(&folder.rebuild_command_with("--force"));
    assert!(args.force && args.onnx_dir == [place]);

    folder.sources = Sources::of("onnx/bundles/edgetam_mini_256_fp32".as_ref(), None);
    assert!(folder.sources.bundle.as_ref().unwrap().is_absolute());
    assert_eq!(folder.rebuild_command(), PLAIN);
}

#[test]
fn what_no_one_command_builds_takes_two() {
    let mut folder = folder(&with(Role::TrackPadded));
    folder.plans[2].settings.opt_level = Some(5);
    let command = folder.rebuild_command_with("--force");
    let lines: Vec<_> = command.split(" && ").map(parsed).collect();
    let [most, memory] = lines.as_slice() else { panic!("{command}") };
    assert_eq!((most.opt_level, memory.opt_level), (None, Some(5)));
    // MaskPrompt has no plan yet and is among the usual graphs where the bundle has it.
    assert!(
        [Role::Encoder, Role::Prompt, Role::TrackPadded]
            .iter()
            .all(|role| most.graphs.contains(role))
    );
    assert!(!most.graphs.contains(&Role::Memory));
    assert_eq!(memory.graphs, [Role::Memory]);
    assert!(most.force && memory.force);

    // Two forms of the track step are no form's usual graphs.
    let both = self::folder(&[&with(Role::TrackPadded)[..], &[Role::Track]].concat());
    let args = parsed(&both.rebuild_command());
    assert!(args.graphs.contains(&Role::Track) && args.graphs.contains(&Role::TrackPadded));
}
