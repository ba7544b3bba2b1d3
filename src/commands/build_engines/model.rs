/*!
The plans and weights files of one model.
*/

use anyhow::{Result, bail};

use super::planned::{ModelBuild, PlannedPlan};
use super::resolve::Request;
use super::weights::Kernels;
use super::{refusals, weights};
use host::UsageError;
use runtime::builder::recipe::{self, Recipe};
use runtime::builder::{BuildJob, plan_file};
use runtime::engine::fp32_pins::Fp32Pins;
use runtime::engine::freshness::{self, Wanted as WantedPlan};
use runtime::engine::timing_files::TimingFiles;
use runtime::engine::{EngineManifest, Settings, engine_dir, has_fill_levels, profiles};
use vos::bundle::{Bundle, Graph, PARTS, Role};
use vos::precision::Precision;
use vos::track_variant::TrackVariant;

impl Request<'_> {
    /// Plans one model; adds to `notes` what the user should know.
    ///
    /// # Errors
    /// Flags that this bundle, GPU or TensorRT cannot satisfy.
    pub(super) fn model(
        &self,
        model: &str,
        recipe: &Recipe,
        bundle: Bundle,
        notes: &mut Vec<String>,
    ) -> Result<ModelBuild> {
        let (imgsz, precision) = (self.imgsz, self.precision);
        let mut build = ModelBuild {
            name: format!("{model}_{imgsz}_{precision}"),
            dir: engine_dir(&self.args.out, &self.platform.name, model, imgsz, precision),
            precision,
            bundle,
            plans: Vec::new(),
            weights: Vec::new(),
            attention_kernels: false,
        };
        let existing = if self.args.force { None } else { EngineManifest::read(&build.dir)? };
        let variant = recipe::track_variant_for(
            self.args.track_variant,
            self.platform.track_variant,
            &build.bundle.manifest,
        );
        let roles = self.roles(variant, &build);
        self.check_fp32_graphs(&roles, &build)?;
        self.check_variant(variant)?;
        for role in roles {
            self.check_encoder_part(role, &build)?;
            let Some(graph) = build.bundle.manifest.graph(role) else {
                if self.args.graphs.is_empty() && recipe::is_optional(role) {
                    continue;
                }
                return Err(refusals::missing_graph(&build.bundle, role));
            };
            self.note_objects(graph, notes);
            self.check_mixed(variant, &build)?;
            self.check_rest(role, &build)?;
            let settings = self.settings_of(recipe, graph, &build)?;
            let planned = self.plan(graph, settings, &build, existing.as_ref());
            build.plans.push(planned);
        }
        let roles: Vec<Role> = build.plans.iter().map(|plan| plan.job.role).collect();
        let bundle = &build.bundle.manifest;
        let sm = self.target.sm;
        let segmented = self.args.graphs.is_empty() && variant == TrackVariant::Segmented;
        build.attention_kernels = segmented && recipe::attends(bundle, sm, precision)
            || existing.as_ref().is_some_and(|engines| engines.attention_kernels);
        let kernels = Kernels {
            halves: recipe::serves_halves(bundle, sm, precision),
            memory_attention: build.attention_kernels,
        };
        build.weights = weights::planned(bundle, &roles, kernels, &build.dir, existing.as_ref());
        notes.extend(whole_encoder_note(&build));
        Ok(build)
    }

    /// The graphs to build: those of `--graphs`, else those that the variant needs.
    fn roles(&self, variant: TrackVariant, build: &ModelBuild) -> Vec<Role> {
        match self.args.graphs.as_slice() {
            [] => recipe::roles(variant, &build.bundle.manifest, self.target.sm, self.precision),
            named => named.to_vec(),
        }
    }

    /// Refuses fp32 for a graph that CUDA kernels replace, because no engine is built for it.
    fn check_fp32_graphs(&self, roles: &[Role], build: &ModelBuild) -> Result<()> {
        let fp32 = &self.args.fp32_graphs;
        match recipe::computed_by_kernels(fp32, roles, &build.bundle.manifest) {
            Some(role) if self.args.graphs.is_empty() => {
                bail!(UsageError(refusals::fp32_of_kernels(role, &build.name)))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a variant of the track step whose attention kernels this GPU cannot run.
    fn check_variant(&self, variant: TrackVariant) -> Result<()> {
        // --graphs may name graphs of another variant.
        let segmented = |role: &&Role| {
            [Role::TrackKeys, Role::TrackImage].contains(role) || Role::SEGMENTS.contains(role)
        };
        let (flag, variant) = match self.args.graphs.iter().find(segmented) {
            Some(role) => (format!("--graphs {}", role.name()), TrackVariant::Segmented),
            None => (format!("--track-variant {}", variant.name()), variant),
        };
        match self.platform.refuses(variant) {
            Some(why) => bail!(UsageError(format!("{flag}: {why}"))),
            None => Ok(()),
        }
    }

    /// Refuses a part of an encoder whose trunk no kernels can run.
    fn check_encoder_part(&self, role: Role, build: &ModelBuild) -> Result<()> {
        let (bundle, sm) = (&build.bundle.manifest, self.target.sm);
        if role.is_encoder_part() && !recipe::serves_encoder(bundle, sm, self.precision) {
            bail!(UsageError(refusals::encoder_part(build, role, &self.platform, sm)));
        }
        Ok(())
    }

    /// Mixed engines need the attention kernels: TensorRT would compute attention in fp32.
    fn check_mixed(&self, variant: TrackVariant, build: &ModelBuild) -> Result<()> {
        let unnamed = self.args.graphs.is_empty();
        if self.precision == Precision::Mixed && variant != TrackVariant::Segmented && unnamed {
            bail!(UsageError(refusals::mixed_attention(&build.name, variant)));
        }
        Ok(())
    }

    /// Refuses the rest of a graph without a fused part where no kernels compute that part.
    fn check_rest(&self, role: Role, build: &ModelBuild) -> Result<()> {
        let (bundle, sm) = (&build.bundle.manifest, self.target.sm);
        for part in PARTS.iter().filter(|part| part.rest == Some(role)) {
            if !recipe::computes(part, bundle, sm, self.precision) {
                bail!(UsageError(refusals::rest(part, role, build, &self.platform, sm)));
            }
        }
        Ok(())
    }

    /// One sentence where a graph gets profiles for one object only.
    fn note_objects(&self, graph: &Graph, notes: &mut Vec<String>) {
        let objects = usize::from(self.args.max_objects);
        let note = one_object(objects);
        if objects > 1 && has_fill_levels(graph) && !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// The plan's settings, with its profiles and its fp32 layers.
    fn settings_of(&self, recipe: &Recipe, graph: &Graph, build: &ModelBuild) -> Result<Settings> {
        let (role, bundle) = (graph.role, &build.bundle.manifest);
        let mut settings = self.settings(recipe);
        let objects = usize::from(self.args.max_objects);
        let points = usize::from(self.args.prompt_points);
        settings.profiles = profiles(graph, &bundle.contract, objects, points);
        let whole = recipe::computes_whole(self.precision, role, bundle);
        if whole || recipe::is_named(&self.args.fp32_graphs, role) {
            if recipe.fp32_pins == Fp32Pins::None {
                bail!(UsageError(refusals::fp32_of_typed_graph(
                    role,
                    self.precision,
                    &self.tensorrt
                )));
            }
            settings.fp32_pins = Fp32Pins::Whole;
        }
        Ok(settings)
    }

    fn plan(
        &self,
        graph: &Graph,
        settings: Settings,
        build: &ModelBuild,
        existing: Option<&EngineManifest>,
    ) -> PlannedPlan {
        let role = graph.role;
        let file = format!("{}.plan", role.name());
        let log_file = format!("{}_{}.log", build.name, role.name());
        let job = BuildJob {
            role,
            what: format!("{} {}", build.name, role.name()),
            onnx: build.bundle.dir.join(&graph.file),
            onnx_sha256: graph.sha256.clone(),
            partial: plan_file::partial_path(&build.dir, &file, std::process::id()),
            tensorrt_lib: self.args.tensorrt_lib.clone(),
            device: self.args.device,
            settings,
            timing_cache: Some(TimingFiles::new(&self.timing_cache, &build.name, role.name())),
            log: self.args.build_log.as_ref().map(|dir| dir.join(log_file)),
        };
        let why = self.why_build(&job, build, existing);
        PlannedPlan { job, file, why }
    }

    /// Why the plan must be built; none where the existing one is up to date.
    fn why_build(
        &self,
        job: &BuildJob,
        build: &ModelBuild,
        existing: Option<&EngineManifest>,
    ) -> Option<String> {
        let Some(record) = existing.and_then(|manifest| manifest.plan(job.role)) else {
            return Some("not built yet".to_owned());
        };
        let wanted = WantedPlan {
            onnx_sha256: Some(&job.onnx_sha256),
            tensorrt: &self.tensorrt,
            sm: self.target.sm,
            settings: Some(&job.settings),
        };
        freshness::differs(record, &wanted).or_else(|| freshness::damaged(record, &build.dir))
    }
}

/// Where a bundle has a trunk and the whole encoder is built all the same, unasked.
fn whole_encoder_note(build: &ModelBuild) -> Option<String> {
    let whole = build.plans.iter().any(|plan| plan.job.role == Role::Encoder);
    let trunk = build.bundle.manifest.trunk.is_some();
    (whole && trunk && build.precision == Precision::Mixed).then(|| {
        format!(
            "{}: TensorRT computes the whole encoder, because mixed engines take no trunk: its \
             CUDA kernels compute in fp16",
            build.name
        )
    })
}

fn one_object(objects: usize) -> String {
    format!(
        "--max-objects {objects}: the track graph gets profiles for one object alone; bench runs \
         one object at a time; for profiles of up to {objects} objects: --track-variant padded"
    )
}
