/*!
From what was typed to what will be measured: sides, reference, bundles.
*/

use std::path::PathBuf;

use anyhow::Result;

use super::args::{ChosenSide, CompareArgs, MeasureArgs, OwnSide};
use super::baselines::{Baseline, baselines};
use crate::commands::bench::parse_precision;
use crate::compare::measure::{Clips, ModelWork, Plan, ReferencePlan, SideKind, SidePlan};
use host::UsageError;
use vos::bundle::{self, Bundle, WantedBundle};
use vos::model_tag::ModelTag;
use vos::prompt::PromptKind;

/// The precision that the reference has, and what any bundle of a model is looked for by first.
const SINGLE: &str = "fp32";

/// The reference run of PyTorch, and of segtrt.
const EAGER_REFERENCE: &str = "eager-fp32";
const CPU_REFERENCE: &str = "cpu-fp32";

/// The runner's flag for TF32 matmuls in fp32, and the name of that precision.
const TF32_FLAG: &str = "--tf32";
const TF32: &str = "tf32";

/// What all sides are given alike, and what a side is: nobody but this command says that to bench
/// and to the runner. The last word counts there, and a side would be another than its name says.
const SAID_HERE: [&str; 10] = [
    "--split-dir",
    "--split-name",
    "--limit-videos",
    "--limit-objects",
    "--max-clip-frames",
    "--models",
    "--imgsz",
    "--precision",
    "--warmup-runs",
    "--out-dir",
];

/// Likewise to the runner alone.
const SAID_TO_RUNNER: [&str; 4] = ["--mode", "--compile-mode", "--device", "--rounds"];

fn usage<T>(text: String) -> Result<T> {
    Err(UsageError(text).into())
}

/// Resolves the arguments.
///
/// # Errors
/// An unknown model, baseline or reference.
pub(super) fn resolve(args: &CompareArgs) -> Result<Plan> {
    let measure = &args.measure;
    refuse_said_here("--runner-arg", &measure.runner_arg, &SAID_TO_RUNNER)?;
    refuse_said_here("--bench-arg", &measure.bench_arg, &["--backend"])?;
    let own = own_sides(measure);
    let precision = precision_of(measure, &own);
    for chosen in &own {
        let asked = chosen.precision.as_deref().unwrap_or(&precision);
        if let Err(why) = parse_precision(asked) {
            return usage(format!("{}: --precision {asked}: {why}", chosen.name()));
        }
    }
    let mut sides: Vec<SidePlan> =
        own.iter().map(|chosen| chosen_side(measure, chosen, &precision)).collect();
    // PyTorch has no mixed engines; what these are to be as near to fp32 as is its fp16.
    let like = if precision == "mixed" { "fp16".to_owned() } else { precision.clone() };
    let theirs = measure.baseline_precision.clone().unwrap_or(like);
    let baselines = baselines(&measure.baselines, &theirs)?;
    sides.extend(baselines.iter().map(|side| runner_side(measure, side, &[])));
    refuse_tf32_on_cpu(&sides, &baselines)?;
    let mut names: Vec<&str> = sides.iter().map(|side| side.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return usage(format!("{} is named twice among --sides and --baselines", twice[0]));
    }
    let reference = reference(args, &sides, !baselines.is_empty())?;
    Ok(Plan {
        out_dir: args.out_dir.clone(),
        models: models(measure)?,
        sides,
        reference,
        clips: clips(args),
        rounds: measure.rounds as usize,
        teacher_forced: measure.teacher_forced,
        restart: measure.restart_runners,
        stall_limit_s: measure.stall_limit,
        ready_limit_s: measure.ready_limit,
    })
}

/// Refuses further arguments that would make every side, the reference too, something else.
fn refuse_said_here(option: &str, args: &[String], more: &[&str]) -> Result<()> {
    for arg in args {
        let flag = arg.split_once('=').map_or(arg.as_str(), |(flag, _)| flag);
        if SAID_HERE.contains(&flag) || more.contains(&flag) {
            return usage(format!(
                "{option}={arg}: compare itself gives {flag} to each side; what a side is goes \
                 with --sides and --baselines (tensorrt:mixed, compile:tf32), what all have with \
                 compare's own options"
            ));
        }
    }
    Ok(())
}

