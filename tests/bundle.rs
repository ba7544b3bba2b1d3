//! The committed bundle keeps the contract, and the search for bundles picks the right one.

use std::fs;
use std::path::{Path, PathBuf};

use vos::bundle::{Bundle, Role, WantedBundle, find, list};

use crate::support::small_bundle;

const ROLES: [Role; 5] = [Role::Encoder, Role::Prompt, Role::MaskPrompt, Role::Track, Role::Memory];

#[test]
fn the_committed_bundle_is_whole() {
    let bundle = Bundle::open(&small_bundle()).unwrap();
    bundle.verify(&ROLES).unwrap();
    let manifest = &bundle.manifest;
    assert_eq!(manifest.export.opset, 17, "TensorRT 8.6 reads 17 at most");
    for role in ROLES {
        let graph = manifest.graph(role).unwrap();
        assert!(graph.flops > 0 && !graph.inputs.is_empty() && !graph.outputs.is_empty());
    }
    let size: u64 = fs::read_dir(&bundle.dir)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(size < 8 << 20, "the repository carries it: {size} bytes");
}

/// A folder with manifests of these sizes; no graphs are needed to find a bundle.
fn manifests(sizes: &[usize]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/manifest/complete.toml"),
    )
    .unwrap();
    for side in sizes {
        let text = text
            .replace("imgsz = 256", &format!("imgsz = {side}"))
            .replace("grid = 16", &format!("grid = {}", side / 16))
            .replace("low_size = 64", &format!("low_size = {}", side / 4));
        let bundle = dir.path().join(format!("edgetam_mini_{side}_fp32"));
        fs::create_dir(&bundle).unwrap();
        fs::write(bundle.join("manifest.toml"), text).unwrap();
    }
    let roots = vec![dir.path().to_owned()];
    (dir, roots)
}

fn found(sizes: &[usize], imgsz: Option<usize>) -> Result<usize, String> {
    let (_dir, roots) = manifests(sizes);
    let bundles = list(&roots).unwrap();
    let wanted = WantedBundle { model: "edgetam_mini", imgsz, precision: "fp32" };
    find(&bundles, &roots, &wanted)
        .map(|bundle| bundle.manifest.model.imgsz)
        .map_err(|error| error.to_string())
}

