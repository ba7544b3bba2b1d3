/*!
Bundles whose encoder has a trunk (`tests/data/trunk`, as the exporter writes it), on stand-ins for
the driver and for TensorRT 8.6: the weights travel with the plans and with packs, and what is
damaged, changed or not for this GPU is said.
*/
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use runtime::engine::{EngineManifest, open_part};
use serde_json::Value;
use vos::bundle::{Bundle, PartGraph, Role, Trunk};

use crate::build_line::fakes;
use crate::selftest::fakes::{cublaslt, shared};
use crate::support::{copy, segtrt};

const FILE: &str = "encoder_trunk.safetensors";

/// `tests/data/fused` with the encoder of `tests/data/trunk`, whole in fp32, and with its parts and
/// trunk in `fp16` where `cut`.
pub(crate) fn bundle(bundle: &Path, cut: bool) {
    copy(Path::new("tests/data/fused"), bundle);
    copy(Path::new("tests/data/trunk"), bundle);
    let graphs = fs::read_to_string(bundle.join("graphs.toml")).unwrap();
    let graphs: Vec<&str> = graphs.split("[[graph]]").filter(|graph| !graph.is_empty()).collect();
    let path = bundle.join("manifest.toml");
    let manifest = fs::read_to_string(&path).unwrap();
    let manifest = manifest.replace("\"fp32\"", if cut { "\"fp16\"" } else { "\"fp32\"" });
    let others = manifest.split("[[graph]]").filter(|graph| !graph.contains("role = \"encoder\""));
    // The last of the snippet's graphs has the table of the trunk behind it.
    let added = graphs[..if cut { graphs.len() } else { 1 }].iter().copied();
    fs::write(&path, others.chain(added).collect::<Vec<_>>().join("[[graph]]")).unwrap();
}

/// A folder in which engines of a bundle are built.
pub(crate) struct Yard {
    dir: tempfile::TempDir,
    fakes: &'static Path,
    imgsz: usize,
}

impl Yard {
    fn new() -> Option<Self> {
        Self::with(64, |place| {
            bundle(place, true);
            Some(())
        })
    }