/// TF32 is what NVIDIA's tensor cores do. A processor runs such a side in fp32 under another name,
/// and with limits of equality that are not its own.
fn refuse_tf32_on_cpu(sides: &[SidePlan], baselines: &[Baseline]) -> Result<()> {
    let asked = |side: &&SidePlan| {
        baselines.iter().any(|baseline| baseline.name == side.name && baseline.precision == TF32)
    };
    match sides.iter().filter(asked).find(|side| is_on_cpu(&side.kind)) {
        Some(side) => usage(format!(
            "{} in tf32 with --device cpu: a processor has no TF32, it runs the same in fp32; ask \
             for fp32 (--baselines MODE:fp32), or run PyTorch on a GPU (--device cuda)",
            side.name
        )),
        None => Ok(()),
    }
}

fn is_on_cpu(kind: &SideKind) -> bool {
    matches!(kind, SideKind::Runner { device, .. } if device == "cpu")
}

/// TF32 matmuls; the flag does nothing on a processor.
fn has_tf32(kind: &SideKind) -> bool {
    let SideKind::Runner { args, .. } = kind else { return false };
    !is_on_cpu(kind) && args.iter().any(|arg| arg == TF32_FLAG)
}

/// The clips that were asked for.
pub(super) fn clips(args: &CompareArgs) -> Clips {
    let CompareArgs { split_dir, split_name, measure, .. } = args;
    Clips {
        split_dir: split_dir.clone(),
        split_name: split_name.clone(),
        limit_videos: measure.limit_videos,
        limit_objects: measure.limit_objects,
        max_clip_frames: measure.max_clip_frames,
        warmup_runs: measure.warmup_runs,
    }
}

/// segtrt's own sides that were asked for.
pub(super) fn own_sides(measure: &MeasureArgs) -> Vec<ChosenSide> {
    match measure.sides.as_slice() {
        [] => vec![ChosenSide { side: measure.backend, precision: None }],
        sides => sides.to_vec(),
    }
}

fn chosen_side(measure: &MeasureArgs, chosen: &ChosenSide, usual: &str) -> SidePlan {
    let precision = chosen.precision.as_deref().unwrap_or(usual);
    SidePlan { name: chosen.name(), ..own_side(measure, chosen.side, precision) }
}

/// The precision that was asked for, or the usual one of the sides.
pub(super) fn precision_of(measure: &MeasureArgs, own: &[ChosenSide]) -> String {
    let on_cpu = own.iter().all(|chosen| chosen.side == OwnSide::Cpu);
    let usual = if on_cpu { SINGLE } else { "fp16" };
    measure.precision.clone().unwrap_or_else(|| usual.to_owned())
}

/// One of segtrt's own sides.
pub(super) fn own_side(measure: &MeasureArgs, side: OwnSide, precision: &str) -> SidePlan {
    let mut args: Vec<String> = match side {
        OwnSide::Tensorrt => ["--backend", "tensorrt", "--engines"].map(str::to_owned).into(),
        OwnSide::Cpu => ["--ort-provider", "cpu"].map(str::to_owned).into(),
        OwnSide::OrtCuda => ["--ort-provider", "cuda"].map(str::to_owned).into(),
        OwnSide::OrtTensorrt => ["--ort-provider", "tensorrt"].map(str::to_owned).into(),
    };
    match side {
        OwnSide::Tensorrt => args.push(measure.engines.display().to_string()),
        _ => args.extend(
            onnx_dirs(measure)
                .iter()
                .flat_map(|dir| ["--onnx-dir".to_owned(), dir.display().to_string()]),
        ),
    }
    args.extend(measure.bench_arg.iter().cloned());
    let (name, precision) = (side.name().to_owned(), precision.to_owned());
    SidePlan { name, precision, imgsz: None, kind: SideKind::Bench(args) }
}

