//! What a file means beside what is typed.

use std::path::Path;

use super::*;
use crate::commands::{Command as Chosen, accept_underscores};

/// The command line `line`, with FILE standing for a file of `text`.
fn start_with(text: &str, line: &str) -> Result<(Start, tempfile::TempDir), ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("experiment.toml");
    std::fs::write(&path, text).unwrap();
    let file = path.to_str().unwrap();
    let words = line.split_whitespace().map(|word| OsString::from(word.replace("FILE", file)));
    let args = accept_underscores(std::iter::once(OsString::from("segtrt")).chain(words));
    start(args).map(|start| (start, dir))
}

fn cli(text: &str, line: &str) -> Cli {
    match start_with(text, line).map(|(start, _)| start) {
        Ok(Start::Run(cli)) => *cli,
        Ok(Start::Print(text)) => panic!("printed {text}"),
        Err(error) => panic!("{error}"),
    }
}

fn error(text: &str) -> String {
    match start_with(text, "--config FILE bench") {
        Ok(_) => panic!("{text} was taken"),
        Err(error) => error.to_string(),
    }
}

const BENCH: &str = "verbose = 1\n[bench]\nsplit-dir = '/data/sav val'\n\
    models = ['edgetam_points', 'sam2_tiny_bbox']\nlimit_videos = 3\nseed = -4\n\
    save-masks = true\nresume = false\nsave-overlays = true\nonnx-dir = ['a', 'b']\n\
    autocast = 'fp16'\n[synth]\nout = 'x'\n";

#[test]
fn a_table_is_what_could_be_typed() {
    for line in ["--config FILE bench", "bench --config=FILE", "bench --config FILE"] {
        let cli = cli(BENCH, line);
        assert_eq!(cli.verbose, 1);
        let Chosen::Bench(bench) = cli.command else { panic!("not a bench") };
        assert_eq!(bench.split_dir.as_deref(), Some(Path::new("/data/sav val")));
        assert_eq!(bench.models, "edgetam_points,sam2_tiny_bbox");
        assert_eq!((bench.limit_videos, bench.shuffle.seed), (3, Some(-4)));
        assert!(bench.save_masks && !bench.resume);
        assert_eq!(bench.save_overlays, crate::commands::bench::Toggle::On);
        assert_eq!(bench.onnx_dir, [Path::new("a"), Path::new("b")]);
        assert_eq!(bench.precision.as_deref(), Some("fp16"), "an alias is a name too");
        assert_eq!(bench.warmup_runs, 1, "defaults stay");
    }
}

#[test]
fn what_is_typed_wins_and_drops_what_it_excludes() {
    let line = "bench --config FILE --limit_videos 7 --models edgetam_bbox --onnx-dir c -v";
    let cli = cli(BENCH, line);
    assert_eq!(cli.verbose, 1);
    let Chosen::Bench(bench) = cli.command else { panic!("not a bench") };
    assert_eq!((bench.limit_videos, bench.models.as_str()), (7, "edgetam_bbox"));
    assert_eq!(bench.onnx_dir, [Path::new("c")]);
    assert!(bench.save_masks);

    let text = "[selftest]\nkernels = true\nruns = 3\n";
    let Chosen::Selftest(selftest) = self::cli(text, "--config FILE selftest --no-kernels").command
    else {
        panic!("not a selftest")
    };
    assert!(selftest.no_kernels && !selftest.kernels);
    assert_eq!(selftest.runs, 3);
}

#[test]
fn what_must_be_typed_may_come_from_the_file() {
    let Chosen::Synth(synth) = cli(BENCH, "--config FILE synth --frames 5").command else {
        panic!("not a synth")
    };
    assert_eq!((synth.out.as_path(), synth.frames), (Path::new("x"), 5));
    let text = "[inspect]\nfiles = ['a.onnx', 'b']\njson = true";
    let Chosen::Inspect(inspect) = cli(text, "--config FILE inspect").command else { panic!() };
    assert_eq!(inspect.files, [Path::new("a.onnx"), Path::new("b")]);
    assert!(inspect.json);
    // A flag whose value may be left out does not take the next word for it.
    let text = format!("{text}\n[suite]\nsave-overlays = true\nsuite = 'x.toml'\n");
    for (line, name) in
        [("suite --config FILE", "x.toml"), ("--config FILE suite lowfps", "lowfps")]
    {
        let Chosen::Suite(suite) = cli(&text, line).command else { panic!("not a suite") };
        assert_eq!(suite.suite, name);
        assert_eq!(suite.bench.save_overlays, crate::commands::bench::Toggle::On);
    }
    let Chosen::Inspect(inspect) = cli(&text, "inspect --config FILE c").command else { panic!() };
    assert_eq!(inspect.files, [Path::new("c")]);
}

#[test]
fn what_cannot_be_typed_is_an_error_that_names_the_nearest() {
    for (text, expected) in [
        (
            "[bench]\nlimit-vidoes = 3",
            "segtrt bench has no flag \"limit-vidoes\"; did you mean \"limit-videos\"?",
        ),
        ("[synth]\nseeed = 3", "did you mean \"seed\"?"),
        ("[bnech]\nseed = 3", "segtrt has no subcommand \"bnech\"; did you mean \"bench\"?"),
        ("seed = 3", "segtrt has no flag \"seed\""),
        ("[bench-worker]\nx = 1", "has no subcommand"),
        ("[bench]\nconfig = 'x'", "has no flag \"config\""),
        ("[bench]\nqqq = 3", "list what there is"),
        ("[bench]\nsave-masks = 'yes'", "save-masks: expected true or false, found string \"yes\""),
        ("[bench]\nseed = {a = 1}", "segtrt bench seed: expected a text"),
        ("verbose = -1", "a number from 0 to 9"),
        ("[bench", "is no TOML"),
    ] {
        let told = error(text);
        assert!(told.contains(expected) && told.contains("experiment.toml"), "{told}");
    }
    let gone = start(["segtrt", "--config", "/nowhere.toml", "bench"].map(OsString::from).into());
    assert!(
        gone.err().unwrap().to_string().contains("cannot read the configuration /nowhere.toml")
    );
}

fn printed(text: &str, line: &str) -> String {
    match start_with(text, line) {
        Ok((Start::Print(printed), dir)) => printed.replace(dir.path().to_str().unwrap(), "DIR"),
        Ok(_) => panic!("it ran"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_is_printed_is_a_file_that_means_the_same() {
    let line = "bench --config FILE --print-config --profile-runs 2 --telemetry_ms=50";
    let first = printed(BENCH, line);
    for expected in [
        "verbose = 1  # DIR/experiment.toml\n",
        "\n[bench]\n",
        "split-dir = \"/data/sav val\"  # DIR/experiment.toml\n",
        "limit-videos = 3  # DIR/experiment.toml\n",
        "onnx-dir = [\"a\", \"b\"]  # DIR/experiment.toml\n",
        "profile-runs = 2  # command line\n",
        "telemetry-ms = 50  # command line\n",
        "geometry = \"stretch\"  # default\n",
        "resume = false  # default\n",
    ] {
        assert!(first.contains(expected), "{expected:?} is not in\n{first}");
    }
    assert!(!first.contains("weights-dir") && !first.contains("config ="), "{first}");
    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split("  #").next().unwrap_or("").to_owned()).collect()
    };
    assert_eq!(values(&printed(&first, "bench --config FILE --print-config")), values(&first));
    let alone = printed("", "synth --out y --print-config");
    for expected in ["[synth]\nvideos = 2  # default\n", "\nout = \"y\"  # command line\n"] {
        assert!(alone.contains(expected), "{alone}");
    }
}