    /// For images of this side, with the bundle that `make` writes.
    pub(crate) fn with(imgsz: usize, make: impl Fn(&Path) -> Option<()>) -> Option<Self> {
        let fakes = fakes()?;
        let dir = tempfile::tempdir().unwrap();
        let table = format!(
            "[small]\ntitle = \"a small board\"\nsm = 90\nmemory_mb = 4096\nunified = \
             false\nmodels = [\"edgetam_mini\"]\nprecision = \"fp16\"\nimgsz = \
             {imgsz}\nworkspace_mb = 64\ntrack_variant = \"per-fill-level\"\nopt_level = \
             3\ndevice_names = [\"Small\"]\n"
        );
        fs::write(dir.path().join("platforms.toml"), table).unwrap();
        let yard = Self { dir, fakes, imgsz };
        make(&yard.bundle())?;
        Some(yard)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn bundle(&self) -> PathBuf {
        self.path(&format!("onnx/edgetam_mini_{}_fp16", self.imgsz))
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.path(&format!("engines/small/edgetam_mini_{}_fp16", self.imgsz))
    }

    pub(crate) fn inspect(&self, folder: &Path) -> Command {
        let mut command = segtrt();
        command.arg("inspect").arg(folder);
        command
    }

    pub(crate) fn build(&self, flags: &[&str]) -> Command {
        let mut command = segtrt();
        command.env("LD_LIBRARY_PATH", self.fakes).env("FAKE_BUILD", "");
        command.args(["build-engines", "--platform", "small", "--models", "edgetam_mini"]);
        command.arg("--platforms").arg(self.path("platforms.toml"));
        command.arg("--onnx-dir").arg(self.bundle()).arg("--out").arg(self.path("engines"));
        command.arg("--tensorrt-lib").arg(self.fakes).args(flags);
        command
    }

    /// Graph and status of each row.
    pub(crate) fn rows(&self, flags: &[&str]) -> Vec<String> {
        let output = self.build(flags).arg("--json").output().unwrap();
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        rows.iter().map(|row| ["role", "status"].map(|key| text(row, key)).join(" ")).collect()
    }

    pub(crate) fn manifest(&self) -> EngineManifest {
        EngineManifest::read(&self.folder()).unwrap().unwrap()
    }

    /// Why the folder's weights cannot be opened.
    fn refusal(&self) -> String {
        format!("{:#}", open_part::<Trunk>(&self.folder(), &self.manifest()).err().unwrap())
    }
}

pub(crate) const ENCODER: [&str; 2] = ["--graphs", "encoder_cut0,encoder_cut1"];
const CURRENT: [&str; 3] =
    ["encoder_trunk up_to_date", "encoder_cut0 up_to_date", "encoder_cut1 up_to_date"];

#[test]
fn algorithms_of_the_products_are_timed_once_and_kept_with_the_engines() {
    let (Some(yard), Some(library), Some(gpu)) = (Yard::new(), cublaslt(), shared()) else {
        return;
    };
    // Kernels beside the driver that build-engines is tested with.
    let path = std::env::join_paths([yard.fakes, gpu.dir()]).unwrap();
    let build = |flags: &[&str]| {
        let mut command = yard.build(&[&ENCODER[..], flags].concat());
        command.env("LD_LIBRARY_PATH", &path).env("SEGTRT_CUBLASLT_LIB", library);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let told =
        "of 21 matmuls, tried one by one, are faster with another algorithm than cuBLASLt 13.1.2";
    assert!(!build(&["--no-autotune"]).contains("another algorithm"));
    assert_eq!(yard.manifest().products, None);
    let said = build(&[]);
    assert!(said.contains(told), "{said}");
    let kept = yard.manifest().products.unwrap();
    assert_eq!((kept.products.len(), kept.library.as_str()), (21, "cuBLASLt 13.1.2 (for CUDA 13)"));
    assert!(kept.products.iter().all(|choice| choice.of == 2 && choice.algorithm < 2));
    // Neither a later call nor one that leaves them alone changes them; another GPU's are made
    // anew, and those of a program with other kernels.
    assert!(!build(&[]).contains("another algorithm"));
    build(&["--no-autotune"]);
    assert_eq!(yard.manifest().products.as_ref(), Some(&kept));
    let mut manifest = yard.manifest();
    manifest.products.as_mut().unwrap().device = "another".to_owned();
    manifest.write(&yard.folder()).unwrap();
    assert!(build(&[]).contains(told));
    assert_eq!(yard.manifest().products.unwrap().device, kept.device);
    let mut manifest = yard.manifest();
    assert!(manifest.products.as_mut().unwrap().kernels.pop().is_some());
    manifest.write(&yard.folder()).unwrap();
    assert!(build(&[]).contains(told));
    assert_eq!(yard.manifest().products.unwrap().kernels, kept.kernels);
}

/// Another sign in the file of weights, and its hash in the manifest where `known`.
fn change(bundle: &Path, known: bool) {
    let path = bundle.join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let before = vos::files::sha256_of_file(&path).unwrap().sha256;
    *bytes.last_mut().unwrap() ^= 0x80;
    fs::write(&path, bytes).unwrap();
    let after = vos::files::sha256_of_file(&path).unwrap().sha256;
    if known {
        let manifest = bundle.join("manifest.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        fs::write(&manifest, text.replace(&before, &after)).unwrap();
    }
}

#[test]
fn the_exporters_trunk_is_read_with_its_weights() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), true);
    let bundle = Bundle::open(dir.path()).unwrap();
    let trunk = bundle.manifest.trunk.as_ref().unwrap();
    let part_graph = PartGraph::of(&bundle.manifest.encoder_parts(), Some(trunk)).unwrap();
    assert_eq!(part_graph.slots(), 4);
    let weights = bundle.weights_of::<Trunk>().unwrap().unwrap();
    for (at, block) in trunk.blocks.hiera().unwrap().iter().enumerate() {
        let read = weights.hiera_block(at).unwrap();
        assert_eq!(read.qkv.weight.len(), 2 * 3 * block.dim_out * block.dim);
        assert_eq!(read.skip.is_some(), block.pooled);
        // Scales of a norm lie around one.
        let scales = read.norm1.weight.chunks_exact(4);
        let scales = scales.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        assert!(scales.into_iter().all(|scale| (0.5..1.5).contains(&scale)), "block {at}");
    }
    fs::remove_file(dir.path().join(FILE)).unwrap();
    let said = format!("{:#}", bundle.weights_of::<Trunk>().err().unwrap());
    assert!(said.contains("export the model again") && said.contains(FILE), "{said}");
}

