/*!
`segtrt test-run`: go through every step, say what came of each and what files there are.
*/

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use clap::Args;
use serde_json::json;

use super::Outcome;
use crate::commands::headings::{GPU, MODEL, OUTPUT};
use crate::doctor;
use crate::selftest::same_masks;
use crate::test_run::{self, NO_SPEEDS, Runner, build_flags, measured};
use host::UsageError;
use host::ctrl_c;
use vos::bundle::{Bundle, Role};
use vos::model_tag::ModelTag;
use vos::prompt::PromptKind;

/// Flags of `segtrt test-run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt test-run --out test_run\n\nSteps: synthetic split, hashes \
                        of the bundle, bench on the CPU. With a GPU: selftest of the kernels. \
                        With TensorRT too: build and selftest of engines, and a bench whose masks \
                        are compared with the CPU's. Engines are built at optimization level 0, \
                        several at once, so their speed means nothing. Each step is a process \
                        with its own log. Skipped steps are listed with the reason. Exit code 1: \
                        a step failed."
)]
pub struct TestRunArgs {
    /// Folder of all files.
    #[arg(long, help_heading = OUTPUT, default_value = "test_run", value_name = "DIR")]
    pub out: PathBuf,
    /// Bundle of the network, written by onnx/export.py; the demo's is installed with segtrt.
    #[arg(
        long,
        help_heading = MODEL,
        default_value = "onnx/bundles/edgetam_mini_256_fp32",
        value_name = "DIR"
    )]
    pub bundle: PathBuf,
    /// TensorRT's library, or its folder [default: SEGTRT_TENSORRT_LIB, the loader's path, pip's
    /// packages].
    #[arg(long, help_heading = GPU)]
    pub tensorrt_lib: Option<PathBuf>,
    /// Shared library of ONNX Runtime, or its folder.
    #[arg(long, help_heading = MODEL)]
    pub ort_lib: Option<PathBuf>,
    /// Print one JSON document at the end.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Networks of images up to this size run on one thread: a second one costs more than it gains.
const SMALL_IMGSZ: usize = 256;
/// Objects of the clip, and its frames: enough for the memory (18 frames) to fill and for some
/// steady frames after that.
const OBJECTS: usize = 2;
const FRAMES: usize = 48;

/// The places and names that the steps share.
struct Stage {
    split: PathBuf,
    bundle: PathBuf,
    tag: String,
    model: String,
    imgsz: usize,
    precision: String,
    out: PathBuf,
}

/// Runs the steps.
pub fn run(mut args: TestRunArgs) -> Result<Outcome> {
    args.bundle = host::share::resolve(&args.bundle);
    // Before anything is made: without a network there is nothing to test.
    if !args.bundle.is_dir() {
        bail!(UsageError(format!(
            "there is no folder {}; install segtrt with its demo network (make install), or name \
             a bundle with --bundle DIR (segtrt fetch gets one)",
            args.bundle.display()
        )));
    }
    let bundle = Bundle::open(&args.bundle)?;
    let model = bundle.manifest.model.clone();
    let tag = ModelTag::parse(&model.name, PromptKind::Points);
    ensure!(
        tag.is_some(),
        "{} holds the model {}, which has no tag; known are {}",
        args.bundle.display(),
        model.name,
        ModelTag::known()
    );
    let stage = Stage {
        split: args.out.join("split"),
        bundle: args.bundle.clone(),
        tag: tag.map(|tag| tag.text).unwrap_or_default(),
        imgsz: model.imgsz,
        precision: model.precision,
        model: model.name,
        out: args.out.clone(),
    };
    let mut runner = Runner::new(&args.out)?;
    ctrl_c::end_with_repeat(&format!("The steps' files are in {}.", args.out.display()), &[]);
    steps(&mut runner, &stage, &bundle, &args);
    let seconds: f64 = runner.results.iter().map(|step| step.seconds).sum();
    let count = |wanted: fn(&test_run::Outcome) -> bool| {
        runner.results.iter().filter(|step| wanted(&step.outcome)).count()
    };
    let failed = count(|outcome| matches!(outcome, test_run::Outcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, test_run::Outcome::Skipped(_)));
    let passed = runner.results.len() - failed - skipped;
    let files = files(&args.out);
    if args.json {
        println!(
            "{:#}",
            json!({"steps": runner.results, "seconds": seconds, "files": files, "speeds": NO_SPEEDS})
        );
    } else {
        for file in &files {
            println!("{}", file.display());
        }
        println!("{passed} steps passed, {failed} failed, {skipped} skipped, in {seconds:.0} s");
        println!("{NO_SPEEDS}");
        if bundle.manifest.weights.source == "random" {
            println!("the network's weights are random: its J&F means nothing");
        }
    }
    Ok(if failed > 0 { Outcome::PartlyFailed } else { Outcome::Done })
}

