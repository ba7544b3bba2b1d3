/*!
The models: exported graphs, and engines for this GPU and TensorRT.
*/

use std::path::{Path, PathBuf};

use super::check::Check;
use super::probe::{Gpus, Tried};
use crate::selftest::{Asked, Folder, find};
use runtime::engine::freshness::{Wanted, damaged, damaged_weights, differs};
use vos::bundle::{self, Bundle, Role, Trunk, WeightsRecord};

/// Lines about models, and whether any of them can be run.
#[derive(Clone, Debug)]
pub struct Models {
    /// The lines.
    pub checks: Vec<Check>,
    /// At least one can be used.
    pub usable: bool,
    /// At least one has a Hiera trunk, whose matmuls need cuBLASLt.
    pub hiera: bool,
}

const EXPORT: &str = "get one: segtrt fetch edgetam, or name their folder with --onnx-dir";

/// A line for each bundle; every graph is read and compared with its manifest's hash.
pub fn bundles(roots: &[PathBuf]) -> Models {
    let name = "bundles";
    let searched =
        roots.iter().map(|root| root.display().to_string()).collect::<Vec<_>>().join(", ");
    let found = match bundle::list(roots) {
        Ok(found) => found,
        Err(error) => {
            let advice = "export that model again, or take its folder away";
            let checks = vec![Check::missing(name, format!("{error:#}"), advice)];
            return Models { checks, usable: false, hiera: false };
        }
    };
    if found.is_empty() {
        let checks = vec![Check::missing(name, format!("none in {searched}"), EXPORT)];
        return Models { checks, usable: false, hiera: false };
    }
    let sound: Vec<(Check, bool)> = found.iter().map(bundle_check).collect();
    Models {
        usable: sound.iter().any(|(_, runs)| *runs),
        checks: sound.into_iter().map(|(check, _)| check).collect(),
        hiera: found
            .iter()
            .any(|bundle| bundle.manifest.trunk.as_ref().is_some_and(Trunk::is_hiera)),
    }
}

/// A bundle's line, and whether the CPU backend can run it.
fn bundle_check(bundle: &Bundle) -> (Check, bool) {
    let name = format!("bundle {}", bundle.name());
    let roles: Vec<Role> = bundle.manifest.graphs.iter().map(|graph| graph.role).collect();
    if let Err(error) = bundle.verify(&roles).and_then(|()| bundle.verify_weights()) {
        return (Check::missing(name, format!("{error:#}"), "export the model again"), false);
    }
    let weights = bundle.manifest.weights_phrase();
    let found = format!("{} graphs, {weights}, {}", roles.len(), bundle.dir.display());
    let runs = [Role::Encoder, Role::Prompt, Role::Track, Role::Memory]
        .iter()
        .all(|role| roles.contains(role));
    let check = match bundle.manifest.weights.source == "random" {
        true => Check::warning(
            name,
            format!("{found}: random weights give speeds, and masks that mean nothing"),
            "for masks that mean something: export a checkpoint (onnx/README.md)",
        ),
        false => Check::ok(name, found),
    };
    (check, runs)
}

/// A line for each folder of engines.
pub fn engines(root: &Path, gpus: &Gpus, tensorrts: &[Tried]) -> Models {
    let name = "engines";
    let lone = |check: Check| Models { checks: vec![check], usable: false, hiera: false };
    let folders = match find(root, &Asked::default()) {
        Ok(folders) => folders,
        Err(error) => {
            let found = format!("{error:#}");
            return lone(match gpus {
                Ok(_) => Check::missing(
                    name,
                    found,
                    "segtrt build-engines --platform auto --onnx-dir onnx/bundles",
                ),
                Err(_) => {
                    Check::not_asked(name, format!("none in {}; they need a GPU", root.display()))
                }
            });
        }
    };
    let sound: Vec<(Check, bool)> =
        folders.iter().map(|folder| engine_check(folder, gpus, tensorrts)).collect();
    Models {
        usable: sound.iter().any(|(_, runs)| *runs),
        checks: sound.into_iter().map(|(check, _)| check).collect(),
        hiera: folders.iter().any(|folder| folder.manifest.trunk().is_some_and(Trunk::is_hiera)),
    }
}