#[test]
fn a_missing_bundle_is_told_with_the_flags_that_take_what_is_there() {
    let error = found(&[256], Some(1024)).unwrap_err();
    assert!(error.contains("no bundle of edgetam_mini at imgsz 1024 in fp32"), "{error}");
    assert!(
        error.contains(
            "use an existing one with --imgsz 256 --precision fp32, or export it with: python"
        ),
        "{error}"
    );

    // The committed bundle has its weights beside it, which the exporter takes at its size only.
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("edgetam_mini_256_fp32");
    fs::create_dir(&there).unwrap();
    for file in ["manifest.toml", "edgetam_mini.safetensors"] {
        fs::copy(small_bundle().join(file), there.join(file)).unwrap();
    }
    let roots = vec![dir.path().to_owned()];
    let wanted = WantedBundle { model: "edgetam_mini", imgsz: None, precision: "fp16" };
    let error = find(&list(&roots).unwrap(), &roots, &wanted).unwrap_err().to_string();
    let told = format!(
        "--model edgetam_mini --imgsz 256 --precision fp16 --segments --padded-track --checkpoint {}",
        there.join("edgetam_mini.safetensors").display()
    );
    assert!(error.contains(&told), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let roots = [PathBuf::from("/no/such/bundles"), file.path().to_owned()];
    let wanted = WantedBundle { model: "edgetam", imgsz: None, precision: "fp32" };
    let error = find(&[], &roots, &wanted).unwrap_err().to_string();
    assert!(error.contains("searched /no/such/bundles (missing), "), "{error}");
    assert!(
        error.contains(" (not a folder), found no bundle; get it with: segtrt fetch edgetam"),
        "{error}"
    );
}

#[test]
fn the_usual_size_wins_and_a_lone_one_is_taken() {
    assert_eq!(found(&[512, 1024], None), Ok(1024));
    assert_eq!(found(&[512], None), Ok(512));
    assert_eq!(found(&[512, 1024], Some(512)), Ok(512));
    assert!(found(&[256, 512], None).unwrap_err().contains("256, 512"));
    let missing = found(&[256], Some(1024)).unwrap_err();
    assert!(missing.contains("onnx/export.py --model edgetam_mini --imgsz 1024"), "{missing}");
    assert!(missing.contains("--segments --padded-track --checkpoint FILE"), "{missing}");
    assert!(missing.contains("edgetam_mini_256_fp32"), "it says what is there: {missing}");
}

#[test]
fn a_manifest_that_contradicts_itself_is_refused() {
    let (dir, roots) = manifests(&[256]);
    let path = dir.path().join("edgetam_mini_256_fp32/manifest.toml");
    let text = fs::read_to_string(&path).unwrap();
    for (from, to, message) in [
        ("grid = 16", "grid = 17", "grid 17"),
        ("pointer_times = false", "pointer_times = true", "pointer_times is true"),
        ("role = \"memory\"", "role = \"mask_prompt\"", "the memory graph is missing"),
        ("imgsz = 256", "imgsz = \"big\"", "is not a bundle manifest"),
    ] {
        fs::write(&path, text.replace(from, to)).unwrap();
        let error = format!("{:#}", list(&roots).unwrap_err());
        assert!(error.contains(message) && error.contains("manifest.toml"), "{error}");
    }
}

/// A stranger's bundle must not name files of this machine: they would be packed, and handed to
/// ONNX Runtime.
#[test]
fn a_manifest_names_files_beside_it_alone() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = dir.path().join("bundle");
    crate::support::copy(&small_bundle(), &bundle);
    let split = crate::support::synth(dir.path(), 1, 1, 3);
    let text = fs::read_to_string(bundle.join("manifest.toml")).unwrap();
    for name in ["/etc/hostname", "../bundle/memory.onnx", "sub/memory.onnx", "..", ""] {
        let changed = text.replacen("file = \"memory.onnx\"", &format!("file = {name:?}"), 1);
        assert_ne!(changed, text);
        fs::write(bundle.join("manifest.toml"), changed).unwrap();
        let error = format!("{:#}", Bundle::open(&bundle).unwrap_err());
        let expected = format!(
            "bundle/manifest.toml: it names {name:?}; expected the name of a file beside it"
        );
        assert!(error.contains(&expected), "{error}");
    }
    let pack =
        ["pack", "--platform", "orin", "--models", "edgetam_mini", "--imgsz", "256", "--onnx-dir"];
    let bench = ["bench", "--models", "edgetam_mini_points", "--onnx-dir"];
    for (words, more) in [(&["inspect"][..], None), (&pack, None), (&bench, Some(&split))] {
        let mut command = crate::support::segtrt();
        command.args(words).arg(&bundle);
        if let Some(split) = more {
            command.arg("--split-dir").arg(split);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("manifest.toml: it names"), "{words:?}: {said}");
    }
    // A file that is beside it and no graph is named, too, though its hash is right.
    fs::write(bundle.join("memory.onnx"), "root:x:0:0").unwrap();
    let hash = vos::files::sha256_of_file(&bundle.join("memory.onnx")).unwrap().sha256;
    let own = vos::files::sha256_of_file(&small_bundle().join("memory.onnx")).unwrap().sha256;
    fs::write(bundle.join("manifest.toml"), text.replace(&own, &hash)).unwrap();
    let output = crate::support::segtrt().arg("inspect").arg(&bundle).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_copy_in_a_later_root_is_listed_once_and_another_bundle_of_that_name_is_not_lost() {
    let ((first, mut roots), (second, more)) = (manifests(&[256, 512]), manifests(&[512]));
    roots.extend(more);
    let dirs = || -> Vec<PathBuf> { list(&roots).unwrap().into_iter().map(|b| b.dir).collect() };
    let in_first = |side| first.path().join(format!("edgetam_mini_{side}_fp32"));
    assert_eq!(dirs(), [in_first(256), in_first(512)]);
    let other = second.path().join("edgetam_mini_512_fp32");
    let text = fs::read_to_string(other.join("manifest.toml")).unwrap();
    fs::write(other.join("manifest.toml"), format!("# of other weights\n{text}")).unwrap();
    assert_eq!(dirs(), [in_first(256), in_first(512), other]);
    // The first one with that size wins.
    let wanted = WantedBundle { model: "edgetam_mini", imgsz: Some(512), precision: "fp32" };
    assert_eq!(find(&list(&roots).unwrap(), &roots, &wanted).unwrap().dir, in_first(512));
}
