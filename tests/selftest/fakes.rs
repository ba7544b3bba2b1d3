//! The stand-ins for driver and TensorRT, compiled here, and engine folders that they can run.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use runtime::engine::fp32_pins::Fp32Pins;
use runtime::engine::{
    BuildCost, Builder, EngineManifest, PlanRecord, Settings, engine_dir, manifest, profiles,
};
use segtrt::commands::selftest::SEED;
use segtrt::selftest::case::{Case, cases};
use segtrt::selftest::inputs::Inputs;
use segtrt::selftest::reference::{load, run_graph};
use segtrt::selftest::tensor::{Tensor, Values};
use tensorrt::DataType;
use vos::bundle::manifest::{Axis, Tensor as DeclaredTensor};
use vos::bundle::{Bundle, DType, Graph, Manifest, Role};
use vos::files::sha256_of_file;
use vos::precision::Precision;

use crate::support::{copy, onnxruntime, require_onnxruntime, segtrt, small_bundle};

mod live;

/// A folder with libcuda.so, libkernels.so and libnvinfer.so.8.
pub struct Fakes(tempfile::TempDir);

impl Fakes {
    /// Compiles them; none, said aloud, without a compiler. A process may set FAKE_FAULT (a name of
    /// `tests/data/gpu/faults.h`). FAKE_LACKS: a missing kernel. FAKE_REFUSES: one whose module fails.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let cuda = ["-Wl,-soname,libcuda.so", "tests/data/gpu/fake_driver.c", "-lpthread", "-ldl"];
        compile("CC", "cc", &cuda, &dir.path().join("libcuda.so"))?;
        let tensorrt = [
            "-std=c++17",
            "-I",
            "crates/tensorrt/src/shim",
            "tests/data/gpu/fake_tensorrt8.cpp",
            "-ldl",
        ];
        std::thread::scope(|scope| {
            let place = dir.path().join("libnvinfer.so.8");
            scope.spawn(move || compile("CXX", "c++", &tensorrt, &place));
            compile_sources(dir.path())?;
            compile_kernels(Path::new("tests/data/gpu/emulate.cpp"), &[], dir.path(), dir.path())
        })?;
        Some(Self(dir))
    }

    /// A folder with copies of the shared ones, for a test that changes it.
    pub fn copied() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        copy(shared()?.dir(), dir.path());
        Some(Self(dir))
    }

    /// Where they are.
    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// A bench of the small model on the stand-ins, with the engines in `engines`.
    pub fn bench(&self, engines: &Path, split: &Path, out: &Path) -> assert_cmd::Command {
        let mut command = segtrt();
        command
            .env("LD_LIBRARY_PATH", self.dir())
            .env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime())
            .args(["bench", "--backend", "tensorrt", "--models", "edgetam_mini_points"])
            .args(["--save-masks", "--warmup-runs", "1", "--decode-threads", "2"]);
        command.arg("--engines").arg(engines).arg("--tensorrt-lib").arg(self.dir());
        command.arg("--split-dir").arg(split).arg("--out-dir").arg(out);
        command
    }

    /// The self-test of the engines alone in `root` against the small bundle, on the stand-ins.
    pub fn selftest(&self, root: &Path) -> assert_cmd::Command {
        let mut command = segtrt();
        command.env("LD_LIBRARY_PATH", self.dir()).args([
            "selftest",
            "--no-kernels",
            "--runs",
            "2",
            "--warmup",
            "1",
        ]);
        command.arg("--engines").arg(root).arg("--tensorrt-lib").arg(self.dir());
        command
    }
}

/// A folder with the stand-in for nvJPEG, compiled once; none, said aloud, where there is no compiler.
pub fn nvjpeg() -> Option<&'static Path> {
    static MADE: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let sources = ["tests/data/gpu/fake_nvjpeg.c", "-ldl"];
        compile("CC", "cc", &sources, &dir.path().join("libnvjpeg.so.12")).map(|()| dir)
    });
    made.as_ref().map(tempfile::TempDir::path)
}

