//! What the tests of a part of the network share that custom CUDA kernels compute in place of a
//! graph: a bundle of it built on stand-ins, beside the whole network on the CPU, and a small
//! platform to build it for.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use half::f16;
use runtime::engine::EngineManifest;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::Value;
use vos::bundle::{FileTensor, Role};
use vos::files::sha256_of_file;
use vos::precision::Precision;

use crate::selftest::fakes::{Engines, Fakes, shared};
use crate::support::{bench, column, frames_of, lowest_iou, segtrt, synth};

/// More than fill a bank of 16 pointers and go once around its memories.
pub const FRAMES: usize = 26;

/// Such a part.
pub struct Own {
    /// Writes a bundle into a folder: with the part's weights, in fp16, or whole.
    pub bundle: fn(&Path, bool),
    /// What is built of it.
    pub built: &'static [Role],
    /// The file of weights.
    pub file: &'static str,
    /// Files of other parts' weights that the bundle has, too.
    pub needs: &'static [&'static str],
    /// Frames of the clip: [`FRAMES`], or fewer where the part takes the CPU long.
    pub frames: usize,
    /// What rows of `build-engines` call it.
    pub graph: &'static str,
}

/// A whole file of weights, whose elements `of` makes of a tensor's number and an element's.
pub fn weights(tensors: Vec<FileTensor>, of: impl Fn(&FileTensor, usize, usize) -> f32) -> Vec<u8> {
    let made = tensors.into_iter().enumerate().map(|(number, tensor)| {
        let all = (0..tensor.elements()).map(|at| of(&tensor, number, at));
        let bytes: Vec<u8> = match tensor.dtype {
            Dtype::F16 => all.flat_map(|value| f16::from_f32(value).to_le_bytes()).collect(),
            _ => all.flat_map(f32::to_le_bytes).collect(),
        };
        (tensor, bytes)
    });
    let made: Vec<_> = made.collect();
    let views = made.iter().map(|(tensor, bytes)| {
        let view = TensorView::new(tensor.dtype, tensor.shape.clone(), bytes).unwrap();
        (tensor.name.clone(), view)
    });
    safetensors::serialize(views, None).unwrap()
}

/// Puts the weights beside a bundle's manifest, whose text becomes that of fp16 graphs with the
/// table's lines.
pub fn install(place: &Path, file: &str, weights: &[u8], table: &str, more: &str) {
    fs::write(place.join(file), weights).unwrap();
    let known = sha256_of_file(&place.join(file)).unwrap();
    let table = format!(
        "\n[{table}]\nfile = \"{file}\"\nbytes = {}\nsha256 = \"{}\"\n{more}",
        known.bytes, known.sha256
    );
    let manifest = place.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"fp32\"", "\"fp16\"") + &table).unwrap();
}

/// A clip, its masks on the CPU in `cpu`, and engines of the part's bundle in `engines`.
pub struct Setting {
    dir: tempfile::TempDir,
    split: PathBuf,
    pub fakes: &'static Fakes,
}

