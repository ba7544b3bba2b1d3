/*!
From the arguments of `build-engines` to a list of plans: platform, GPU, TensorRT, bundles, and what is there already.
*/

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use super::build_target::target;
use super::build_weights::{self, PlannedWeights};
use crate::cli::BuildEnginesArgs;
use host::UsageError;
use runtime::build::{BuildJob, plan_file, recipe};
use runtime::engine::freshness::{self, Wanted as WantedPlan};
use runtime::engine::islands::Islands;
use runtime::engine::timing_files::TimingFiles;
use runtime::engine::{EngineManifest, Settings, engine_dir, has_fill_levels, profiles};
use tensorrt::{Family, Version};
use vos::bundle::{self, Bundle, Role, WantedBundle};
use vos::model_tag::ModelTag;
use vos::platform::{Platform, Platforms};
use vos::precision::Precision;
use vos::prompt::PromptKind;
use vos::track_variant::TrackVariant;

/// All that is to be built.
pub struct Resolved {
    /// The row of the platform table.
    pub platform: Platform,
    /// What builds: "TensorRT 8.6.0".
    pub tensorrt: String,
    /// The GPU's name; none where plans are built ahead of time.
    pub device: Option<String>,
    /// The models, in the order asked for.
    pub models: Vec<ModelBuild>,
    /// Models of the platform's list that have no bundle, each with the reason.
    pub left_out: Vec<String>,
    /// What the user should know before anything is built, sentences.
    pub notes: Vec<String>,
}

/// One engine folder.
pub struct ModelBuild {
    /// "edgetam_1024_fp16".
    pub name: String,
    /// Where its plans go.
    pub dir: PathBuf,
    /// Precision asked for.
    pub precision: Precision,
    /// The graphs.
    pub bundle: Bundle,
    /// Its plans.
    pub plans: Vec<Planned>,
    /// Files of weights that go with the plans.
    pub weights: Vec<PlannedWeights>,
}

/// One plan.
pub struct Planned {
    /// How to build it.
    pub job: BuildJob,
    /// Its file name.
    pub file: String,
    /// Why it must be built; none where it is up to date.
    pub why: Option<String>,
}