fn runner_side(measure: &MeasureArgs, side: &Baseline, more: &[&str]) -> SidePlan {
    let on_cpu = own_sides(measure).iter().all(|chosen| chosen.side == OwnSide::Cpu);
    let usual = if on_cpu { "cpu" } else { "cuda" };
    // A precision of its own is what its name says, whatever all sides are told: that of the
    // reference is fp32.
    let tf32 = side.precision == TF32;
    let wanted = |arg: &&String| arg.as_str() != TF32_FLAG || !(tf32 || side.own_precision);
    let theirs = measure.runner_arg.iter().filter(wanted).cloned();
    let (mode, how) = side.runner_mode();
    let more = how.iter().chain(more).copied().chain(tf32.then_some(TF32_FLAG));
    let args = theirs.chain(more.map(str::to_owned));
    SidePlan {
        name: side.name.clone(),
        precision: if tf32 { SINGLE.to_owned() } else { side.precision.clone() },
        imgsz: None,
        kind: SideKind::Runner {
            python: measure.python.clone(),
            script: host::share::resolve(&measure.runner),
            mode: mode.to_owned(),
            device: measure.device.clone().unwrap_or_else(|| usual.to_owned()),
            args: args.collect(),
        },
    }
}

fn reference(args: &CompareArgs, sides: &[SidePlan], baselines: bool) -> Result<ReferencePlan> {
    if let Some(path) = &args.reference_run {
        return Ok(ReferencePlan::Folder(path.clone()));
    }
    let usual = if baselines { EAGER_REFERENCE } else { "cpu" };
    let asked = args.reference.as_deref().unwrap_or(usual);
    // A side that is the same run serves as the reference too.
    match asked {
        EAGER_REFERENCE => Ok(sides.iter().find(|side| is_exact(side)).map_or_else(
            || ReferencePlan::Run(eager_reference(&args.measure, sides)),
            |side| ReferencePlan::Side(side.name.clone()),
        )),
        "cpu" => Ok(sides.iter().find(|side| is_single_cpu(side)).map_or_else(
            || {
                let side = own_side(&args.measure, OwnSide::Cpu, SINGLE);
                ReferencePlan::Run(SidePlan { name: CPU_REFERENCE.to_owned(), ..side })
            },
            |side| ReferencePlan::Side(side.name.clone()),
        )),
        name => {
            if let Some(side) = sides.iter().find(|side| side.name == name) {
                return named_reference(side);
            }
            let known: Vec<&str> = sides.iter().map(|side| side.name.as_str()).collect();
            usage(format!(
                "--reference {name}: there is {EAGER_REFERENCE}, cpu, or one of the sides ({}); a \
                 folder goes with --reference-run",
                known.join(", ")
            ))
        }
    }
}

/// A side as the reference, by its name.
fn named_reference(side: &SidePlan) -> Result<ReferencePlan> {
    let tf32 = has_tf32(&side.kind);
    if side.precision == SINGLE && !tf32 {
        return Ok(ReferencePlan::Side(side.name.clone()));
    }
    let precision = if tf32 && side.precision == SINGLE { TF32 } else { &side.precision };
    usage(format!(
        "--reference {}: it runs in {precision}, and masks are compared with a run in fp32",
        side.name
    ))
}

/// PyTorch's reference run, if no side is the reference.
fn eager_reference(measure: &MeasureArgs, sides: &[SidePlan]) -> SidePlan {
    // A side that only resizes otherwise may have the name already, as --baselines
    // eager:fp32,eager:fp16 gives it.
    let is_taken = sides.iter().any(|side| side.name == EAGER_REFERENCE);
    let reference = Baseline {
        name: format!("{}{EAGER_REFERENCE}", if is_taken { "reference-" } else { "" }),
        mode: "eager",
        precision: SINGLE.to_owned(),
        own_precision: true,
    };
    // segtrt resizes as Pillow does to the last bit, and so must what it is compared with; no speed
    // is wanted of it.
    runner_side(measure, &reference, &["--preprocess", "cpu", "--tuning", "none"])
}

