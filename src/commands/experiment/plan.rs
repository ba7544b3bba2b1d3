/*!
From the arguments of `experiment` to a [`Spec`]: platform, backend, models, sizes, all of it
checked before anything runs.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::args::ExperimentArgs;
use super::spread::{self, ELSEWHERE};
use crate::commands::bench::BenchArgs;
use crate::commands::bench::models::available;
use crate::commands::bench::plan::resolve;
use crate::commands::started_bench::{self, Chosen, check_started, parse_bench, tags_of, text};
use crate::commands::started_sweep::flags;
use crate::experiment::{PlatformKind, Spec};
use cuda::Facts;
use host::UsageError;
use report::compare::sweep::Setting;
use report::nsys::Nsys;
use vos::model_tag::ModelTag;
use vos::platform::Platforms;

/// The predecessor's input size.
const USUAL_IMGSZ: usize = 768;

/// Flags of bench that have a flag of their own here.
const OURS: [&str; 17] = [
    "--limit-videos",
    "--limit-objects",
    "--profile-runs",
    "--warmup-runs",
    "--imgsz",
    "--precision",
    "--autocast",
    "--engines",
    "--onnx-dir",
    "--device",
    "--max-clip-frames",
    "--shuffle-videos",
    "--seed",
    "--shard",
    "--merged-from",
    "--other-devices",
    ELSEWHERE,
];

/// Decides everything; reports decisions made for the user through `say`.
///
/// A sweep of sizes or precisions is decided with the first of its values that can be run: the
/// others may be rows that say why they cannot.
pub(super) fn plan(args: &ExperimentArgs, say: &mut dyn FnMut(&str)) -> Result<Spec> {
    let mut failed = None;
    for values in candidates(args)? {
        let mut lines = Vec::new();
        match plan_with(args, &values, &mut |line: &str| lines.push(line.to_owned())) {
            Ok(spec) => {
                lines.iter().for_each(|line| say(line));
                return Ok(spec);
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    Err(failed.context("there is nothing to measure")?)
}

/// Size and precision with which an experiment is decided.
struct Values {
    imgsz: Option<usize>,
    precision: Option<String>,
}

/// Those that were asked for, or all of a sweep.
fn candidates(args: &ExperimentArgs) -> Result<Vec<Values>> {
    let axis = |setting: Setting, flag: &str, given: bool| {
        let found = args.sweep.iter().find(|axis| axis.setting == setting);
        match found {
            Some(_) if given => Err(UsageError(format!(
                "{flag} and --sweep {} contradict; leave {flag} out",
                setting.name()
            ))),
            found => Ok(found.map(|axis| axis.values.clone())),
        }
    };
    let sizes = match axis(Setting::Imgsz, "--imgsz", args.imgsz.is_some())? {
        Some(values) => values.iter().map(|value| value.parse().ok()).collect(),
        None => vec![args.imgsz],
    };
    let precisions = match axis(Setting::Precision, "--precision", args.precision.is_some())? {
        Some(values) => values.into_iter().map(Some).collect(),
        None => vec![args.precision.clone()],
    };
    let all = sizes.into_iter().flat_map(|imgsz| {
        let with = move |precision: &Option<String>| Values { imgsz, precision: precision.clone() };
        precisions.iter().map(with).collect::<Vec<_>>()
    });
    Ok(all.collect())
}

fn plan_with(args: &ExperimentArgs, values: &Values, say: &mut dyn FnMut(&str)) -> Result<Spec> {
    check_started(&args.started, "experiment", &OURS)?;
    spread::check(args)?;
    let split_dir = args.split_dir.as_ref().context("--split-dir is missing")?;
    let split_dir = std::path::absolute(split_dir)?;
    let base = base_words(args, values, &split_dir)?;
    let probe = |tags: &[String], imgsz: Option<usize>, backend: Option<&str>| {
        let mut words = base.clone();
        words.extend(["--models".to_owned(), tags.join(",")]);
        words.extend(imgsz.iter().flat_map(|side| ["--imgsz".to_owned(), side.to_string()]));
        words.extend(backend.iter().flat_map(|name| ["--backend".to_owned(), (*name).to_owned()]));
        words
    };
    let named = args.models.as_deref().map(tags_of);
    // Before the platform is known its models are not: the question is only whether any engine runs
    // here.
    let any = named.clone().unwrap_or_else(ModelTag::all);
    let asked = parse_bench(&probe(&any, values.imgsz, None))?;
    let chosen = started_bench::choose(args.started.backend, &asked, false);
    flags::check(&args.sweep, chosen.tensorrt, &args.started.bench)?;
    let row = row_of(chosen.gpu.as_ref())?;
    let kind = args.platform.unwrap_or_else(|| {
        let table = Platforms::open(None).ok();
        let row = row.as_deref().and_then(|name| table.as_ref()?.get(name));
        PlatformKind::detect(Path::new("/"), row)
    });
    let platform = row.as_deref().unwrap_or("not in the platform table");
    say(&format!("platform: {} ({platform})", kind.name()));
    say(&chosen.line());
    let usual = || kind.usual_models().iter().map(|tag| (*tag).to_owned()).collect();
    let tags: Vec<String> = named.clone().unwrap_or_else(usual);
    let imgsz = side(values.imgsz, &tags, &chosen, &probe, say)?;
    let models = match named {
        // A model asked for by name is missed: the bench says so, and the experiment ends with an
        // error.
        Some(tags) => tags,
        None => there(&tags, &parse_bench(&probe(&tags, imgsz, Some(chosen.name())))?, say)?,
    };
    let mut bench = probe(&models, imgsz, Some(chosen.name()));
    let resolved = resolve(&parse_bench(&bench)?)?;
    let mut sizes: Vec<usize> = Vec::new();
    let mut precisions: Vec<String> = Vec::new();
    for model in &resolved.plan.models {
        if !sizes.contains(&model.imgsz) {
            sizes.push(model.imgsz);
        }
        let precision = model.precision.to_string();
        if !precisions.contains(&precision) {
            precisions.push(precision);
        }
    }
    for axis in &args.sweep {
        match axis.setting {
            Setting::Imgsz => sizes = axis.values.iter().flat_map(|value| value.parse()).collect(),
            Setting::Precision => precisions.clone_from(&axis.values),
            _ => {}
        }
    }
    let clips = resolved.plan.videos.len();
    let sharding = spread::sharding(args, &chosen, &mut bench, clips)?;
    Ok(Spec {
        format: 1,
        segtrt: env!("CARGO_PKG_VERSION").to_owned(),
        timestamp: String::new(),
        platform: kind,
        platform_row: row,
        hostname: kind.hostname(),
        backend: chosen.name().to_owned(),
        backend_reason: chosen.reason,
        cuda: chosen.gpu.as_ref().map(|gpu| gpu.driver_cuda.clone()),
        gpu: chosen.gpu.map(|gpu| gpu.name),
        nsys: Nsys::find().ok().map(|nsys| nsys.path),
        profile: !args.no_profile,
        split_dir,
        models,
        imgsz: sizes,
        precision: precisions,
        videos: args.videos,
        objects: args.objects,
        runs: args.runs as usize,
        warmup: args.warmup,
        bench,
        working_directory: std::env::current_dir().context("the working folder is gone")?,
        sharding,
        sweep: args.sweep.clone(),
        steps: Vec::new(),
    })
}

/// The words of a bench that do not depend on what is found.
fn base_words(args: &ExperimentArgs, values: &Values, split_dir: &Path) -> Result<Vec<String>> {
    let mut words = args.started.bench.clone();
    if args.spread.slurm {
        words.push(ELSEWHERE.to_owned());
    }
    let mut push = |name: &str, value: String| words.extend([name.to_owned(), value]);
    push("--split-dir", text(split_dir)?);
    push("--split-name", args.split_name.clone());
    push("--limit-videos", args.videos.to_string());
    push("--limit-objects", args.objects.to_string());
    push("--profile-runs", args.runs.to_string());
    push("--warmup-runs", args.warmup.to_string());
    push("--max-clip-frames", args.max_clip_frames.to_string());
    push("--device", args.spread.devices.first().unwrap_or(&args.started.device).to_string());
    push("--engines", text(&std::path::absolute(&args.started.engines)?)?);
    for dir in &args.started.onnx_dir {
        push("--onnx-dir", text(&std::path::absolute(dir)?)?);
    }
    if let Some(seed) = args.shuffle.seed {
        push("--seed", seed.to_string());
    }
    if let Some(precision) = &values.precision {
        push("--precision", precision.clone());
    }
    if let Some(shard) = args.spread.shard {
        push("--shard", shard.to_string());
    }
    if args.shuffle.shuffle_videos {
        words.push("--shuffle-videos".to_owned());
    }
    Ok(words)
}

/// The name of the GPU's row in the platform table.
fn row_of(gpu: Option<&Facts>) -> Result<Option<String>> {
    let table = Platforms::open(None)?;
    Ok(gpu.and_then(|gpu| table.of_device(&gpu.name, gpu.sm)).map(|row| row.name.clone()))
}

/// The command line of a bench with these models, size and backend, to see what it would find.
type Probe<'a> = dyn Fn(&[String], Option<usize>, Option<&str>) -> Vec<String> + 'a;

/// The input size: as asked for, else the predecessor's where a model is there at it, else what
/// bench takes by itself.
fn side(
    asked: Option<usize>,
    tags: &[String],
    chosen: &Chosen,
    probe: &Probe<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<Option<usize>> {
    if asked.is_some() {
        return Ok(asked);
    }
    let asked = parse_bench(&probe(tags, Some(USUAL_IMGSZ), Some(chosen.name())))?;
    if available(tags, &asked)?.iter().any(|(_, model)| model.is_ok()) {
        return Ok(Some(USUAL_IMGSZ));
    }
    say(&format!(
        "no model is there at the predecessor's {USUAL_IMGSZ} pixels; taking the size that is \
         there (--imgsz says which)"
    ));
    Ok(None)
}

/// Those of the platform's models that can be run.
fn there(tags: &[String], args: &BenchArgs, say: &mut dyn FnMut(&str)) -> Result<Vec<String>> {
    let mut models = Vec::new();
    let mut reasons = Vec::new();
    for (tag, model) in available(tags, args)? {
        match model {
            Ok(_) => models.push(tag),
            Err(error) => reasons.push(format!("left out {tag}: {error:#}")),
        }
    }
    if models.is_empty() {
        bail!(UsageError(format!(
            "none of the platform's models can be run; {}.\n{}",
            others(args)?,
            reasons.join("\n")
        )));
    }
    reasons.iter().for_each(|reason| say(reason));
    Ok(models)
}

/// What can be run here instead, ready to be typed.
fn others(args: &BenchArgs) -> Result<String> {
    let all = available(&ModelTag::every(), args)?;
    let here: Vec<String> =
        all.into_iter().filter(|(_, model)| model.is_ok()).map(|(tag, _)| tag).collect();
    Ok(match here.is_empty() {
        true => "make them, or name the folder that they are in (--onnx-dir, --engines)".to_owned(),
        false => format!("here are others: --models {}", here.join(",")),
    })
}

/// Where the experiment's folder goes.
pub(super) fn parent(args: &ExperimentArgs) -> PathBuf {
    args.out_dir.clone().unwrap_or_else(|| PathBuf::from("."))
}
