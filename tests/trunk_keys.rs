//! The memory attention's keys from the weights beside a trunk's, on stand-ins: the hand-made
//! network of `tests/data/fused` has the masks of the CPU, without an engine of `track_keys`.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use runtime::engine::EngineManifest;
use safetensors::SafeTensors;
use vos::bundle::{Bundle, Role, Trunk};
use vos::files::sha256_of_file;
use vos::precision::Precision;

use crate::selftest::fakes::{Engines, Fakes, shared};
use crate::support::{bench, frames_of, lowest_iou, synth};
use crate::trunk_bundle::bundle;

const WEIGHTS: &str = "encoder_trunk.safetensors";
const KEYS: &str =
    "\n[trunk.keys]\nlayers = 2\nmemories = 7\ntokens = 16\npointers = 16\npointer_times = true\n";
/// The whole encoder runs; the parts are why the weights lie there.
const BUILT: [Role; 10] = [
    Role::Encoder,
    Role::EncoderCut0,
    Role::EncoderCut1,
    Role::Prompt,
    Role::TrackSeg0,
    Role::TrackSeg1,
    Role::TrackSeg2,
    Role::TrackSeg3,
    Role::TrackSeg4,
    Role::Memory,
];
/// More than fill a bank of 16 pointers and go once around its memories.
const FRAMES: usize = 26;

/// `tests/data/fused` with a trunk beside its own encoder, which is not as random as the trunk's:
/// with that one pixels turn over in fp16, whatever makes the keys.
fn bundle_with_trunk(place: &Path) {
    bundle(place, true);
    let encoder = place.join("encoder.onnx");
    let before = sha256_of_file(&encoder).unwrap().sha256;
    fs::copy("tests/data/fused/encoder.onnx", &encoder).unwrap();
    let manifest = place.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let text = text.replace(&before, &sha256_of_file(&encoder).unwrap().sha256);
    fs::write(&manifest, text).unwrap();
}

/// The bundle with a trunk, its file with the keys' weights beside the blocks', `keys` in its manifest.
fn bundle_with_keys(place: &Path, keys: &str) {
    bundle_with_trunk(place);
    let path = place.join(WEIGHTS);
    let before = sha256_of_file(&path).unwrap().sha256;
    let files = [fs::read(&path).unwrap(), fs::read("tests/data/fused/keys.safetensors").unwrap()];
    let read = files.each_ref().map(|bytes| SafeTensors::deserialize(bytes).unwrap());
    let tensors: Vec<_> = read.iter().flat_map(SafeTensors::tensors).collect();
    fs::write(&path, safetensors::serialize(tensors, None).unwrap()).unwrap();
    let manifest = place.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let text = text.replace(&before, &sha256_of_file(&path).unwrap().sha256);
    fs::write(&manifest, text + keys).unwrap();
}

struct Setting {
    dir: tempfile::TempDir,
    split: PathBuf,
    fakes: &'static Fakes,
}

impl Setting {
    /// None, said aloud, where there is no compiler.
    fn new() -> Option<Self> {
        let fakes = shared()?;
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 1, 1, FRAMES);
        let setting = Self { dir, split, fakes };
        bundle_with_keys(&setting.path("cut"), KEYS);
        let mut command = bench(&setting.split, &setting.path("cpu"));
        command.arg("--save-masks").args(["--onnx-dir", "tests/data/fused"]);
        command.args(["--imgsz", "64"]).assert().success();
        let plans = BUILT.map(|role| (role, "ok"));
        let engines = Engines::of(&setting.path("engines"), &setting.path("cut"));
        let folder = engines.write_live(Precision::Fp16, &plans);
        // The same with an engine for the keys.
        bundle_with_trunk(&setting.path("without"));
        let with_engine = [&plans[..], &[(Role::TrackKeys, "ok")]].concat();
        let engines = Engines::of(&setting.path("others"), &setting.path("without"));
        engines.write_live(Precision::Fp16, &with_engine);
        fs::copy(setting.path("cut").join(WEIGHTS), folder.join(WEIGHTS)).unwrap();
        let manifest = EngineManifest::read(&folder).unwrap().unwrap();
        assert!(manifest.plan(Role::TrackKeys).is_none() && manifest.trunk().is_some());
        Some(setting)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn gpu(&self, out: &str) -> Command {
        self.gpu_with("engines", out)
    }

    fn gpu_with(&self, engines: &str, out: &str) -> Command {
        let mut command = self.fakes.bench(&self.path(engines), &self.split, &self.path(out));
        command.args(["--track-variant", "segmented"]);
        command
    }

    /// The lowest IoU of any frame with the CPU's mask.
    fn against_cpu(&self, out: &str) -> f64 {
        lowest_iou(&frames_of(&self.path("cpu")), &frames_of(&self.path(out)))
    }
}

#[test]
fn keys_of_the_kernel_give_the_masks_of_the_whole() {
    let Some(setting) = Setting::new() else { return };
    // What an engine of the keys makes of the same network.
    setting.gpu_with("others", "engine").assert().success();
    let engine = setting.against_cpu("engine");
    assert!(engine > 0.98, "{engine}");
    // The graphs' branch of the keys runs as late as it may, or at random.
    for (out, seed, flags) in [
        ("latency", "0", &["--mode", "latency"][..]),
        ("calls", "3", &["--no-cuda-graphs"]),
        ("throughput", "77", &["--mode", "throughput", "--encode-ahead", "4"]),
    ] {
        let (mut command, log) = (setting.gpu(out), setting.path(&format!("{out}.log")));
        command.args(flags).env("FAKE_CUDA_SEED", seed).env("FAKE_CUDA_LOG", &log);
        command.assert().success();
        let iou = setting.against_cpu(out);
        assert!(iou > 0.98, "{out}: {iou}");
        assert!(fs::read_to_string(&log).unwrap().contains("memory_key_proj"), "{out}");
    }
    // The comparison must be able to fail: with wrong keys, and with right ones that nobody waits
    // for.
    for fault in [("FAKE_FAULT", "keys_of_one_time"), ("FAKE_CUDA_JOINS", "0")] {
        setting.gpu("faulty").env(fault.0, fault.1).assert().success();
        let iou = setting.against_cpu("faulty");
        assert!(iou < 0.98, "{fault:?}: {iou}");
    }
}

#[test]
fn keys_of_another_bank_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (from, to, said) in [
        (
            "tokens = 16",
            "tokens = 17",
            "(7, 17, 16, true), the contract's bank has (7, 16, 16, true)",
        ),
        ("layers = 2", "layers = 3", "of 3 layers, the track_keys graph makes those of 2"),
    ] {
        let place = dir.path().join(to);
        bundle_with_keys(&place, &KEYS.replace(from, to));
        let error = format!("{:#}", Bundle::open(&place).err().unwrap());
        assert!(error.contains(said) && error.contains("[trunk.keys]"), "{error}");
    }
    let place = dir.path().join("right");
    bundle_with_keys(&place, KEYS);
    let weights = Bundle::open(&place).unwrap().weights_of::<Trunk>().unwrap().unwrap();
    let keys = weights.keys().unwrap().unwrap();
    assert_eq!(keys.weight.len(), 2 * 2 * 256 * 64);
    assert_eq!(keys.times.as_ref().unwrap().bias.len(), 4 * 64);
    // Without its table the file has more than the blocks.
    let manifest = place.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace(KEYS, "")).unwrap();
    let error = format!("{:#}", Bundle::open(&place).unwrap().weights_of::<Trunk>().err().unwrap());
    assert!(error.contains("of the encoder's trunk"), "{error}");
}