/// A folder with the stand-in for cuBLASLt, compiled once; none, said aloud, where there is no compiler.
pub fn cublaslt() -> Option<&'static Path> {
    static MADE: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let sources =
            ["-std=c++17", "-O3", "-ffp-contract=off", "tests/data/gpu/fake_cublaslt.cpp", "-ldl"];
        compile("CXX", "c++", &sources, &dir.path().join("libcublasLt.so.13")).map(|()| dir)
    });
    made.as_ref().map(tempfile::TempDir::path)
}

/// The three, compiled once for all tests that only use them.
pub fn shared() -> Option<&'static Fakes> {
    static FAKES: OnceLock<Option<Fakes>> = OnceLock::new();
    FAKES.get_or_init(Fakes::new).as_ref()
}

/// The kernels whose shipped sources run as a fibre a thread, each in an object.
const SOURCES: [&str; 3] = ["sources", "sources_attention", "sources_gemm"];

/// Compiles these for [`compile_kernels`], side by side; none, said aloud, where there is no compiler.
fn compile_sources(dir: &Path) -> Option<()> {
    let sections = dir.join("sections");
    let split = Command::new("sh").arg("tests/emulate/sections.sh").arg(&sections).output().ok()?;
    assert!(split.status.success(), "{}", String::from_utf8_lossy(&split.stderr));
    let object = |name: &str| {
        let source = format!("tests/data/gpu/{name}.cpp");
        let flags = [&KERNELS[..], &["-c", "-w", "-I", sections.to_str().unwrap(), &source]];
        compile("CXX", "c++", &flags.concat(), &dir.join(format!("{name}.o")))
    };
    std::thread::scope(|scope| {
        let objects = SOURCES.map(|name| scope.spawn(move || object(name)));
        objects.into_iter().all(|object| object.join().unwrap().is_some()).then_some(())
    })
}

/// Contracted products would round differently than the kernels do.
const KERNELS: [&str; 3] = ["-std=c++17", "-O2", "-ffp-contract=off"];

/// Compiles the emulation of the kernels into `dir`, with the objects that `compiled` has; none,
/// said aloud, where there is no compiler.
pub fn compile_kernels(source: &Path, more: &[&str], compiled: &Path, dir: &Path) -> Option<()> {
    let objects = SOURCES.map(|name| compiled.join(format!("{name}.o")));
    let mut arguments = [&KERNELS[..], &[source.to_str().unwrap()]].concat();
    arguments.extend(objects.iter().map(|object| object.to_str().unwrap()));
    arguments.extend(more);
    compile("CXX", "c++", &arguments, &dir.join("libkernels.so"))
}

