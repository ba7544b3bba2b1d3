/*!
`segtrt jetson-benchmark`: the first phase prepares and checks, the second measures each model in a
fresh process.
*/

mod args;
mod budget;
mod inference;
mod plan;

use std::io::Write;

use anyhow::{Context, Result};

use crate::bench::plan::BenchModel;
use crate::commands::bench::models::{available, none_can_run};
use crate::commands::started_bench::text;
use crate::commands::{Outcome, predecode};
use crate::experiment::{Step, run_step};
use crate::two_phase::{InferenceConfig, Metadata, Scan, SystemMemory, scan};
pub use args::JetsonBenchmarkArgs;
use budget::{Budget, Caps};
use host::ctrl_c;
use host::{UsageError, counted};
use plan::Plan;
use vos::dataset::{self, Dataset};
use vos::predecode::{Options, Values};

/// Runs one phase or both.
pub fn run(args: JetsonBenchmarkArgs) -> Result<Outcome> {
    let recorded = match args.skip_setup {
        // Missing metadata is the more telling error, and the predecessor's.
        true => Metadata::read(&args.preprocessed_dir)
            .and_then(|_| InferenceConfig::read(&args.preprocessed_dir))?,
        false => None,
    };
    let mut plan = plan::plan(&args, recorded.as_ref())?;
    let kept = format!("Finished rows are kept in {}.", plan.out_dir.display());
    ctrl_c::end_with_repeat(&kept, &["--resume"]);
    eprintln!("{}", plan.chosen.line());
    if let Some(memory) = SystemMemory::now() {
        eprintln!("{}", memory.line());
    }
    let split = dataset::open(&plan.split_dir, &plan.split_name)?;
    let gpu = plan.chosen.gpu.as_ref().filter(|_| plan.chosen.tensorrt);
    let memory = match gpu.map(Budget::of) {
        None => Memory::default(),
        Some(budget) => {
            let bundles = budget::bundles(&args.started.onnx_dir)?;
            let (caps, refused) = budget.fit(&mut plan, &bundles)?;
            Memory { budget: Some(budget), caps, refused }
        }
    };
    let mut left_out = memory.refused;
    if !args.skip_setup {
        left_out += setup(&plan, &args, &memory, split.as_ref())?;
    }
    if args.skip_inference {
        if args.json {
            println!(
                "{:#}",
                serde_json::json!({"setup": plan.preprocessed_dir, "left_out": left_out})
            );
        }
        return Ok(if left_out > 0 { Outcome::PartlyFailed } else { Outcome::Done });
    }
    if let Some(budget) = &memory.budget {
        left_out += leave_out_built(&mut plan, budget)?;
    }
    let metadata = Metadata::read(&plan.preprocessed_dir)?;
    let measured = inference::run(&plan, &args, &metadata, split.as_ref())?;
    Ok(match measured {
        Outcome::Done if left_out > 0 => Outcome::PartlyFailed,
        measured => measured,
    })
}

/// What is known of the GPU's memory.
#[derive(Default)]
struct Memory {
    /// None without a GPU.
    budget: Option<Budget>,
    /// Workspace cap of each network, MiB.
    caps: Caps,
    /// Models that do not fit.
    refused: usize,
}

/// The first phase. How many models cannot be run comes back; a clip that cannot be used costs its rows
/// only.
fn setup(
    plan: &Plan,
    args: &JetsonBenchmarkArgs,
    memory: &Memory,
    split: &dyn Dataset,
) -> Result<usize> {
    eprintln!("first phase: setup");
    let dir = &plan.preprocessed_dir;
    std::fs::create_dir_all(dir).with_context(|| {
        format!("cannot create {}; choose another --preprocessed-dir", dir.display())
    })?;
    let videos = dataset::select(split.videos(), plan.limit_videos, plan.shuffle, plan.seed);
    let found = scan(split, &videos, plan.limit_objects, &mut |line| eprintln!("{line}"))?;
    let Scan { video_data, objects, left_out } = found;
    eprintln!(
        "{} in {} of {} can be prompted; clips and objects that cannot: {left_out}",
        counted(objects, "object"),
        video_data.len(),
        counted(videos.len(), "clip")
    );
    if objects == 0 {
        anyhow::bail!(
            "no object of the clips can be prompted, for the reasons above; raise --limit-videos \
             or --limit-objects, or name another --split-dir"
        );
    }
    if plan.chosen.tensorrt {
        let mut caps: Vec<u64> = memory.caps.values().copied().collect();
        caps.sort_unstable();
        caps.dedup();
        for cap in caps {
            let of_cap = |name: &String| memory.caps.get(name) == Some(&cap);
            let names: Vec<String> = plan.networks().into_iter().filter(of_cap).collect();
            build(plan, args, &names, cap)?;
        }
        // Without a GPU nothing is known of its memory; the build says what is missing.
        if memory.budget.is_none() {
            build(plan, args, &plan.networks(), plan.workspace_mb)?;
        }
    }
    let missing = check_models(plan, memory.budget.as_ref())?;
    if let Some(values) = plan.predecode {
        decode(plan, split, &videos, values)?;
    }
    let metadata = Metadata {
        video_ids: videos,
        video_data,
        split_dir: text(&plan.split_dir)?,
        imgsz: plan.imgsz,
    };
    let config = InferenceConfig {
        cudnn_benchmark: false,
        preprocessed_dir: text(&args.preprocessed_dir)?,
        args: plan.flags.clone(),
    };
    let mut out = std::io::stderr().lock();
    writeln!(out, "{}", metadata.write(dir)?.display())?;
    writeln!(out, "{}", config.write(dir)?.display())?;
    Ok(missing)
}