impl Setting {
    /// None, said aloud, where there is no compiler.
    pub fn new(own: &Own) -> Option<Self> {
        let fakes = shared()?;
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 1, 1, own.frames);
        let setting = Self { dir, split, fakes };
        (own.bundle)(&setting.path("whole"), false);
        (own.bundle)(&setting.path("own"), true);
        let mut command = bench(&setting.split, &setting.path("cpu"));
        command.arg("--save-masks").arg("--onnx-dir").arg(setting.path("whole"));
        command.args(["--imgsz", "64"]).assert().success();
        assert_eq!(setting.engines("engines", own, own.built), [&[own.file], own.needs].concat());
        Some(setting)
    }

    /// Writes engines of these graphs with the part's weights beside them; the files of weights
    /// that are used.
    fn engines(&self, name: &str, own: &Own, roles: &[Role]) -> Vec<String> {
        let engines = Engines::of(&self.path(name), &self.path("own"));
        let built: Vec<_> = roles.iter().map(|role| (*role, "ok")).collect();
        let folder = engines.write_live(Precision::Fp16, &built);
        for file in [&[own.file], own.needs].concat() {
            fs::copy(self.path("own").join(file), folder.join(file)).unwrap();
        }
        let mut manifest = EngineManifest::read(&folder).unwrap().unwrap();
        // As a build of the default graphs has it.
        manifest.attention_kernels = manifest.bundle.memory_attention.is_some();
        manifest.write(&folder).unwrap();
        manifest.weights_files().map(|file| file.file.to_owned()).collect()
    }

    /// Runs engines of which one does the part's work, in `engine_too`; what the rows' backend says.
    pub fn with_an_engine(&self, own: &Own, role: Role) -> String {
        let roles = [own.built, &[role]].concat();
        assert!(self.engines("both", own, &roles).is_empty(), "no weights are used");
        let out = self.path("engine_too");
        let mut command = self.fakes.bench(&self.path("both"), &self.split, &out);
        command.args(["--track-variant", "segmented"]).assert().success();
        let iou = self.against_cpu("engine_too");
        assert!(iou > 0.98, "{iou}");
        column(&out.join("sav_benchmark_summary.csv"), "backend").remove(0)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The one folder of engines.
    pub fn folder(&self) -> PathBuf {
        let only = |place: PathBuf| place.read_dir().unwrap().next().unwrap().unwrap().path();
        only(only(self.path("engines")))
    }

    pub fn gpu(&self, out: &str) -> Command {
        let mut command = self.fakes.bench(&self.path("engines"), &self.split, &self.path(out));
        command.args(["--track-variant", "segmented"]);
        command
    }

    /// The lowest IoU of any frame with the CPU's mask.
    pub fn against_cpu(&self, out: &str) -> f64 {
        lowest_iou(&frames_of(&self.path("cpu")), &frames_of(&self.path(out)))
    }
}

/// A platform whose track step is cut, and the bundle under the name that builds look for.
pub struct Yard {
    dir: tempfile::TempDir,
    fakes: &'static Path,
    graph: &'static str,
}

impl Yard {
    /// None, said aloud, where there is no compiler.
    pub fn new(own: &Own) -> Option<Self> {
        let (fakes, dir) = (crate::build_line::fakes()?, tempfile::tempdir().unwrap());
        let table = "[small]\ntitle = \"a small board\"\nsm = 90\nmemory_mb = 4096\nunified = \
                     false\nmodels = [\"edgetam_mini\"]\nprecision = \"fp16\"\nimgsz = \
                     64\nworkspace_mb = 64\ntrack_variant = \"segmented\"\nopt_level = \
                     3\ndevice_names = [\"Small\"]\n";
        fs::write(dir.path().join("platforms.toml"), table).unwrap();
        (own.bundle)(&dir.path().join("onnx/edgetam_mini_64_fp16"), true);
        Some(Self { dir, fakes, graph: own.graph })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Of the usual engines.
    pub fn folder(&self) -> PathBuf {
        self.path("engines/small/edgetam_mini_64_fp16")
    }

    pub fn build(&self, flags: &[&str]) -> Command {
        let mut command = segtrt();
        command.env("LD_LIBRARY_PATH", self.fakes).env("FAKE_BUILD", "");
        command.args(["build-engines", "--platform", "small", "--models", "edgetam_mini"]);
        command.arg("--platforms").arg(self.path("platforms.toml")).args(flags);
        command.arg("--onnx-dir").arg(self.path("onnx")).arg("--out").arg(self.path("engines"));
        command.arg("--tensorrt-lib").arg(self.fakes);
        command
    }

    /// The row of the part's weights: what became of them.
    pub fn status(&self) -> String {
        let output = self.build(&["--json"]).output().unwrap();
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        let row = rows.iter().find(|row| row["role"] == self.graph).unwrap();
        row["status"].as_str().unwrap().to_owned()
    }
}