/// Compiles a shared library; none, said aloud, where there is no compiler.
pub fn compile(variable: &str, usual: &str, arguments: &[&str], to: &Path) -> Option<()> {
    let compiler = std::env::var(variable).unwrap_or_else(|_| usual.into());
    let built = Command::new(compiler)
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(to)
        .args(arguments)
        .output();
    let Ok(built) = built else {
        eprintln!("SKIPPED: no compiler {usual}");
        return None;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(())
}

/// Tensors that stay fp32 in engines of fp16, as the exporter has them.
const FLOATS: [&str; 10] =
    ["low", "iou", "ious", "score", "coords", "multi", "mask", "binar", "bias", "ptr_t"];

/// Engine folders of a bundle below a root.
pub struct Engines {
    root: PathBuf,
    bundle: PathBuf,
    manifest: Manifest,
    features: Vec<Tensor>,
}

impl Engines {
    /// Of any bundle, for [`Engines::write_live`] alone.
    pub fn of(root: &Path, bundle: &Path) -> Self {
        let manifest = Bundle::open(bundle).unwrap().manifest;
        let (root, bundle) = (root.to_owned(), bundle.to_owned());
        Self { root, bundle, manifest, features: Vec::new() }
    }

    /// Of the small bundle. Runs the encoder once: the other graphs take its features.
    pub fn new(root: &Path) -> Self {
        let mut manifest = Bundle::open(&small_bundle()).unwrap().manifest;
        // Not the bundle's: its sums over masked slots could differ from the CPU's in a last digit.
        manifest.graphs.retain(|graph| graph.role != Role::TrackPadded);
        manifest.graphs.push(padded_track(&manifest));
        let (root, bundle) = (root.to_owned(), small_bundle());
        let mut engines = Self { root, bundle, manifest, features: Vec::new() };
        let plan = engines.record(Role::Encoder, Path::new(""));
        let case = cases(&engines.manifest, &plan).unwrap().remove(0);
        engines.features = engines.run(Role::Encoder, &engines.inputs(&case));
        engines
    }

    fn inputs(&self, case: &Case) -> Vec<Tensor> {
        let contract = &self.manifest.contract;
        Inputs { contract, imgsz: 256, seed: SEED, features: &self.features }.make(case).unwrap()
    }

    fn run(&self, role: Role, inputs: &[Tensor]) -> Vec<Tensor> {
        let path = self.bundle.join(&self.manifest.graph(role).unwrap().file);
        let mut session = load(onnxruntime(), &path, 1).unwrap();
        match role {
            Role::TrackPadded => run_graph(&mut session, &self.filled_slots(inputs)).unwrap(),
            _ => run_graph(&mut session, inputs).unwrap(),
        }
    }

    /// One object's bank without the slots that `bias` masks.
    fn filled_slots(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        let contract = &self.manifest.contract;
        let bias = inputs.iter().find(|tensor| tensor.name == "bias").unwrap().reals().unwrap();
        let (memory, pointer) = bias.split_at(contract.max_memories * contract.memory_tokens);
        let filled = |keys: &[f32], slots: usize| {
            keys.iter().filter(|key| **key == 0.0).count() * slots / keys.len()
        };
        let memories = filled(memory, contract.max_memories);
        let pointers = filled(pointer, contract.max_pointers);
        let mut inputs = inputs.to_vec();
        for (name, axis, slots) in
            [("mem", 1, memories), ("tidx", 0, memories), ("ptrs", 1, pointers)]
        {
            let tensor = inputs.iter_mut().find(|tensor| tensor.name == name).unwrap();
            let kept = slots * tensor.shape[axis + 1..].iter().product::<i64>() as usize;
            tensor.shape[axis] = slots as i64;
            match &mut tensor.values {
                Values::Real(values) => values.truncate(kept),
                Values::Whole(values) => values.truncate(kept),
            }
        }
        inputs
    }

    /// A folder that has no plans yet.
    fn empty(&self, precision: Precision) -> (PathBuf, EngineManifest) {
        let imgsz = self.manifest.model.imgsz;
        let dir = engine_dir(&self.root, "h200", "edgetam_mini", imgsz, precision);
        std::fs::create_dir_all(&dir).unwrap();
        let engines = EngineManifest {
            format: manifest::FORMAT,
            platform: "h200".to_owned(),
            precision,
            bundle: self.manifest.clone(),
            plans: Vec::new(),
            products: None,
            attention_kernels: false,
            sources: manifest::Sources::default(),
            dir: None,
        };
        (dir, engines)
    }

    /// Writes a folder with these plans; each behaves as the stand-in for TensorRT knows the word.
    /// Floating-point tensors of `fp16` folders are halves.
    pub fn write(&self, precision: Precision, plans: &[(Role, &str)]) -> PathBuf {
        let (dir, mut engines) = self.empty(precision);
        let float = if precision == Precision::Fp16 { DataType::Half } else { DataType::Float };
        for (role, behave) in plans {
            let path = dir.join(format!("{}.plan", role.name()));
            std::fs::write(&path, self.plan(*role, behave, float, &dir)).unwrap();
            engines.set(self.record(*role, &path));
        }
        engines.write(&dir).unwrap();
        dir
    }

    /// The plan's text, with the recorded values of each case beside it.
    fn plan(&self, role: Role, behave: &str, float: DataType, dir: &Path) -> String {
        let record = self.record(role, Path::new(""));
        let cases = cases(&self.manifest, &record).unwrap();
        let profiles = cases.last().unwrap().profile + 1;
        let graph = self.manifest.graph(role).unwrap();
        let mut text = format!("memory 4096\nprofiles {}\nbehave {behave}\n", profiles);
        let mut shapes = String::new();
        for (at, case) in cases.iter().enumerate() {
            let before = cases[..at].iter().filter(|other| other.profile == case.profile).count();
            let mut inputs = self.inputs(case);
            inputs.iter_mut().for_each(|input| input.round_to(float));
            let outputs = self.run(role, &inputs);
            for tensor in inputs.iter().chain(&outputs) {
                let dtype = dtype(tensor, float);
                let file = format!("{}.{}.{}.{before}", role.name(), tensor.name, case.profile);
                let file = dir.join(file);
                std::fs::write(file, tensor.bytes(dtype).unwrap()).unwrap();
                writeln!(shapes, "shape {} {} {}", case.profile, tensor.name, words(&tensor.shape))
                    .unwrap();
            }
            if at > 0 {
                continue;
            }
            let declared = graph.inputs.iter().map(|t| ("in", t));
            for (way, declared) in declared.chain(graph.outputs.iter().map(|t| ("out", t))) {
                let mut made = inputs.iter().chain(&outputs);
                let made = made.find(|tensor| tensor.name == declared.name).unwrap();
                let open = |axis: &Axis| match axis {
                    Axis::Fixed(extent) => *extent as i64,
                    Axis::Symbol(_) => -1,
                };
                let dims: Vec<i64> = declared.shape.iter().map(open).collect();
                let number = match dtype(made, float) {
                    DataType::Int32 => 3,
                    DataType::Half => 1,
                    _ => 0,
                };
                let file = dir.join(format!("{}.{}", role.name(), declared.name));
                writeln!(text, "{way} {} {number} {} {}", made.name, file.display(), words(&dims))
                    .unwrap();
            }
        }
        text + &shapes
    }

    fn record(&self, role: Role, file: &Path) -> PlanRecord {
        let graph = self.manifest.graph(role).unwrap();
        let hash = sha256_of_file(file).ok();
        PlanRecord {
            role,
            file: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            sha256: hash.as_ref().map_or_else(String::new, |hash| hash.sha256.clone()),
            bytes: hash.map_or(0, |hash| hash.bytes),
            onnx_sha256: graph.sha256.clone(),
            made_by: Builder {
                tensorrt: "TensorRT 8.6.1".to_owned(),
                sm: vec![90],
                device: Some("NVIDIA H200".to_owned()),
                driver_cuda: Some("13.0".to_owned()),
                segtrt: env!("CARGO_PKG_VERSION").to_owned(),
            },
            settings: Settings {
                precision: Precision::Fp32,
                strongly_typed: false,
                fp32_pins: Fp32Pins::None,
                fp32_layers: Vec::new(),
                graphs: "fp32".to_owned(),
                opt_level: None,
                timing_runs: None,
                workspace_bytes: 1 << 28,
                tactic_bytes: None,
                memory_bytes: None,
                library_tactics: false,
                ampere_plus: false,
                targets: Vec::new(),
                profiles: profiles(graph, &self.manifest.contract, 1, 2),
            },
            build: BuildCost::default(),
            layers: None,
        }
    }
}

/// The graph of `--padded-track`; its file is the exact one's, which gives its values.
fn padded_track(manifest: &Manifest) -> Graph {
    let contract = &manifest.contract;
    let mut graph = manifest.graph(Role::Track).unwrap().clone();
    graph.role = Role::TrackPadded;
    let fixed = [("F", contract.max_memories), ("N", contract.max_pointers)];
    for axis in graph.inputs.iter_mut().flat_map(|input| &mut input.shape) {
        let size = fixed.iter().find(|(name, _)| *axis == Axis::Symbol((*name).to_owned()));
        if let Some((_, size)) = size {
            *axis = Axis::Fixed(*size);
        }
    }
    let split = contract.pointer_channels / contract.memory_channels;
    let keys = contract.max_memories * contract.memory_tokens + contract.max_pointers * split;
    let shape = [1, 1, 1, keys].map(Axis::Fixed).to_vec();
    let bias = DeclaredTensor { name: "bias".to_owned(), dtype: DType::F32, shape };
    graph.inputs.push(bias);
    graph
}

fn dtype(tensor: &Tensor, float: DataType) -> DataType {
    match tensor.values {
        Values::Real(_) => float,
        Values::Whole(_) => DataType::Int32,
    }
}

/// An extent; -1 for a symbol that is not known.
fn extent(axis: &Axis, known: &[(String, i64)]) -> i64 {
    match axis {
        Axis::Fixed(extent) => *extent as i64,
        Axis::Symbol(symbol) => {
            known.iter().find(|(name, _)| name == symbol).map_or(-1, |(_, extent)| *extent)
        }
    }
}

fn words(shape: &[i64]) -> String {
    shape.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}
