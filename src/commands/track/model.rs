/*!
The model of a `track`: the one that is named, or the best that is there, found as bench finds it.
*/

use anyhow::{Result, bail};

use super::args::TrackArgs;
use crate::bench::load::RuntimePlan;
use crate::bench::plan::BenchModel;
use crate::commands::bench::models::available;
use crate::commands::bench::plan::gpu_plan;
use crate::commands::bench::{BackendChoice, BenchArgs};
use crate::commands::started_bench::{parse_bench, text};
use host::UsageError;
use host::processor;
use vos::model_tag::ModelTag;
use vos::prompt::PromptKind;

/// Networks in the order in which they are tried: the fastest first, the demonstration network last.
const TRIED: [&str; 6] =
    ["edgetam", "sam2.1_tiny", "sam2.1_small", "sam2.1_base_plus", "sam2.1_large", DEMONSTRATION];
/// A small network that was trained on synthetic shapes.
const DEMONSTRATION: &str = "edgetam_mini";

/// What to know of a model that was not named.
pub fn remark(args: &TrackArgs, model: &BenchModel) -> Option<String> {
    let demonstration = args.model.is_none() && model.tag.network == DEMONSTRATION;
    demonstration.then(|| {
        format!(
            "no released model is here, so {DEMONSTRATION} is used, which was trained on \
             synthetic shapes only; get one: segtrt fetch edgetam"
        )
    })
}

/// The model with what runs it.
///
/// # Errors
/// [`UsageError`]: the model is unknown or not there.
pub fn choose(args: &TrackArgs, with_mask: bool) -> Result<(BenchModel, RuntimePlan)> {
    let bench = bench_args(args)?;
    let prompt = if with_mask { PromptKind::Mask } else { PromptKind::Points };
    let model = match &args.model {
        Some(name) => named(name, prompt, &bench)?,
        None => best(prompt, &bench)?,
    };
    let gpu = (args.backend == BackendChoice::TensorRt).then(|| gpu_plan(&bench.gpu, bench.resize));
    let runtime = RuntimePlan {
        gpu: gpu.transpose()?,
        ort_lib: bench.ort_lib.clone(),
        provider: bench.ort_provider,
        threads: bench.threads.unwrap_or_else(processor::processors),
        resize: bench.resize,
    };
    Ok((model, runtime))
}

fn named(name: &str, prompt: PromptKind, bench: &BenchArgs) -> Result<BenchModel> {
    // A tag of bench names a prompt too, which the command line has decided on.
    let Some(tag) = ModelTag::parse(name, prompt) else {
        let near = TRIED
            .iter()
            .map(|known| (strsim::jaro_winkler(known, name), known))
            .filter(|(near, _)| *near > 0.8)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let near =
            near.map_or_else(|| ";".to_owned(), |(_, known)| format!("; did you mean {known}?"));
        bail!(UsageError(format!(
            "--model {name} is unknown{near} known are {}",
            TRIED.join(", ")
        )));
    };
    let found = available(&[format!("{}_{}", tag.network, prompt.name())], bench)?;
    match found.into_iter().next() {
        Some((_, Ok(model))) => Ok(model),
        Some((_, Err(why))) => bail!(UsageError(format!("--model {name}: {why:#}"))),
        None => bail!("--model {name} was not looked for"),
    }
}

fn best(prompt: PromptKind, bench: &BenchArgs) -> Result<BenchModel> {
    let tags = TRIED.map(|network| format!("{network}_{}", prompt.name()));
    let mut last = None;
    for (_, found) in available(&tags, bench)? {
        match found {
            Ok(model) => return Ok(model),
            Err(why) => last = Some(why),
        }
    }
    let why = last.map_or_else(String::new, |why| format!(": {why:#}"));
    bail!(UsageError(format!("no model is here; name a folder of bundles with --onnx-dir{why}")))
}

/// The flags of a bench that finds the same models.
fn bench_args(args: &TrackArgs) -> Result<BenchArgs> {
    let backend = match args.backend {
        BackendChoice::OnnxRuntime => "onnxruntime",
        BackendChoice::TensorRt => "tensorrt",
    };
    let mut words = vec![format!("--backend={backend}"), format!("--device={}", args.device)];
    let mut flag = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("--{name}={value}")));
    };
    let path = |path: &Option<std::path::PathBuf>| path.as_deref().map(text).transpose();
    flag("imgsz", args.imgsz.map(|side| side.to_string()));
    flag("precision", args.precision.clone());
    flag("threads", args.threads.map(|threads| threads.to_string()));
    flag("ort-lib", path(&args.ort_lib)?);
    flag("engines", path(&args.engines)?);
    flag("tensorrt-lib", path(&args.tensorrt_lib)?);
    for dir in &args.onnx_dir {
        flag("onnx-dir", Some(text(dir)?));
    }
    parse_bench(&words)
}