#[test]
fn weights_are_copied_beside_the_plans_once_and_again_when_they_change_or_are_damaged() {
    let Some(yard) = Yard::new() else { return };
    let dry = yard.build(&ENCODER).arg("--dry-run").assert().success();
    dry.stdout(contains("copy: not copied yet").and(contains(FILE)));
    assert!(!yard.folder().exists());
    let built = ["encoder_trunk copied", "encoder_cut0 built", "encoder_cut1 built"];
    assert_eq!(yard.rows(&ENCODER), built);
    assert_eq!(yard.rows(&ENCODER), CURRENT);
    let bytes = |dir: &Path| fs::read(dir.join(FILE)).unwrap();
    assert_eq!(bytes(&yard.folder()), bytes(&yard.bundle()));
    let manifest = yard.manifest();
    let weights = open_part::<Trunk>(&yard.folder(), &manifest).unwrap();
    let mut command = yard.build(&ENCODER);
    command.env("SEGTRT_CUBLASLT_LIB", yard.path("none")).assert().success().stderr(
        contains("note: the encoder's trunk cannot run here yet")
            .and(contains("SEGTRT_CUBLASLT_LIB")),
    );
    assert!(weights.hiera_block(5).is_ok() && weights.hiera_block(6).is_err());

    // Damaged, then gone: each is refused with the command that mends it.
    let repaired = ["encoder_trunk copied", CURRENT[1], CURRENT[2]];
    change(&yard.folder(), false);
    let said = yard.refusal();
    assert!(
        said.contains("is damaged or another file: found sha256")
            && said.contains("get it again with: segtrt build-engines --platform small"),
        "{said}"
    );
    assert_eq!(yard.rows(&ENCODER), repaired);
    fs::remove_file(yard.folder().join(FILE)).unwrap();
    assert!(yard.refusal().contains("cannot read"), "{}", yard.refusal());
    assert_eq!(yard.rows(&ENCODER), repaired);

    // Other weights of the same blocks: the plans stay, and the manifest vouches for the new file.
    change(&yard.bundle(), true);
    let dry = yard.build(&ENCODER).arg("--dry-run").assert().success();
    dry.stdout(contains("copy: the encoder's trunk has changed in the bundle"));
    assert!(
        open_part::<Trunk>(&yard.folder(), &yard.manifest()).is_ok(),
        "a dry run changes nothing"
    );
    assert_eq!(yard.rows(&ENCODER), repaired);
    assert_eq!(bytes(&yard.folder()), bytes(&yard.bundle()));
    assert!(open_part::<Trunk>(&yard.folder(), &yard.manifest()).is_ok());
    // An older file comes back from somewhere.
    fs::copy(Path::new("tests/data/trunk").join(FILE), yard.folder().join(FILE)).unwrap();
    assert!(yard.refusal().contains("of its manifest"));
}

#[test]
fn a_damaged_bundle_costs_its_row_and_leaves_what_was_there() {
    let Some(yard) = Yard::new() else { return };
    yard.rows(&ENCODER);
    let before = fs::read(yard.folder().join(FILE)).unwrap();
    change(&yard.bundle(), false);
    assert_eq!(yard.rows(&ENCODER), CURRENT, "nothing is to be copied");
    let failed = ["encoder_trunk failed", "encoder_cut0 built", "encoder_cut1 built"];
    let forced = [&ENCODER[..], &["--force"]].concat();
    assert_eq!(yard.rows(&forced), failed);
    let said = yard.build(&forced).assert().code(1);
    said.stderr(contains(
        "encoder_trunk: FAILED: the weights of the encoder's trunk do not match manifest.toml \
         (SHA-256 or tensors); export",
    ));
    assert_eq!(fs::read(yard.folder().join(FILE)).unwrap(), before);
}

