/*!
The plan of a pack: the platform's row, the models, and the bundles that `build-engines` needs on
the board.
*/

use std::path::PathBuf;

use anyhow::{Result, bail};

use runtime::builder::recipe;
use vos::bundle::{self, Bundle, Role};
use vos::platform::Platform;
use vos::precision::Precision;
use vos::track_variant::TrackVariant;

/// What was asked for; `None` leaves the choice to the platform's row.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Row of the platform table.
    pub platform: Platform,
    /// The platform table, whole: the board's `build-engines` reads it.
    pub table: String,
    /// Models by their names in manifests.
    pub models: Option<Vec<String>>,
    /// Side of the network input, pixels.
    pub imgsz: Option<usize>,
    /// Arithmetic of the engines.
    pub precision: Option<Precision>,
    /// Most objects that run at once.
    pub max_objects: u16,
    /// Folders of bundles, or bundles.
    pub onnx_dirs: Vec<PathBuf>,
    /// A segtrt for the board.
    pub binary: Option<PathBuf>,
    /// A split to measure on.
    pub clips: Option<PathBuf>,
}

/// What will be packed.
#[derive(Clone, Debug)]
pub struct PackPlan {
    /// The platform's row.
    pub platform: Platform,
    /// The platform table, whole.
    pub table: String,
    /// Models by their names in manifests.
    pub models: Vec<String>,
    /// Side of the network input, pixels.
    pub imgsz: usize,
    /// Arithmetic of the engines.
    pub precision: Precision,
    /// Most objects that run at once.
    pub max_objects: u16,
    /// The graphs.
    pub bundles: Vec<Bundle>,
    /// What the board's owner should know and the packer, too.
    pub warnings: Vec<String>,
    /// A segtrt for the board.
    pub binary: Option<PathBuf>,
    /// A split to measure on.
    pub clips: Option<PathBuf>,
}

/// Finds everything.
///
/// # Errors
/// A platform's name that no folder should have; bundles that are missing, all of them in one
/// message, each with the command that makes it; a bundle without the padded track that the
/// platform asks for.
pub fn plan(wanted: &Wanted) -> Result<PackPlan> {
    let platform = wanted.platform.clone();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if platform.name.is_empty() || !platform.name.chars().all(plain) {
        bail!(
            "platform {:?}: the pack's folder is named after it, so expected letters, digits, - and _ only",
            platform.name
        );
    }
    let models = wanted.models.clone().unwrap_or_else(|| platform.models.clone());
    let imgsz = wanted.imgsz.unwrap_or(platform.imgsz);
    let precision = wanted.precision.unwrap_or(platform.precision);
    let there = bundle::list(&wanted.onnx_dirs)?;
    let (mut bundles, mut problems, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for model in &models {
        let find = |precision| {
            let wanted_bundle = bundle::WantedBundle { model, imgsz: Some(imgsz), precision };
            bundle::find(&there, &wanted.onnx_dirs, &wanted_bundle)
        };
        let (half, single) = (find("fp16"), find("fp32"));
        let from_half = matches!(precision, Precision::Fp16 | Precision::Mixed | Precision::Best);
        let (built, beside) = match (from_half, half, single) {
            (true, Err(_), Ok(single)) => {
                warnings.push(format!(
                    "{model} has no fp16 graphs at {imgsz}: TensorRT 8.x and 10.x build \
                     {precision} engines from the fp32 ones, TensorRT 11 and TensorRT for RTX \
                     cannot"
                ));
                (Ok(single), None)
            }
            (true, half, single) => (half, single.ok()),
            (false, half, single) => (single, half.ok()),
        };
        let built = match built {
            Ok(built) => built,
            Err(missing) => {
                problems.push(format!("{missing:#}"));
                continue;
            }
        };
        // The selftest would compare two networks that were never the same.
        let (beside, other) = match beside {
            Some(beside) if !same_weights(&built, &beside) => (None, Some(beside)),
            beside => (beside, None),
        };
        if let Some(other) = other {
            warnings.push(format!(
                "{} is left out, because its weights differ from the weights of {}: {} there, {} here",
                other.dir.display(),
                built.name(),
                other.manifest.weights_phrase(),
                built.manifest.weights_phrase()
            ));
        }
        let variant = recipe::track_variant_for(None, platform.track_variant, &built.manifest);
        if let Some((role, flag)) = missing_track(&built, variant) {
            problems.push(format!(
                "the bundle {} has no {} graph, which the platform {} asks for; export it again \
                 with {flag}, or pack with a table whose row says track_variant \
                 = \"per-fill-level\"",
                built.dir.display(),
                role.name(),
                platform.name
            ));
        } else if let Some((beside, (role, _))) =
            beside.as_ref().and_then(|beside| Some((beside, missing_track(beside, variant)?)))
        {
            warnings.push(format!(
                "the bundle {} has no {} graph: there is nothing to compare that plan with in {}",
                beside.name(),
                role.name(),
                beside.manifest.model.precision
            ));
        }
        bundles.push(built);
        bundles.extend(beside);
    }
    if !problems.is_empty() {
        bail!("{}; or name the models to pack with --models", problems.join("; "));
    }
    let (binary, clips) = (wanted.binary.clone(), wanted.clips.clone());
    let max_objects = wanted.max_objects;
    Ok(PackPlan {
        platform,
        table: wanted.table.clone(),
        models,
        imgsz,
        precision,
        max_objects,
        bundles,
        warnings,
        binary,
        clips,
    })
}

fn same_weights(a: &Bundle, b: &Bundle) -> bool {
    let (one, other) = (&a.manifest.weights, &b.manifest.weights);
    a.manifest.weights_phrase() == b.manifest.weights_phrase()
        && one.checkpoint_sha256 == other.checkpoint_sha256
        && one.overlay_sha256 == other.overlay_sha256
}

/// The first graph of a track variant and the exporter's flag for it; none where the bundle has the
/// graph.
fn missing_track(bundle: &Bundle, variant: TrackVariant) -> Option<(Role, &'static str)> {
    let needed = match variant {
        TrackVariant::Padded => (Role::TrackPadded, "--padded-track"),
        TrackVariant::PerFillLevel => return None,
        TrackVariant::Segmented => (Role::TrackKeys, "--segments"),
    };
    bundle.manifest.graph(needed.0).is_none().then_some(needed)
}
