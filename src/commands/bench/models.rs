/*!
From `--models` to bundles or engines.
*/

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use super::args::{BackendChoice, BenchArgs};
use super::engines::Catalogue;
use crate::bench::plan::BenchModel;
use host::{UsageError, share};
use vos::bundle::{self, Bundle, WantedBundle};
use vos::model_tag::ModelTag;
use vos::precision::Precision;
use vos::prompt::PromptKind;

/// Default precision of graphs.
const USUAL_PRECISION: &str = "fp32";

/// Where models come from.
enum ModelSource {
    /// Graphs in these folders.
    Bundles(Vec<Bundle>, Vec<PathBuf>),
    /// Engines of the GPU at hand.
    Engines(Catalogue),
}

impl ModelSource {
    fn of(args: &BenchArgs) -> Result<Self> {
        if args.backend == BackendChoice::TensorRt {
            return Ok(Self::Engines(Catalogue::open(&args.gpu)?));
        }
        let roots = share::bundle_roots(&args.onnx_dir);
        Ok(Self::Bundles(bundle::list(&roots)?, roots))
    }

    /// The tags of the published networks that are there; without any, those of the demo's network.
    fn tags_there(&self) -> Vec<String> {
        let is_there = |text: &String| {
            let tag = ModelTag::parse(text, PromptKind::Points);
            tag.is_some_and(|tag| self.has(&tag.network))
        };
        let published: Vec<String> = ModelTag::all().into_iter().filter(is_there).collect();
        match published.is_empty() {
            true => ModelTag::every().into_iter().filter(is_there).collect(),
            false => published,
        }
    }

    /// Whether there are graphs or engines of this network, of any size and precision.
    fn has(&self, network: &str) -> bool {
        match self {
            Self::Bundles(bundles, _) => {
                bundles.iter().any(|bundle| bundle.manifest.model.name == network)
            }
            Self::Engines(catalogue) => catalogue.has(network),
        }
    }

    /// What to type where no model is there.
    fn nothing_there(&self) -> String {
        match self {
            Self::Bundles(_, roots) => {
                let searched: Vec<_> =
                    roots.iter().map(|root| root.display().to_string()).collect();
                format!(
                    "no bundle of a known model in {}; get one: segtrt fetch edgetam, or name a \
                     folder with --onnx-dir",
                    searched.join(", ")
                )
            }
            Self::Engines(_) => {
                format!("the engines are of no known model; known tags: {}", ModelTag::known())
            }
        }
    }

    fn find(&self, tag: ModelTag, args: &BenchArgs) -> Result<BenchModel> {
        match self {
            Self::Bundles(bundles, roots) => {
                let precision = args.precision.as_deref().unwrap_or(USUAL_PRECISION);
                let wanted = WantedBundle { model: &tag.network, imgsz: args.imgsz, precision };
                let found = bundle::find(bundles, roots, &wanted)?;
                let model = &found.manifest.model;
                Ok(BenchModel {
                    dir: absolute(&found.dir),
                    imgsz: model.imgsz,
                    precision: precision_of(&found)?,
                    tag,
                })
            }
            Self::Engines(catalogue) => {
                let found = catalogue.find(&tag, args.imgsz, args.precision.as_deref())?;
                Ok(BenchModel {
                    dir: absolute(&found.dir),
                    imgsz: found.manifest.bundle.model.imgsz,
                    precision: found.manifest.precision,
                    tag,
                })
            }
        }
    }
}

/// The arithmetic of a bundle's graphs.
fn precision_of(bundle: &Bundle) -> Result<Precision> {
    let name = &bundle.manifest.model.precision;
    <Precision as clap::ValueEnum>::from_str(name, false).map_err(|_| {
        let dir = bundle.dir.display();
        anyhow!("{dir}: unknown precision {name:?}; export the model again with onnx/export.py")
    })
}

/// The models with their bundles or engines. Unknown tags and missing bundles are logged and left
/// out.
///
/// # Errors
/// None of them can run.
pub(super) fn models(args: &BenchArgs) -> Result<(Vec<BenchModel>, usize)> {
    let source = ModelSource::of(args)?;
    let all = ["", "all"].contains(&args.models.trim());
    let tags = match all {
        true => source.tags_there(),
        false => split_tags(&args.models),
    };
    if tags.is_empty() {
        bail!(UsageError(source.nothing_there()));
    }
    let mut models = Vec::new();
    let (mut left_out, mut refused) = (0, Vec::new());
    for text in &tags {
        match model(text, args, &source) {
            Ok(model) => models.push(model),
            Err(error) => {
                // The prompts of a model lack the same bundle.
                let why = format!("{error:#}");
                if !refused.contains(&why) {
                    refused.push(why);
                }
                // "all" means every model found; only a model asked for by name can be missing.
                left_out += usize::from(!all);
            }
        }
    }
    if models.is_empty() {
        bail!(UsageError(none_can_run(&refused)));
    }
    refused.iter().for_each(|why| log::warn!("skipping: {why}"));
    Ok((models, left_out))
}

/// The reasons why no model can run.
pub(in crate::commands) fn none_can_run(reasons: &[String]) -> String {
    match reasons {
        [reason] => reason.clone(),
        reasons => format!("no model can run:\n  {}", reasons.join("\n  ")),
    }
}

/// Each tag with its bundle or engines, or the reason why it cannot run.
///
/// # Errors
/// No folder to search, or no GPU.
pub(in crate::commands) fn available(
    tags: &[String],
    args: &BenchArgs,
) -> Result<Vec<(String, Result<BenchModel>)>> {
    let source = ModelSource::of(args)?;
    Ok(tags.iter().map(|text| (text.clone(), model(text, args, &source))).collect())
}

fn model(text: &str, args: &BenchArgs, source: &ModelSource) -> Result<BenchModel> {
    let tag = ModelTag::parse(text, args.prompt).ok_or_else(|| {
        let near = ModelTag::nearest(text);
        let near = near.map_or_else(|| ".".to_owned(), |tag| format!("; did you mean {tag}?"));
        anyhow!(
            "--models {text}: no such model tag{near} A tag is MODEL_PROMPT, for example \
             edgetam_points. Models: {}. Prompts: points, bbox, mask",
            ModelTag::models()
        )
    })?;
    source.find(tag, args)
}

/// The entries of `--models`.
pub(in crate::commands) fn split_tags(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
}

pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