#[test]
fn other_graphs_need_no_weights_and_an_encoder_in_one_piece_neither() {
    let Some(yard) = Yard::new() else { return };
    assert_eq!(yard.rows(&["--graphs", "encoder,prompt"]), ["encoder built", "prompt built"]);
    assert!(!yard.folder().join(FILE).exists());
    assert!(yard.manifest().trunk().is_none());
    // Mixed engines compute their encoder in fp32: the whole is built, and the parts are refused by
    // name.
    let mixed = |flags: &[&str]| {
        yard.build(&[&["--precision", "mixed", "--dry-run", "--json"], flags].concat())
    };
    mixed(&ENCODER)
        .assert()
        .code(2)
        .stderr(contains("the trunk between the encoder's parts has CUDA kernels in fp16 only"));
    let output = mixed(&["--track-variant", "segmented"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("because mixed engines take no trunk"), "{said}");
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let plans = plan["plans"].as_array().unwrap().iter();
    let roles: Vec<&str> = plans.map(|plan| plan["role"].as_str().unwrap()).collect();
    let encoders: Vec<_> = roles.into_iter().filter(|role| role.starts_with("encoder")).collect();
    assert_eq!(encoders, ["encoder"]);
}

#[test]
fn weights_of_a_trunk_that_is_no_more_are_removed() {
    let Some(yard) = Yard::new() else { return };
    yard.rows(&ENCODER);
    let place = yard.bundle();
    fs::remove_dir_all(&place).unwrap();
    bundle(&place, true);
    let manifest = place.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let graphs: Vec<&str> =
        text.split("[[graph]]").filter(|graph| !graph.contains("role = \"encoder_cut")).collect();
    fs::write(&manifest, graphs.join("[[graph]]")).unwrap();
    let flags = ["--graphs", "encoder"];
    yard.build(&flags).assert().success().stderr(contains(format!("{FILE} removed from")));
    assert!(!yard.folder().join(FILE).exists());
    assert_eq!(yard.rows(&flags), ["encoder up_to_date"]);
}

#[test]
fn inspect_shows_the_trunk_and_doctor_too_what_is_wrong_with_its_file() {
    let Some(yard) = Yard::new() else { return };
    yard.rows(&ENCODER);
    let line = "trunk: encoder_trunk.safetensors, 0.0 MB, 6 Hiera blocks, 0.0 GFLOP; tokens \
                after its stages 16 x 16 x 8, 8 x 8 x 16, 4 x 4 x 8, 2 x 2 x 16";
    for folder in [yard.bundle(), yard.folder()] {
        let inspect = || yard.inspect(&folder);
        inspect().assert().success().stdout(contains(line));
        change(&folder, false);
        inspect().assert().code(1).stdout(contains("wrong: ").and(contains(FILE)));
        let output = inspect().arg("--json").output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found[0]["trunk"]["columns"], serde_json::json!([8, 16, 8, 16]));
        assert!(found[0]["trunk"]["problem"].is_string());
        let mut doctor = segtrt();
        doctor.env("LD_LIBRARY_PATH", yard.fakes).args(["doctor", "--json"]);
        doctor.arg("--engines").arg(yard.path("engines")).arg("--onnx-dir").arg(yard.bundle());
        let output = doctor.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(FILE) && said.contains("sha256"), "{said}");
        change(&folder, false);
    }
}

#[test]
fn a_pack_has_the_weights() {
    let Some(yard) = Yard::new() else { return };
    let tar = yard.path("p.tar");
    let pack = || {
        let mut command = segtrt();
        command.args(["pack", "--platform", "small", "--force", "--platforms"]);
        command.arg(yard.path("platforms.toml")).arg("--out").arg(&tar);
        command.arg("--onnx-dir").arg(yard.bundle());
        command
    };
    pack().assert().success();
    let mut archive = ::tar::Archive::new(fs::File::open(&tar).unwrap());
    let names = archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().into_owned());
    assert!(names.into_iter().any(|name| name.ends_with(format!("edgetam_mini_64_fp16/{FILE}"))));
    change(&yard.bundle(), false);
    pack().assert().code(1).stderr(contains(format!("{FILE} is not the file of its manifest")));
}

#[test]
fn parts_that_are_built_are_those_of_the_bundle() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), true);
    let bundle = Bundle::open(dir.path()).unwrap();
    let parts: Vec<Role> = bundle.manifest.encoder_parts().iter().map(|part| part.role).collect();
    assert_eq!(parts, [Role::EncoderCut0, Role::EncoderCut1]);
    // Without its table the neck takes what nobody makes.
    let path = dir.path().join("manifest.toml");
    let text = fs::read_to_string(&path).unwrap();
    let (before, _) = text.split_once("[trunk]").unwrap();
    fs::write(&path, before).unwrap();
    let said = format!("{:#}", Bundle::open(dir.path()).err().unwrap());
    assert!(said.contains("manifest.toml") && said.contains("'m0'"), "{said}");
}
