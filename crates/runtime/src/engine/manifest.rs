/*!
`engine.json`: what lies in a folder of engines, from what and with what it was built, and what the
build took.

One folder holds the plans of one model, platform, size and precision. The bundle's manifest is
inside, so that plans run where their ONNX files are not.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::settings::Settings;
use cuda::Gpu;
use cuda::cublaslt::Choices;
use vos::bundle::fused_part::check_weights_file;
use vos::bundle::trunk::StemAndNeck;
use vos::bundle::{
    FusedPart, Manifest, MemoryAttentionPart, MemoryKeyProjShape, Plans, Role, Trunk, WeightsRecord,
};
use vos::files::atomic;
use vos::precision::Precision;
use vos::track_variant::TrackVariant;

/// The manifest's file name.
pub const FILE: &str = "engine.json";
/// Where engines go if nobody names a folder.
const USUAL_ROOT: &str = "engines";
/// The layout that this program reads and writes.
pub const FORMAT: u32 = 1;

/// The whole file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EngineManifest {
    /// Version of this layout, [`FORMAT`].
    pub format: u32,
    /// Row of the platform table.
    pub platform: String,
    /// Precision asked for.
    pub precision: Precision,
    /// The manifest of the bundle that the plans were built from.
    pub bundle: Manifest,
    /// The plans, in the order they were built.
    pub plans: Vec<PlanRecord>,
    /// The algorithms of the trunk's matmuls; none without a trunk, and if they were not timed:
    /// then cuBLASLt's heuristic chooses them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub products: Option<Choices>,
    /// CUDA kernels were chosen for what lies between the attentions of a segmented track step, so
    /// that its segments have no plans.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attention_kernels: bool,
    /// The files that they were built from.
    #[serde(default, skip_serializing_if = "Sources::are_unknown")]
    pub sources: Sources,
    /// The folder that it was read from, which the command that builds again must name; none for
    /// one that was made here.
    #[serde(skip)]
    pub dir: Option<PathBuf>,
}

/// Where the files lay that a build read, as whole paths: for the command that builds again, on the
/// machine where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sources {
    /// The bundle's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<PathBuf>,
    /// The platform table; none for the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platforms: Option<PathBuf>,
}

impl Sources {
    /// Of a bundle and a table, which may be named from the working directory. What is no text is
    /// not kept: JSON has no other paths.
    pub fn of(bundle: &Path, platforms: Option<&Path>) -> Self {
        let whole = |path: &Path| std::path::absolute(path).ok().filter(|it| it.to_str().is_some());
        Self { bundle: whole(bundle), platforms: platforms.and_then(whole) }
    }

    fn are_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// One plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanRecord {
    /// What its graph does.
    pub role: Role,
    /// File name in the manifest's folder.
    pub file: String,
    /// SHA-256 of the plan, checked before TensorRT sees it.
    pub sha256: String,
    /// Size of the plan, bytes.
    pub bytes: u64,
    /// SHA-256 of the ONNX file.
    pub onnx_sha256: String,
    /// What built it and for which GPU.
    pub made_by: Builder,
    /// What was chosen.
    pub settings: Settings,
    /// What the build took.
    pub build: BuildCost,
    /// The layers after fusion; none where the engine could not be opened where it was built (no
    /// GPU).
    pub layers: Option<Vec<LayerRecord>>,
}

/// The stack that a plan belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Builder {
    /// "TensorRT 8.6.0", "TensorRT for RTX 1.7.1".
    pub tensorrt: String,
    /// Compute capabilities that the plan runs on, 90 for 9.0.
    pub sm: Vec<u32>,
    /// The GPU's name; none where it was built without one.
    pub device: Option<String>,
    /// Newest CUDA that the driver knows ("13.0"); none without a driver.
    pub driver_cuda: Option<String>,
    /// Version of this program.
    pub segtrt: String,
}

impl PlanRecord {
    /// Its name on the screen, unique in the folder: "track".
    pub fn name(&self) -> &'static str {
        self.role.name()
    }
}

/// What a build took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BuildCost {
    /// From the parsed network to the plan, seconds.
    pub seconds: f64,
    /// The builder started from a timing cache that held entries.
    pub warm_cache: bool,
    /// Peak resident memory of the building process during this build, bytes. Includes TensorRT's
    /// libraries and memory of earlier builds in the same process; none if the system does not
    /// report it.
    pub peak_host_bytes: Option<u64>,
    /// Greatest device memory that the builder held, bytes; none without a GPU.
    pub peak_device_bytes: Option<u64>,
    /// Device memory that a context of the engine needs, bytes; none where the engine could not be
    /// opened.
    pub context_bytes: Option<u64>,
    /// Device memory of the engine's weights, bytes; none where the engine could not be opened.
    pub weights_bytes: Option<u64>,
    /// Layers pinned to fp32 before the build; none where the ONNX file's types are kept.
    pub pinned_layers: Option<Vec<String>>,
}

/// One layer of an engine, after fusion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// TensorRT's name: the nodes that were fused into it.
    pub name: String,
    /// TensorRT's kind ("gemm", "Myelin", "CaskConvolution").
    pub kind: String,
    /// Element types of its outputs, as TensorRT spells their formats; empty where it does not say.
    pub outputs: Vec<String>,
    /// The tactic's name, or its number where it has no name.
    pub tactic: Option<String>,
    /// ONNX nodes that it computes, if TensorRT lists them (from 10 on); else its name contains
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Shapes of its inputs, -1 for what varies; empty where TensorRT does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_shapes: Vec<Vec<i64>>,
    /// Shapes of its outputs, as above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_shapes: Vec<Vec<i64>>,
}

/// `<root>/<platform>/<model>_<imgsz>_<precision>`, where the engines of one model lie.
pub fn engine_dir(
    root: &Path,
    platform: &str,
    model: &str,
    imgsz: usize,
    precision: Precision,
) -> PathBuf {
    root.join(platform).join(format!("{model}_{imgsz}_{precision}"))
}

impl EngineManifest {
    /// Whether all plans are built with `--ampere-plus`: custom kernels then are Ampere's too
    /// ([`Self::gpu`]).
    pub fn is_ampere_plus(&self) -> bool {
        !self.plans.is_empty() && self.plans.iter().all(|plan| plan.settings.ampere_plus)
    }

    /// `gpu` with the kernels that run between these engines: none of Hopper's if the plans are
    /// restricted to Ampere's instructions.
    pub fn gpu(&self, gpu: &Gpu) -> Gpu {
        if self.is_ampere_plus() { gpu.ampere_only() } else { gpu.clone() }
    }

    /// Reads `dir/engine.json`; none where there is none.
    ///
    /// # Errors
    /// A file that cannot be read or that this version does not understand.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let mut manifest: Self = serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is no engine manifest; build the engines again with: segtrt build-engines --force",
                path.display()
            )
        })?;
        if manifest.format != FORMAT {
            bail!(
                "{} has format {}, this segtrt reads format {FORMAT}; build the engines again with: \
                 segtrt build-engines --force",
                path.display(),
                manifest.format
            );
        }
        let mut plans = manifest.plans.iter().map(|plan| plan.file.as_str());
        plans
            .try_for_each(check_weights_file)
            .and_then(|()| manifest.bundle.check_names())
            .with_context(|| format!("{} is not to be trusted", path.display()))?;
        manifest.dir = Some(dir.to_owned());
        Ok(Some(manifest))
    }

    /// Writes `dir/engine.json`, whole or not at all.
    pub fn write(&self, dir: &Path) -> Result<()> {
        atomic::write(&dir.join(FILE), |out| Ok(serde_json::to_writer_pretty(out, self)?))
    }

    /// The plan with this role.
    pub fn plan(&self, role: Role) -> Option<&PlanRecord> {
        self.plans.iter().find(|plan| plan.role == role)
    }

    /// A part that custom CUDA kernels compute between these plans: its weights lie in the folder.
    pub fn part<P: FusedPart>(&self) -> Option<&P> {
        P::of(&self.bundle)
            .filter(|_| self.with_plans(|plans| P::replaces_plan(&self.bundle, plans)))
    }

    /// The trunk, where the encoder was built as stem and neck or kernels compute all of it.
    pub fn trunk(&self) -> Option<&Trunk> {
        self.part()
    }

    /// Stem and neck where kernels compute the whole encoder: no engine of it was built.
    pub fn stem_and_neck(&self) -> Option<StemAndNeck> {
        self.with_plans(|plans| Trunk::computes_all(&self.bundle, plans))
    }

    /// The memory attention's keys where a custom CUDA kernel computes them: their weights lie in
    /// the trunk's file.
    pub fn keys(&self) -> Option<MemoryKeyProjShape> {
        self.trunk()?.keys
    }

    /// Whether the track step can run in this variant: by its plans, or by kernels alone.
    pub fn has_variant(&self, variant: TrackVariant) -> bool {
        self.plan(Role::of_variant(variant)).is_some()
            || variant == TrackVariant::Segmented && self.part::<MemoryAttentionPart>().is_some()
    }

    /// The files of weights in the plans' folder.
    pub fn weights_files(&self) -> impl Iterator<Item = WeightsRecord<'_>> {
        let files = self.with_plans(|plans| self.bundle.weights_files_with(plans));
        files.map(|(_, record)| record)
    }

    fn with_plans<T>(&self, ask: impl FnOnce(&Plans<'_>) -> T) -> T {
        let has = |role: Role| self.plan(role).is_some();
        let halves = self.precision == Precision::Fp16;
        ask(&Plans { has: &has, halves, memory_attention: self.attention_kernels })
    }

    /// Puts a plan in, in place of one with the same role.
    pub fn set(&mut self, record: PlanRecord) {
        match self.plans.iter_mut().find(|plan| plan.role == record.role) {
            Some(place) => *place = record,
            None => self.plans.push(record),
        }
    }

    /// The value of `--out` for this folder; none if the default names it, or if the folder was
    /// renamed.
    pub(crate) fn out(&self) -> Option<&Path> {
        let dir = self.dir.as_deref()?;
        let root = dir.parent()?.parent()?;
        let name = &self.bundle.model.name;
        let usual = engine_dir(root, &self.platform, name, self.bundle.model.imgsz, self.precision);
        match root {
            _ if usual != dir => None,
            root if root == Path::new(USUAL_ROOT) => None,
            root if root == Path::new("") => Some(Path::new(".")),
            root => Some(root),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(dir: Option<&str>) -> String {
        let small =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx/bundles/edgetam_mini_256_fp32");
        let manifest = EngineManifest {
            format: FORMAT,
            platform: "orin".to_owned(),
            precision: Precision::Fp32,
            bundle: vos::bundle::Bundle::open(&small).unwrap().manifest,
            plans: Vec::new(),
            products: None,
            attention_kernels: false,
            sources: Sources::default(),
            dir: dir.map(PathBuf::from),
        };
        manifest.rebuild_command()
    }

    #[test]
    fn the_command_builds_where_the_refused_engines_are() {
        let plain = "segtrt build-engines --platform orin --models edgetam_mini --imgsz 256 --precision fp32";
        let below = |root: &str| told(Some(&format!("{root}orin/edgetam_mini_256_fp32")));
        assert_eq!(below("engines/"), plain, "the folder that is taken anyway");
        assert_eq!(below("/data/mine/"), format!("{plain} --out /data/mine"));
        assert_eq!(below("my engines/"), format!("{plain} --out 'my engines'"));
        assert_eq!(below(""), format!("{plain} --out ."));
        assert_eq!(told(None), plain);
        assert_eq!(told(Some("/data/renamed/by_hand")), plain, "no --out leads there");
    }
}
