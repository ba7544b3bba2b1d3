/*!
Which engine folders are tested, and against which bundle.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::record::EngineKey;
use host::shell;
use runtime::engine::{EngineManifest, manifest};
use vos::bundle::manifest::Weights;
use vos::bundle::{self, Bundle, Manifest, WantedBundle};
use vos::precision::Precision;

/// `<root>/<platform>/<model>_<imgsz>_<precision>`: no manifest lies deeper.
const DEPTH: usize = 2;

/// Which folders are asked for; none leaves it open.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Row of the platform table.
    pub platform: Option<String>,
    /// Models by their names in bundle manifests; empty for all.
    pub models: Vec<String>,
    /// Side of the network input, pixels.
    pub imgsz: Option<usize>,
    /// Precision of the engines.
    pub precision: Option<Precision>,
}

/// A folder of engines.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Where it is.
    pub dir: PathBuf,
    /// What is in it.
    pub manifest: EngineManifest,
}

impl Folder {
    /// What names it in rows.
    pub fn key(&self) -> EngineKey {
        let model = &self.manifest.bundle.model;
        EngineKey {
            dir: self.dir.display().to_string(),
            platform: self.manifest.platform.clone(),
            model: model.name.clone(),
            imgsz: model.imgsz,
            precision: self.manifest.precision,
        }
    }

    /// One of its plans runs on GPUs of this compute capability.
    pub fn runs_on(&self, sm: u32) -> bool {
        self.manifest.plans.iter().any(|plan| plan.made_by.sm.contains(&sm))
    }
}

impl Asked {
    fn takes(&self, folder: &Folder) -> bool {
        let model = &folder.manifest.bundle.model;
        self.platform.as_ref().is_none_or(|platform| *platform == folder.manifest.platform)
            && (self.models.is_empty() || self.models.contains(&model.name))
            && self.imgsz.is_none_or(|side| side == model.imgsz)
            && self.precision.is_none_or(|precision| precision == folder.manifest.precision)
    }
}

/// All folders below `root`, or `root` itself, that are asked for; by name.
///
/// # Errors
/// A root that cannot be read, a broken manifest, or nothing found.
pub fn find(root: &Path, asked: &Asked) -> Result<Vec<Folder>> {
    let mut all = Vec::new();
    walk(root, DEPTH, &mut all)?;
    if all.is_empty() {
        bail!(
            "no engines in {}: no {} found there; build some with: segtrt build-engines --out {}",
            root.display(),
            manifest::FILE,
            shell::path(root)
        );
    }
    let there = all.iter().map(|folder| folder.dir.display().to_string()).collect::<Vec<_>>();
    let taken: Vec<Folder> = all.into_iter().filter(|folder| asked.takes(folder)).collect();
    if taken.is_empty() {
        bail!("none of the engines in {} is asked for; found {}", root.display(), there.join(", "));
    }
    Ok(taken)
}

fn walk(dir: &Path, depth: usize, found: &mut Vec<Folder>) -> Result<()> {
    if let Some(manifest) = EngineManifest::read(dir)? {
        found.push(Folder { dir: dir.to_owned(), manifest });
        return Ok(());
    }
    let entries = std::fs::read_dir(dir).with_context(|| {
        format!("cannot read {}; name the folder of engines with --engines", dir.display())
    })?;
    let mut dirs: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    dirs.sort();
    for dir in dirs.iter().filter(|_| depth > 0) {
        walk(dir, depth - 1, found)?;
    }
    Ok(())
}

/// The fp32 bundle of the same model, size and weights.
///
/// # Errors
/// None there, or one with other weights: its outputs would be others too.
pub fn reference_of(folder: &Folder, bundles: &[Bundle], roots: &[PathBuf]) -> Result<Bundle> {
    let made_from = &folder.manifest.bundle;
    let (model, imgsz) = (made_from.model.name.as_str(), Some(made_from.model.imgsz));
    let found = bundle::find(bundles, roots, &WantedBundle { model, imgsz, precision: "fp32" })
        .context("no reference to compare with (--no-reference tests without one)")?;
    if identity(&found.manifest.weights) != identity(&made_from.weights) {
        bail!(
            "the reference {} has other weights than the engines: found {}, expected {}; export it \
             again from the same checkpoint",
            found.dir.display(),
            weights_phrase(&found.manifest),
            weights_phrase(made_from)
        );
    }
    Ok(found)
}

/// The bundle whose parts ([`Manifest::cut_graphs`]) the folder's were built from; none where the
/// folder's graphs have none, or it is gone.
pub fn parts_of(folder: &Folder, bundles: &[Bundle]) -> Option<Bundle> {
    let hashes = |manifest: &Manifest| -> Vec<String> {
        manifest.cut_graphs().iter().map(|part| part.sha256.clone()).collect()
    };
    let wanted = hashes(&folder.manifest.bundle);
    let same = |bundle: &Bundle| hashes(&bundle.manifest) == wanted;
    let recorded = || Bundle::open(folder.manifest.sources.bundle.as_deref()?).ok();
    let found = || bundles.iter().find(|bundle| same(bundle)).cloned();
    if wanted.is_empty() {
        return None;
    }
    found().or_else(|| recorded().filter(same))
}

/// What makes weights the same.
fn identity(weights: &Weights) -> (&str, Option<&String>, Option<i64>, Option<&String>) {
    (
        &weights.source,
        weights.checkpoint_sha256.as_ref(),
        weights.seed,
        weights.overlay_sha256.as_ref(),
    )
}

/// The weights with the first digits of their hash: checkpoints of one name may differ.
fn weights_phrase(manifest: &Manifest) -> String {
    let digits = manifest.weights.checkpoint_sha256.as_deref().and_then(|hash| hash.get(..8));
    let hash = digits.map_or_else(String::new, |digits| format!(" (SHA-256 {digits}…)"));
    format!("{}{hash}", manifest.weights_phrase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest::case::tests::{manifest, plan};
    use runtime::engine::engine_dir;
    use vos::bundle::Role;

    fn folder(root: &Path, platform: &str, precision: Precision) -> EngineManifest {
        let bundle = manifest();
        let plans = vec![plan(&bundle, Role::Encoder)];
        let engines = EngineManifest {
            format: manifest::FORMAT,
            platform: platform.to_owned(),
            precision,
            bundle,
            plans,
            products: None,
            attention_kernels: false,
            sources: manifest::Sources::default(),
            dir: None,
        };
        let dir = engine_dir(root, platform, "edgetam_mini", 256, precision);
        std::fs::create_dir_all(&dir).unwrap();
        engines.write(&dir).unwrap();
        engines
    }

    #[test]
    fn folders_are_found_below_the_root_and_at_it_and_filtered() {
        let root = tempfile::tempdir().unwrap();
        for (platform, precision) in
            [("h200", Precision::Fp16), ("h200", Precision::Fp32), ("orin", Precision::Fp16)]
        {
            folder(root.path(), platform, precision);
        }
        let of = |asked: &Asked| -> Vec<String> {
            let found = find(root.path(), asked).unwrap();
            found
                .iter()
                .map(|f| format!("{} {}", f.manifest.platform, f.manifest.precision))
                .collect()
        };
        assert_eq!(of(&Asked::default()), ["h200 fp16", "h200 fp32", "orin fp16"]);
        let h200 = Asked { platform: Some("h200".to_owned()), ..Asked::default() };
        assert_eq!(of(&h200), ["h200 fp16", "h200 fp32"]);
        let fp32 = Asked { precision: Some(Precision::Fp32), ..Asked::default() };
        assert_eq!(of(&fp32), ["h200 fp32"]);
        let itself = root.path().join("orin/edgetam_mini_256_fp16");
        let found = find(&itself, &Asked::default()).unwrap();
        assert_eq!(found[0].key().model, "edgetam_mini");
        assert!(found[0].runs_on(90) && !found[0].runs_on(87));

        let other = Asked { models: vec!["edgetam".to_owned()], ..Asked::default() };
        let error = find(root.path(), &other).unwrap_err().to_string();
        assert!(error.contains("edgetam_mini_256_fp16"), "{error}");
    }

    #[test]
    fn an_empty_root_says_how_to_build() {
        let root = tempfile::tempdir().unwrap();
        let error = find(root.path(), &Asked::default()).unwrap_err().to_string();
        assert!(error.contains("segtrt build-engines"), "{error}");
        assert!(find(&root.path().join("no"), &Asked::default()).is_err());
    }

    #[test]
    fn the_bundle_of_an_encoders_parts_is_known_by_their_hashes() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = Folder {
            dir: root.path().to_owned(),
            manifest: folder(root.path(), "h200", Precision::Fp16),
        };
        let mini = Bundle::open("onnx/bundles/edgetam_mini_256_fp32".as_ref()).unwrap();
        assert!(parts_of(&folder, std::slice::from_ref(&mini)).is_none(), "it has no parts");
        let with = |hash: &str| {
            let mut bundle = mini.clone();
            let mut part = bundle.manifest.graph(Role::Encoder).unwrap().clone();
            (part.role, part.sha256) = (Role::EncoderCut0, hash.to_owned());
            bundle.manifest.graphs.push(part);
            bundle.dir = hash.into();
            bundle
        };
        let bundles = [mini.clone(), with("a"), with("b")];
        folder.manifest.bundle = bundles[2].manifest.clone();
        assert_eq!(parts_of(&folder, &bundles).unwrap().dir, Path::new("b"));
        assert!(parts_of(&folder, &bundles[..2]).is_none());
    }

    #[test]
    fn a_reference_with_other_weights_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let mut engines = folder(root.path(), "h200", Precision::Fp16);
        let roots = [PathBuf::from("onnx/bundles")];
        let bundles = bundle::list(&roots).unwrap();
        let of = |manifest: &EngineManifest| {
            let folder = Folder { dir: root.path().to_owned(), manifest: manifest.clone() };
            reference_of(&folder, &bundles, &roots)
        };
        assert_eq!(of(&engines).unwrap().manifest.model.precision, "fp32");
        engines.bundle.weights.checkpoint_sha256 = Some("f".repeat(64));
        let error = of(&engines).unwrap_err().to_string();
        assert!(error.contains("other weights") && error.contains("ffffffff…"), "{error}");
        engines.bundle.model.imgsz = 512;
        assert!(format!("{:#}", of(&engines).unwrap_err()).contains("--no-reference"));
    }
}