/// A folder's line, and whether a GPU and a TensorRT here run all its plans.
fn engine_check(folder: &Folder, gpus: &Gpus, tensorrts: &[Tried]) -> (Check, bool) {
    let name = format!("engines {}", folder.dir.display());
    let plans = &folder.manifest.plans;
    let rebuild = |more: &str| folder.manifest.rebuild_command_with(more);
    if let Some(why) = plans.iter().find_map(|plan| Some((plan, damaged(plan, &folder.dir)?))) {
        let found = format!("{}: {}", why.0.file, why.1);
        return (Check::missing(name, found, rebuild("--force")), false);
    }
    let damage = |weights: WeightsRecord<'_>| {
        Some(format!("{}: {}", weights.file, damaged_weights(weights, &folder.dir)?))
    };
    if let Some(found) = folder.manifest.weights_files().find_map(damage) {
        return (Check::missing(name, found, rebuild("")), false);
    }
    let versions: Vec<&str> = tensorrts
        .iter()
        .filter_map(|tried| Some(tried.opened.as_ref().ok()?.version.as_str()))
        .collect();
    let Ok(gpus) = gpus else {
        return (
            Check::not_asked(name, format!("{} plans, whole; they need a GPU", plans.len())),
            false,
        );
    };
    if versions.is_empty() {
        let found = format!("{} plans, whole; no TensorRT here to run them", plans.len());
        return (
            Check::warning(name, found, "install the TensorRT that built them, or build them anew"),
            false,
        );
    }
    let mut reason = None;
    for gpu in gpus {
        for version in &versions {
            let wanted =
                Wanted { onnx_sha256: None, tensorrt: version, sm: gpu.sm, settings: None };
            let wrong = plans.iter().find_map(|plan| Some((plan, differs(plan, &wanted)?)));
            let Some((plan, why)) = wrong else {
                let found = format!("{} plans for {}, {version}", plans.len(), gpu.name);
                return (Check::ok(name, found), true);
            };
            reason = reason.or_else(|| Some(format!("{}: {why}", plan.file)));
        }
    }
    let found = reason.unwrap_or_else(|| "no GPU to run them".to_owned());
    (
        Check::warning(name, found, format!("for this machine: {}", rebuild("--platform auto"))),
        false,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;
    use crate::doctor::worker::{FoundGpu, FoundTensorRt};
    use crate::selftest::case::tests::{manifest as bundle_manifest, plan};
    use runtime::engine::{EngineManifest, engine_dir, manifest};
    use vos::files::sha256_of_file;
    use vos::precision::Precision;

    fn gpu(sm: u32) -> Gpus {
        let facts = FoundGpu {
            ordinal: 0,
            name: "Made Up".into(),
            sm,
            total_bytes: 0,
            free_bytes: 0,
            unified: false,
            driver_cuda: "12.4".into(),
            sensors: serde_json::Map::new(),
        };
        Ok(vec![facts])
    }

    fn tensorrt(version: &str) -> Vec<Tried> {
        let (version, path) = (version.to_owned(), PathBuf::from("/x"));
        let found = FoundTensorRt { version, path: path.clone(), builds: true, no_parser: None };
        vec![Tried { library: path, opened: Ok(found) }]
    }

    #[test]
    fn the_committed_bundle_is_sound_and_a_changed_graph_is_not() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("onnx/bundles/edgetam_mini_256_fp32");
        let found = bundles(std::slice::from_ref(&root));
        assert!(found.usable && found.checks.len() == 1, "{found:?}");
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(&root).unwrap().flatten() {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        std::fs::write(copy.path().join("memory.onnx"), "cut").unwrap();
        let damaged = bundles(&[copy.path().to_owned()]);
        assert_eq!((damaged.usable, damaged.checks[0].state), (false, State::Missing));
        let none = bundles(&[copy.path().join("none")]);
        let advice = none.checks[0].advice.as_ref().unwrap();
        assert!(advice.contains("segtrt fetch edgetam"), "{none:?}");
    }

    #[test]
    fn engines_fit_a_gpu_and_a_release_or_say_what_does_not() {
        let root = tempfile::tempdir().unwrap();
        let bundle = bundle_manifest();
        let dir = engine_dir(root.path(), "h200", "edgetam_mini", 256, Precision::Fp16);
        std::fs::create_dir_all(&dir).unwrap();
        let mut record = plan(&bundle, Role::Encoder);
        std::fs::write(dir.join(&record.file), "plan").unwrap();
        let hash = sha256_of_file(&dir.join(&record.file)).unwrap();
        (record.sha256, record.bytes) = (hash.sha256, hash.bytes);
        let (version, sm) = (record.made_by.tensorrt.clone(), record.made_by.sm[0]);
        let engines_of = EngineManifest {
            format: manifest::FORMAT,
            platform: "h200".into(),
            precision: Precision::Fp16,
            bundle,
            plans: vec![record.clone()],
            products: None,
            attention_kernels: false,
            sources: manifest::Sources::default(),
            dir: None,
        };
        engines_of.write(&dir).unwrap();
        let look = |gpus: &Gpus, version: &str| engines(root.path(), gpus, &tensorrt(version));
        let fits = look(&gpu(sm), &version);
        assert!(fits.usable && fits.checks[0].state == State::Ok, "{fits:?}");
        let other_gpu = look(&gpu(sm + 1), &version);
        assert!(
            !other_gpu.usable && other_gpu.checks[0].found.contains("this is sm_"),
            "{other_gpu:?}"
        );
        let other_release = look(&gpu(sm), "TensorRT 99.0.0");
        assert!(
            other_release.checks[0].found.contains("this is TensorRT 99.0.0"),
            "{other_release:?}"
        );
        let no_gpu = look(&Err("none".into()), &version);
        assert_eq!((no_gpu.usable, no_gpu.checks[0].state), (false, State::NotAsked));
        std::fs::write(dir.join(&record.file), "plan!").unwrap();
        let damaged = look(&gpu(sm), &version);
        assert_eq!((damaged.usable, damaged.checks[0].state), (false, State::Missing));
        assert!(
            damaged.checks[0].advice.as_ref().unwrap().contains("build-engines"),
            "{damaged:?}"
        );
    }
}