fn steps(runner: &mut Runner, stage: &Stage, bundle: &Bundle, args: &TestRunArgs) {
    let split = runner.command("split", synth(stage), || {
        Ok(format!("1 clip, {FRAMES} frames, {OBJECTS} objects, {}", stage.split.display()))
    });
    let sound = runner.look("bundle", || {
        let roles: Vec<Role> = bundle.manifest.graphs.iter().map(|graph| graph.role).collect();
        bundle.verify(&roles)?;
        Ok(format!(
            "{}: {} graphs, {}",
            bundle.name(),
            roles.len(),
            bundle.manifest.weights_phrase()
        ))
    });
    let ready = split && sound;
    let cpu = stage.out.join("cpu");
    match ready {
        true => {
            let arguments = on_cpu(stage, &cpu, args);
            runner.command("cpu", arguments, || measured(&cpu, OBJECTS));
        }
        false => runner.skip("cpu", "what it needs failed"),
    }
    gpu_steps(runner, stage, bundle.manifest.graphs.len(), args, ready);
}

fn gpu_steps(runner: &mut Runner, stage: &Stage, plans: usize, args: &TestRunArgs, ready: bool) {
    const ENGINES: [&str; 3] = ["engines", "selftest", "gpu"];
    let gpus = doctor::gpus();
    if let Err(why) = &gpus {
        runner.skip("kernels", why);
        ENGINES.iter().for_each(|name| runner.skip(name, "no GPU"));
        return;
    }
    let words = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
    runner.command("kernels", words(&["selftest", "--kernels", "--runs", "5"]), || {
        Ok("every kernel agrees with the CPU".to_owned())
    });
    let skip_all = |runner: &mut Runner, from: usize, why: &str| {
        ENGINES[from..].iter().for_each(|name| runner.skip(name, why));
    };
    if !ready {
        return skip_all(runner, 0, "what it needs failed");
    }
    if !doctor::has_tensorrt(args.tensorrt_lib.as_deref()) {
        return skip_all(runner, 0, "no TensorRT here; segtrt doctor says how to get one");
    }
    let engines = stage.out.join("engines");
    let with_tensorrt = |mut arguments: Vec<OsString>| {
        if let Some(library) = &args.tensorrt_lib {
            arguments.extend(["--tensorrt-lib".into(), library.into()]);
        }
        arguments
    };
    let mut build = words(&["build-engines", "--platform", "auto", "--models"]);
    build.extend([
        (&stage.model).into(),
        "--precision".into(),
        (&stage.precision).into(),
        "--imgsz".into(),
        stage.imgsz.to_string().into(),
    ]);
    build.extend([
        "--onnx-dir".into(),
        stage.bundle.clone().into(),
        "--out".into(),
        engines.clone().into(),
    ]);
    build.extend(build_flags(plans, &gpus).map(OsString::from));
    if !runner.command("engines", with_tensorrt(build), || Ok(engines.display().to_string())) {
        return skip_all(runner, 1, "there are no engines");
    }
    let mut selftest =
        words(&["selftest", "--no-kernels", "--no-clip", "--runs", "5", "--engines"]);
    selftest.extend([engines.clone().into(), "--onnx-dir".into(), stage.bundle.clone().into()]);
    runner.command("selftest", with_tensorrt(selftest), || {
        Ok("every engine agrees with ONNX Runtime".to_owned())
    });
    let gpu = stage.out.join("gpu");
    let mut bench = words(&["bench", "--backend", "tensorrt", "--save-masks", "--models"]);
    bench.extend([(&stage.tag).into(), "--split-dir".into(), stage.split.clone().into()]);
    bench.extend(["--engines".into(), engines.into(), "--out-dir".into(), gpu.clone().into()]);
    runner.command("gpu", with_tensorrt(bench), || {
        let measured = measured(&gpu, OBJECTS)?;
        let agreement = same_masks(&stage.out.join("cpu"), &gpu)?;
        agreement.check()?;
        Ok(format!("{measured}, {agreement}"))
    });
}

fn synth(stage: &Stage) -> Vec<OsString> {
    let numbers = [OBJECTS, FRAMES].map(|number| number.to_string());
    let words = [
        "synth",
        "--videos",
        "1",
        "--objects",
        &numbers[0],
        "--frames",
        &numbers[1],
        "--size",
        "320x240",
    ];
    let words = words.iter().map(OsString::from);
    words.chain(["--seed".into(), "7".into(), "--out".into(), stage.split.clone().into()]).collect()
}

fn on_cpu(stage: &Stage, out: &Path, args: &TestRunArgs) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["bench".into(), "--models".into(), (&stage.tag).into()];
    arguments.extend(["--split-dir".into(), stage.split.clone().into()]);
    arguments.extend(["--onnx-dir".into(), stage.bundle.clone().into()]);
    arguments.extend(["--precision".into(), (&stage.precision).into()]);
    arguments.extend(["--out-dir".into(), out.into(), "--save-masks".into()]);
    if stage.imgsz <= SMALL_IMGSZ {
        arguments.extend(["--threads".into(), "1".into()]);
    }
    if let Some(library) = &args.ort_lib {
        arguments.extend(["--ort-lib".into(), library.into()]);
    }
    arguments
}

/// The result files and logs that there are now.
fn files(out: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["cpu", "gpu", "logs"] {
        let Ok(entries) = std::fs::read_dir(out.join(folder)) else { continue };
        found.extend(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()));
    }
    found.sort();
    found
}