/// Resolves the arguments; `workspace_mb` overrides the cap that they name.
pub fn resolve(args: &BuildEnginesArgs, workspace_mb: Option<u64>) -> Result<Resolved> {
    let platforms = Platforms::open(args.platforms.as_deref())?;
    let named = (args.platform != "auto").then(|| {
        platforms.get(&args.platform).cloned().ok_or_else(|| {
            UsageError(format!(
                "--platform {}: no such row; expected auto or one of {}, or a table of your own with --platforms",
                args.platform,
                platforms.names()
            ))
        })
    });
    let named = named.transpose()?;
    let library = runtime::tensorrt_library::open(args.tensorrt_lib.as_deref())?;
    library.parser_path()?;
    let (platform, target) = target(args, &platforms, named, &library)?;
    let precision = args.precision.unwrap_or(platform.precision);
    let recipes = recipe::recipes(precision, library.version(), args.strongly_typed)
        .map_err(|why| UsageError(format!("--precision {precision}: {why}")))?;
    let settings = |recipe: &recipe::Recipe| Settings {
        precision,
        strongly_typed: recipe.strongly_typed,
        islands: match recipe.islands {
            Islands::None => Islands::None,
            usual => args.islands.unwrap_or(usual),
        },
        fp32_layers: match recipe.islands {
            Islands::None => Vec::new(),
            _ => args.fp32_layers.clone(),
        },
        graphs: recipe.graphs.to_owned(),
        opt_level: has_levels(library.version())
            .then_some(args.opt_level.unwrap_or(platform.opt_level)),
        timing_runs: args.timing_runs,
        workspace_bytes: workspace_mb.or(args.workspace_mb).unwrap_or(platform.workspace_mb) << 20,
        tactic_bytes: args.tactic_mb.map(|mib| mib << 20),
        memory_bytes: args.memory_mb.map(|mib| mib << 20),
        library_tactics: args.library_tactics,
        targets: target.ahead.clone(),
        profiles: Vec::new(),
    };
    let tensorrt = library.version().to_string();
    let bundles = bundle::list(&args.onnx_dir)?;
    let imgsz = args.imgsz.unwrap_or(platform.imgsz);
    let cache =
        args.timing_cache.clone().unwrap_or_else(|| default_timing_cache(&args.out, &tensorrt));
    let (mut models, mut left_out, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for model in wanted_models(args, &platform)? {
        let found = recipes.iter().find_map(|recipe| {
            let wanted =
                WantedBundle { model: &model, imgsz: Some(imgsz), precision: recipe.graphs };
            bundle::find(&bundles, &args.onnx_dir, &wanted).ok().map(|bundle| (recipe, bundle))
        });
        let Some((recipe, bundle)) = found else {
            let wanted =
                WantedBundle { model: &model, imgsz: Some(imgsz), precision: recipes[0].graphs };
            match bundle::find(&bundles, &args.onnx_dir, &wanted) {
                Err(missing) if args.models.is_none() => left_out.push(format!("{missing:#}")),
                Err(missing) => return Err(missing),
                Ok(_) => bail!("the bundle of {model} changed while it was looked for; try again"),
            }
            continue;
        };
        let dir = engine_dir(&args.out, &platform.name, &model, imgsz, precision);
        let mut build = ModelBuild {
            name: format!("{model}_{imgsz}_{precision}"),
            dir,
            precision,
            bundle,
            plans: Vec::new(),
            weights: Vec::new(),
        };
        let there = if args.force { None } else { EngineManifest::read(&build.dir)? };
        let variant = recipe::track_variant_for(
            args.track_variant,
            platform.track_variant,
            &build.bundle.manifest,
        );
        let roles = match args.graphs.as_slice() {
            [] => recipe::roles(variant, &build.bundle.manifest, target.sm, precision),
            named => named.to_vec(),
        };
        let left = recipe::computed_by_kernels(&args.fp32_graphs, &roles, &build.bundle.manifest);
        if let (Some(role), true) = (left, args.graphs.is_empty()) {
            bail!(UsageError(format!(
                "--fp32-graphs {0}: segtrt's own kernels compute it in {1}, in fp16, and no engine is built of it; build one, which is \
                 run once it is there: --graphs {0} --fp32-graphs {0}",
                role.name(),
                build.name
            )));
        }
        // Named graphs may be those of another variant.
        let cut = |role: &&Role| {
            [Role::TrackKeys, Role::TrackImage].contains(role) || Role::SEGMENTS.contains(role)
        };
        let (flag, form) = match args.graphs.iter().find(cut) {
            Some(role) => (format!("--graphs {}", role.name()), TrackVariant::Segmented),
            None => (format!("--track-variant {}", variant.name()), variant),
        };
        if let Some(why) = platform.refuses(form) {
            bail!(UsageError(format!("{flag}: {why}")));
        }
        for role in roles {
            if role.is_encoder_part()
                && !recipe::serves_encoder(&build.bundle.manifest, target.sm, precision)
            {
                bail!(UsageError(no_parts(&build, role, &platform, target.sm)));
            }
            let Some(graph) = build.bundle.manifest.graph(role) else {
                if args.graphs.is_empty() && recipe::is_optional(role) {
                    continue;
                }
                return Err(missing_graph(&build.bundle, role));
            };
            let objects = usize::from(args.max_objects);
            let profiles = profiles(graph, &build.bundle.manifest.contract, objects);
            if objects > 1 && has_fill_levels(graph) && !notes.contains(&one_object(objects)) {
                notes.push(one_object(objects));
            }
            let mut settings = settings(recipe);
            if precision == Precision::Mixed
                && variant != TrackVariant::Segmented
                && args.graphs.is_empty()
            {
                bail!(UsageError(format!(
                    "--precision mixed: {} would have a {} track step, whose attention TensorRT would compute in fp32 too; export \
                     it in fp16 with --segments, or take --precision fp16",
                    build.name,
                    variant.name()
                )));
            }
            if role == Role::TrackImage
                && !recipe::decodes(&build.bundle.manifest, target.sm, precision)
            {
                bail!(UsageError(no_decoder(&build, &platform, target.sm)));
            }
            let whole = recipe::computes_whole(precision, role, &build.bundle.manifest);
            if whole || recipe::is_named(&args.fp32_graphs, role) {
                if recipe.islands == Islands::None {
                    bail!(UsageError(format!(
                        "--fp32-graphs {}: {precision} engines of {tensorrt} have the types of their graphs, so that there \
                         is nothing to change; leave the flag out, or take --precision fp32",
                        role.name()
                    )));
                }
                settings.islands = Islands::Whole;
            }
            let file = format!("{}.plan", role.name());
            let log = |dir: &PathBuf| dir.join(format!("{}_{}.log", build.name, role.name()));
            let job = BuildJob {
                role,
                what: format!("{} {}", build.name, role.name()),
                onnx: build.bundle.dir.join(&graph.file),
                onnx_sha256: graph.sha256.clone(),
                partial: plan_file::partial_path(&build.dir, &file, std::process::id()),
                tensorrt_lib: args.tensorrt_lib.clone(),
                device: args.device,
                settings: Settings { profiles, ..settings },
                timing_cache: Some(TimingFiles::new(&cache, &build.name, role.name())),
                log: args.build_log.as_ref().map(log),
            };
            let found = Found { there: there.as_ref(), dir: &build.dir, tensorrt: &tensorrt };
            let why = found.why_build(&job, target.sm);
            build.plans.push(Planned { job, file, why });
        }
        let graphs: Vec<Role> = build.plans.iter().map(|plan| plan.job.role).collect();
        let bundle = &build.bundle.manifest;
        let own_memory = recipe::makes_memories(bundle, target.sm, precision);
        build.weights =
            build_weights::planned(bundle, &graphs, own_memory, &build.dir, there.as_ref());
        notes.extend(without_trunk(&build));
        models.push(build);
    }
    if models.is_empty() {
        bail!("{}", left_out.join("; "));
    }
    Ok(Resolved { platform, tensorrt, device: target.device, models, left_out, notes })
}

/// One cache for all engines below `out` and each TensorRT; the file says which GPU it is of.
pub fn default_timing_cache(out: &Path, tensorrt: &str) -> PathBuf {
    out.join(format!("{}.timing", tensorrt.to_lowercase().replace(' ', "-")))
}

/// What is there already.
struct Found<'a> {
    /// None where nothing is, or where nothing is to be taken.
    there: Option<&'a EngineManifest>,
    dir: &'a Path,
    /// What builds.
    tensorrt: &'a str,
}