/// Builds the engines of these networks that are missing or outdated, in a process of its own under
/// a workspace cap.
fn build(plan: &Plan, args: &JetsonBenchmarkArgs, names: &[String], cap: u64) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let parsed = plan.parsed()?;
    let mut words = Vec::new();
    let mut push = |name: &str, value: String| words.extend([name.to_owned(), value]);
    push("--platform", parsed.gpu.platform.clone().unwrap_or_else(|| "auto".to_owned()));
    push("--models", names.join(","));
    push("--imgsz", plan.imgsz.to_string());
    push("--workspace-mb", cap.to_string());
    push("--device", args.started.device.to_string());
    push("--out", text(&args.started.engines)?);
    if let Some(precision) = &parsed.precision {
        push("--precision", precision.clone());
    }
    if let Some(library) = &parsed.gpu.tensorrt_lib {
        push("--tensorrt-lib", text(library)?);
    }
    for dir in &args.started.onnx_dir {
        push("--onnx-dir", text(dir)?);
    }
    eprintln!("engines: {} at {} pixels, workspace {cap} MiB", names.join(","), plan.imgsz);
    let step = Step { name: "build-engines", words, directory: None, variables: Vec::new() };
    let ran = run_step(&step)?;
    if ran.code != Some(0) {
        anyhow::bail!(
            "the engines could not be built (why is above): it ended {}; mend that, or measure on \
             the CPU with --backend onnxruntime",
            ran.ended
        );
    }
    Ok(())
}

/// Says which models cannot be run, and how many; an error where none can.
fn check_models(plan: &Plan, budget: Option<&Budget>) -> Result<usize> {
    let found: Vec<(String, Result<BenchModel>)> = available(&plan.models, &plan.parsed()?)?;
    let why = |model: &Result<BenchModel>| match model {
        Ok(model) => budget.and_then(|budget| budget.refuses(model)),
        Err(error) => Some(format!("{error:#}")),
    };
    let missing: Vec<String> = found.iter().filter_map(|(_, model)| why(model)).collect();
    if missing.len() == found.len() {
        return Err(UsageError(none_can_run(&missing)).into());
    }
    missing.iter().for_each(|line| log::warn!("{line}"));
    Ok(missing.len())
}

/// Takes models out whose engines, as built, do not fit into the memory; how many.
fn leave_out_built(plan: &mut Plan, budget: &Budget) -> Result<usize> {
    let found = available(&plan.models, &plan.parsed()?)?;
    let fits = |model: &Result<BenchModel>| {
        let why = model.as_ref().ok().and_then(|model| budget.refuses(model));
        why.as_ref().inspect(|why| log::warn!("{why}")).is_none()
    };
    let before = plan.models.len();
    plan.models = found.into_iter().filter(|(_, it)| fits(it)).map(|(tag, _)| tag).collect();
    if plan.models.is_empty() {
        anyhow::bail!("no model fits into the memory; the reasons are above");
    }
    Ok(before - plan.models.len())
}

/// Decodes the frames of all clips, with a limited number of them in memory.
fn decode(plan: &Plan, split: &dyn Dataset, videos: &[String], values: Values) -> Result<()> {
    let geometry = plan.parsed()?.geometry;
    let options = Options {
        side: plan.imgsz,
        geometry,
        values,
        frames_in_memory: plan.max_frames,
        force: false,
    };
    let dir = plan.frames_dir(values);
    for row in predecode::all(split, videos, &dir, &options)? {
        let reason = row.reason.map_or_else(String::new, |reason| format!(": {reason}"));
        eprintln!("frames of {}: {}{reason}", row.video, row.result);
    }
    Ok(())
}