/// segtrt's side on the CPU in fp32, which has its precision in its name where that was typed.
fn is_single_cpu(side: &SidePlan) -> bool {
    ["cpu", CPU_REFERENCE].contains(&side.name.as_str()) && side.precision == SINGLE
}

/// Whether a side is PyTorch in eager mode and may be the reference: its products are fp32's, and
/// it resizes by Pillow: on the CPU it does unless told otherwise, on a GPU only when told to.
fn is_exact(side: &SidePlan) -> bool {
    let SideKind::Runner { mode, device, args, .. } = &side.kind else { return false };
    let words: Vec<&str> = args.iter().flat_map(|arg| arg.split('=')).collect();
    if mode != "eager" || side.precision != SINGLE || has_tf32(&side.kind) {
        return false;
    }
    let told = words.windows(2).rfind(|pair| pair[0] == "--preprocess").map(|pair| pair[1]);
    told.unwrap_or(if device == "cpu" { "cpu" } else { "gpu" }) == "cpu"
}

fn onnx_dirs(measure: &MeasureArgs) -> Vec<PathBuf> {
    host::share::bundle_roots(&measure.onnx_dir)
}

/// The models that were asked for.
pub(super) fn models(measure: &MeasureArgs) -> Result<Vec<ModelWork>> {
    let roots = onnx_dirs(measure);
    // Engines run without bundles; who needs one says so then.
    let bundles = bundle::list(&roots);
    let mut models: Vec<ModelWork> = Vec::new();
    for text in measure.models.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        let Some(tag) = ModelTag::parse(text, PromptKind::Points) else {
            return usage(format!("--models {text}: known tags are {}", ModelTag::known()));
        };
        let found = match &bundles {
            Ok(bundles) => any_precision(bundles, &roots, &tag, measure.imgsz),
            Err(error) => Err(format!("{error:#}")),
        };
        let imgsz = found.as_ref().ok().map(|bundle| bundle.manifest.model.imgsz);
        models.push(ModelWork {
            tag: tag.text,
            imgsz: measure.imgsz.or(imgsz),
            bundle: found.map(|bundle| {
                std::path::absolute(&bundle.dir).unwrap_or_else(|_| bundle.dir.clone())
            }),
        });
    }
    if models.is_empty() {
        return usage(format!(
            "--models is needed to measure; known tags are {}. To judge folders that are there, \
             use --runs",
            ModelTag::known()
        ));
    }
    Ok(models)
}

/// The bundle of a model whose weights PyTorch takes: they do not depend on the graphs' precision.
fn any_precision(
    bundles: &[Bundle],
    roots: &[PathBuf],
    tag: &ModelTag,
    imgsz: Option<usize>,
) -> Result<Bundle, String> {
    let find = |precision| {
        bundle::find(bundles, roots, &WantedBundle { model: &tag.network, imgsz, precision })
    };
    find(SINGLE).or_else(|error| find("fp16").map_err(|_| format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_arithmetic_and_resize_make_a_reference() {
        let side = |device: &str, args: &[&str]| SidePlan {
            name: "eager".to_owned(),
            precision: SINGLE.to_owned(),
            imgsz: None,
            kind: SideKind::Runner {
                python: "python3".into(),
                script: "run.py".into(),
                mode: "eager".to_owned(),
                device: device.to_owned(),
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            },
        };
        assert!(is_exact(&side("cpu", &[])));
        assert!(is_exact(&side("cpu", &["--tf32"])), "a processor has no TF32");
        assert!(!is_exact(&side("cuda", &["--tf32"])));
        assert!(is_exact(&side("cuda", &["--preprocess", "cpu"])));
        assert!(!is_exact(&side("cuda", &["--preprocess", "cpu", "--tf32"])));
        assert!(is_exact(&side("cuda", &["--preprocess=cpu"])));
        assert!(!is_exact(&side("cpu", &["--preprocess", "gpu"])));
    }
}