impl Found<'_> {
    fn why_build(&self, job: &BuildJob, sm: u32) -> Option<String> {
        let Some(record) = self.there.and_then(|manifest| manifest.plan(job.role)) else {
            return Some("not built yet".to_owned());
        };
        let wanted = WantedPlan {
            onnx_sha256: Some(&job.onnx_sha256),
            tensorrt: self.tensorrt,
            sm,
            settings: Some(&job.settings),
        };
        freshness::differs(record, &wanted).or_else(|| freshness::damaged(record, self.dir))
    }
}

/// What the user should know where a bundle has a trunk and the whole encoder is built all the same, unasked.
fn without_trunk(build: &ModelBuild) -> Option<String> {
    let whole = build.plans.iter().any(|plan| plan.job.role == Role::Encoder);
    let trunk = build.bundle.manifest.trunk.is_some();
    (whole && trunk && build.precision == Precision::Mixed).then(|| {
        format!(
            "{}: mixed engines take no trunk, which is computed in fp16, and their encoder is built whole",
            build.name
        )
    })
}

/// Why the parts of this encoder are not built.
fn no_parts(build: &ModelBuild, role: Role, platform: &Platform, sm: u32) -> String {
    let (name, bundle) = (role.name(), &build.bundle.manifest);
    if build.precision == Precision::Mixed && bundle.trunk.is_some() {
        return format!(
            "--graphs {name}: mixed engines compute the encoder in fp32, and segtrt's own kernels the trunk between these parts in \
             fp16; build it whole: --graphs encoder"
        );
    }
    format!(
        "--graphs {name}: segtrt's own kernels compute the trunk between the parts of this encoder, and there are none for {} \
         (sm_{sm}) and {} graphs; build it whole: --graphs encoder",
        platform.title, bundle.model.precision
    )
}

/// Why nothing is built that ends in front of a mask decoder.
fn no_decoder(build: &ModelBuild, platform: &Platform, sm: u32) -> String {
    let last =
        build.bundle.manifest.segments().last().map_or("track_seg0", |last| last.role.name());
    format!(
        "--graphs track_image: segtrt's own kernels would decode behind it, and there are none for {} (sm_{sm}) and {} engines; \
         build the segment that ends in the answer: --graphs {last}",
        platform.title, build.precision
    )
}

fn missing_graph(bundle: &Bundle, role: Role) -> anyhow::Error {
    let hint = match role {
        Role::TrackPadded => {
            "; export it again with --padded-track, or build with --track-variant per-fill-level"
        }
        part if part.is_encoder_part() => {
            "; its encoder is not cut, or into fewer parts: build with --graphs encoder"
        }
        Role::TrackImage => {
            "; export it again with --segments --decoder own, or build its last segment"
        }
        Role::TrackKeys | Role::TrackSeg0 => {
            "; export it again with --segments, or build with --track-variant padded"
        }
        _ => "; export it again",
    };
    anyhow!("the bundle {} has no {} graph{hint}", bundle.dir.display(), role.name())
}

/// What becomes of a number of objects in the exact track step.
fn one_object(asked: usize) -> String {
    format!(
        "--max-objects {asked}: the exact track step gets profiles for one object alone, for bench tracks one after the other; with \
         --track-variant padded it gets those for up to {asked}, which other programs may run"
    )
}

/// 8.5 has no optimization levels.
fn has_levels(version: Version) -> bool {
    version.family() != Some(Family::Trt8) || version.minor > 5
}

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
                "--models {tag}: no such model; expected all or names such as edgetam, sam2_tiny, sam2.1_large"
            ))
        })?;
        if !models.contains(&known.network) {
            models.push(known.network);
        }
    }
    if models.is_empty() {
        bail!(UsageError("--models names no model".to_owned()));
    }
    Ok(models)
}
