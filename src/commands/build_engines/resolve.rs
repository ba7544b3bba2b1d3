/*!
From the flags of `build-engines` to a list of plans: platform, GPU, TensorRT, bundles, and the
engines that exist already.
*/

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::args::BuildEnginesArgs;
use super::planned::Resolved;
use super::target::{Target, target};
use host::UsageError;
use runtime::builder::recipe::{self, Recipe};
use runtime::engine::Settings;
use runtime::engine::fp32_pins::Fp32Pins;
use tensorrt::{Family, Version};
use vos::bundle::{self, Bundle, WantedBundle};
use vos::model_tag::ModelTag;
use vos::platform::{Platform, Platforms};
use vos::precision::Precision;
use vos::prompt::PromptKind;

/// Resolves the flags; `workspace_mb` overrides their workspace cap.
pub fn resolve(args: &BuildEnginesArgs, workspace_mb: Option<u64>) -> Result<Resolved> {
    let platforms = Platforms::open(args.platforms.as_deref())?;
    let named = named_platform(args, &platforms)?;
    let library = runtime::tensorrt_library::open(args.tensorrt_lib.as_deref())?;
    library.parser_path()?;
    let (platform, target) = target(args, &platforms, named, &library)?;
    let request = Request::new(args, workspace_mb, platform, target, library.version())?;
    let roots = host::share::bundle_roots(&args.onnx_dir);
    let bundles = bundle::list(&roots)?;
    let (mut models, mut left_out, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for model in wanted_models(args, &request.platform)? {
        match request.bundle_of(&model, &bundles)? {
            Ok((recipe, bundle)) => models.push(request.model(&model, recipe, bundle, &mut notes)?),
            Err(missing) => left_out.push(missing),
        }
    }
    if models.is_empty() {
        bail!("{}", left_out.join("; "));
    }
    let Request { platform, tensorrt, target, .. } = request;
    Ok(Resolved { platform, tensorrt, device: target.device, models, left_out, notes })
}

/// Everything that holds for all models of a call.
pub(super) struct Request<'a> {
    pub(super) args: &'a BuildEnginesArgs,
    pub(super) platform: Platform,
    pub(super) target: Target,
    /// "TensorRT 8.6.0".
    pub(super) tensorrt: String,
    version: Version,
    pub(super) precision: Precision,
    /// Graphs and typing, best first.
    recipes: Vec<Recipe>,
    pub(super) imgsz: usize,
    workspace_mb: u64,
    pub(super) timing_cache: PathBuf,
}

impl<'a> Request<'a> {
    fn new(
        args: &'a BuildEnginesArgs,
        workspace_mb: Option<u64>,
        platform: Platform,
        target: Target,
        version: Version,
    ) -> Result<Self> {
        let precision = args.precision.unwrap_or(platform.precision);
        let recipes = recipe::recipes(precision, version, args.strongly_typed)
            .map_err(|why| UsageError(format!("--precision {precision}: {why}")))?;
        let tensorrt = version.to_string();
        let timing_cache =
            args.timing_cache.clone().unwrap_or_else(|| default_timing_cache(&args.out, &tensorrt));
        Ok(Self {
            imgsz: args.imgsz.unwrap_or(platform.imgsz),
            workspace_mb: workspace_mb.or(args.workspace_mb).unwrap_or(platform.workspace_mb),
            args,
            platform,
            target,
            tensorrt,
            version,
            precision,
            recipes,
            timing_cache,
        })
    }

    /// The model's bundle and its recipe; a sentence where a model of the platform's list has no
    /// bundle.
    fn bundle_of(
        &self,
        model: &str,
        bundles: &[Bundle],
    ) -> Result<Result<(&Recipe, Bundle), String>> {
        let roots = host::share::bundle_roots(&self.args.onnx_dir);
        let find = |recipe: &Recipe| {
            let wanted = WantedBundle { model, imgsz: Some(self.imgsz), precision: recipe.graphs };
            bundle::find(bundles, &roots, &wanted)
        };
        let mut first_missing = None;
        for recipe in &self.recipes {
            match find(recipe) {
                Ok(bundle) => return Ok(Ok((recipe, bundle))),
                Err(missing) => first_missing = first_missing.or(Some(missing)),
            }
        }
        match first_missing {
            Some(missing) if self.args.models.is_none() => Ok(Err(format!("{missing:#}"))),
            Some(missing) => Err(missing),
            None => bail!("--precision {}: there are no graphs for it", self.precision),
        }
    }

    /// The settings of a plan, without its optimisation profiles.
    pub(super) fn settings(&self, recipe: &Recipe) -> Settings {
        let args = self.args;
        let weakly_typed = recipe.fp32_pins != Fp32Pins::None;
        Settings {
            precision: self.precision,
            strongly_typed: recipe.strongly_typed,
            fp32_pins: match recipe.fp32_pins {
                Fp32Pins::None => Fp32Pins::None,
                usual => args.fp32_pins.unwrap_or(usual),
            },
            fp32_layers: if weakly_typed { args.fp32_layers.clone() } else { Vec::new() },
            graphs: recipe.graphs.to_owned(),
            opt_level: has_optimization_levels(self.version)
                .then_some(args.opt_level.unwrap_or(self.platform.opt_level)),
            timing_runs: args.timing_runs,
            workspace_bytes: self.workspace_mb << 20,
            tactic_bytes: args.tactic_mb.map(|mib| mib << 20),
            memory_bytes: args.memory_mb.map(|mib| mib << 20),
            library_tactics: args.library_tactics,
            ampere_plus: args.ampere_plus,
            targets: self.target.ahead.clone(),
            profiles: Vec::new(),
        }
    }
}

/// One cache for each TensorRT release, for all engines below `out`; the file names its GPU.
pub fn default_timing_cache(out: &Path, tensorrt: &str) -> PathBuf {
    out.join(format!("{}.timing", tensorrt.to_lowercase().replace(' ', "-")))
}

/// The row of `--platform`; none for `auto`.
fn named_platform(args: &BuildEnginesArgs, platforms: &Platforms) -> Result<Option<Platform>> {
    if args.platform == "auto" {
        return Ok(None);
    }
    let row = platforms.get(&args.platform).cloned();
    row.map(Some).ok_or_else(|| {
        let name = &args.platform;
        UsageError(format!(
            "--platform {name}: unknown platform; known: auto, {}; to use your own table: --platforms FILE",
            platforms.names()
        ))
        .into()
    })
}

/// TensorRT 8.5 has no optimization levels.
fn has_optimization_levels(version: Version) -> bool {
    version.family() != Some(Family::Trt8) || version.minor > 5
}

/// The models of `--models`, else the platform's.
fn wanted_models(args: &BuildEnginesArgs, platform: &Platform) -> Result<Vec<String>> {
    let Some(text) = &args.models else { return Ok(platform.models.clone()) };
    let tags = match text.as_str() {
        "all" => ModelTag::all(),
        list => {
            list.split(',').map(|tag| tag.trim().to_owned()).filter(|t| !t.is_empty()).collect()
        }
    };
    let mut models = Vec::new();
    for tag in tags {
        let known = ModelTag::parse(&tag, PromptKind::Points).ok_or_else(|| {
            UsageError(format!(
                "--models {tag}: no such model; expected all, or of {}",
                ModelTag::models()
            ))
        })?;
        if !models.contains(&known.network) {
            models.push(known.network);
        }
    }
    if models.is_empty() {
        bail!(UsageError("--models names no model; expected for example edgetam".to_owned()));
    }
    Ok(models)
}
