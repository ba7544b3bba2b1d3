/*!
Real libraries, if one is installed, and the errors if none is.

TensorRT for RTX builds ahead of time with neither GPU nor driver (pip install
tensorrt-rtx-cu13-libs), so these tests build real engines on any machine. Other releases need a GPU
to make a builder: here they must open and fail cleanly.
*/

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tensorrt::{
    BuildProgress, Builder, Config, Error, Flag, Library, Mode, Network, Pool, Profile, Runtime,
    Stop, Typing, Verbosity,
};

use super::model::{FLOAT, FLOAT16, attention_like, unknown_operator};

fn library() -> Option<Library> {
    match Library::open(None) {
        Ok(library) => Some(library),
        Err(Error::NotFound(_)) => {
            eprintln!("SKIPPED: no TensorRT; pip install tensorrt-rtx-cu13-libs");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// TensorRT for RTX, for one test at a time: 1.7.1 keeps the targets of a build for the whole
/// process, and a build for sm_75 beside one for sm_86 ends either with "Target SM 86 is not found
/// in the accelerator list".
struct Alone(Library, #[allow(dead_code)] MutexGuard<'static, ()>);

impl Deref for Alone {
    type Target = Library;

    fn deref(&self) -> &Library {
        &self.0
    }
}

fn rtx() -> Option<Alone> {
    static ONE: Mutex<()> = Mutex::new(());
    let library = library()?;
    if !library.version().rtx {
        eprintln!("SKIPPED: {} builds only with a GPU", library.version());
        return None;
    }
    Some(Alone(library, ONE.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn parsed(builder: &Builder, bytes: &[u8]) -> (Network, Result<(), Error>) {
    let file = tempfile::Builder::new().suffix(".onnx").tempfile().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let mut network = builder.network(Typing::Strong).unwrap();
    let outcome = network.parse_onnx(file.path());
    (network, outcome)
}

fn config(builder: &Builder, sm: &[i32]) -> Config {
    let mut config = builder.config().unwrap();
    config.set_targets(sm).unwrap();
    config.set_verbosity(Verbosity::Detailed).unwrap();
    for tokens in [64, 256] {
        config.add_profile(&Profile::exact([("x", vec![tokens, 64])])).unwrap();
    }
    config
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>, Option<Stop>);

impl BuildProgress for Heard {
    fn start(&self, phase: &str, parent: Option<&str>, steps: i32) {
        self.0.lock().unwrap().push(format!("{phase} in {parent:?}: {steps}"));
    }
    fn step(&self, _: &str, _: i32) {
        if let Some(stop) = &self.1 {
            stop.stop();
        }
    }
    fn finish(&self, phase: &str) {
        self.0.lock().unwrap().push(format!("{phase} done"));
    }
}

#[test]
fn a_directory_without_a_library_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = Library::open(Some(directory.path())).err().unwrap();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
    assert!(error.to_string().contains(&directory.path().display().to_string()), "{error}");
}

#[test]
fn a_file_that_is_no_library_is_named_with_the_loaders_words() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("libnvinfer.so.10");
    std::fs::write(&file, "not a library").unwrap();
    let error = Library::open(Some(directory.path())).err().unwrap().to_string();
    assert!(error.contains("libnvinfer.so.10") && error.contains("too short"), "{error}");
}

/// Libraries compiled here: an unknown major, one without entry points, a known one whose parser is
/// missing.
#[test]
fn wrong_libraries_are_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let make = |body: &str| {
        let (source, library) =
            (directory.path().join("x.c"), directory.path().join("libnvinfer.so.99"));
        std::fs::write(&source, body).unwrap();
        let _ = std::fs::remove_file(&library);
        let built = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .status();
        // Each gets its own name: the loader would give back the first one.
        let unique = directory.path().join(format!("libnvinfer_{}.so", body.len()));
        built.ok().filter(std::process::ExitStatus::success)?;
        std::fs::rename(&library, &unique).unwrap();
        Some(unique)
    };
    let Some(unknown) = make("int getInferLibVersion(void) { return 120000; }") else {
        eprintln!("SKIPPED: no C compiler");
        return;
    };
    let error = Library::open(Some(&unknown)).err().unwrap();
    assert!(matches!(error, Error::UnknownVersion { raw: 120_000, .. }), "{error}");
    assert!(error.to_string().contains("supported: TensorRT 8.5 and 8.6, 10.x, 11.x"), "{error}");

    let other = make("int something_else(void) { return 1; }").unwrap();
    let error = Library::open(Some(&other)).err().unwrap().to_string();
    assert!(error.contains("has no getInferLibVersion"), "{error}");

    let lean = make(
        "int getInferLibVersion(void) { return 100300; } void *createInferRuntime_INTERNAL(void \
         *l, int v) { return 0; }",
    );
    let library = Library::open(Some(&lean.unwrap())).unwrap();
    assert_eq!(library.version().to_string(), "TensorRT 10.3.0");
    let error = library.parser_path().unwrap_err().to_string();
    assert!(error.contains("ONNX parser") && error.contains("libnvonnxparser"), "{error}");
    let error = Builder::new(&library).err().unwrap().to_string();
    assert_eq!(error, "TensorRT 10.3.0 has no builder (it is a lean runtime)");
    let error = Runtime::new(&library).err().unwrap();
    assert!(matches!(error, Error::Failed { .. }), "{error}");
}

#[test]
fn a_real_library_opens_and_builds_or_says_why_not() {
    let Some(library) = library() else { return };
    eprintln!("{} at {}", library.version(), library.path().display());
    eprintln!("parser: {:?}", library.parser_path());
    match Builder::new(&library) {
        Ok(builder) => {
            builder.config().unwrap();
        }
        Err(error) => {
            let chain = format!("{:#}", anyhow::Error::from(error));
            eprintln!("no builder: {chain}");
            assert!(chain.contains("could not create a builder: ["), "{chain}");
        }
    }
}

#[test]
fn rtx_builds_ahead_of_time_without_a_gpu() {
    let Some(library) = rtx() else { return };
    for kind in [FLOAT, FLOAT16] {
        for sm in [vec![86], vec![89], vec![120], vec![86, 89]] {
            let builder = Builder::new(&library).unwrap();
            let (mut network, outcome) = parsed(&builder, &attention_like(kind));
            outcome.unwrap();
            let inputs = network.inputs();
            assert_eq!((inputs[0].name.as_str(), &*inputs[0].shape), ("x", &[-1_i64, 64][..]));
            assert_eq!(network.outputs()[0].name, "y");
            assert!(network.layers().iter().any(|layer| layer.kind.as_deref() == Some("SOFTMAX")));
            let plan = builder.build(&mut network, &mut config(&builder, &sm), "tiny").unwrap();
            assert!(plan.bytes().len() > 1000);
            eprintln!("sm {sm:?}: {} bytes", plan.bytes().len());
        }
    }
}

#[test]
fn caps_levels_and_flags_are_kept_or_refused() {
    let Some(library) = rtx() else { return };
    let builder = Builder::new(&library).unwrap();
    let mut config = builder.config().unwrap();
    config.set_pool(Pool::Workspace, 256 << 20).unwrap();
    assert_eq!(config.pool(Pool::Workspace), Some(256 << 20));
    config.set_pool(Pool::TacticSharedMemory, 48 << 10).unwrap();
    assert_eq!(config.pool(Pool::TacticSharedMemory), Some(48 << 10));
    config.set_optimization_level(2).unwrap();
    config.set_ampere_plus(false).unwrap();
    config.set_flag(Flag::Tf32, false).unwrap();
    assert_eq!(config.flag(Flag::Tf32), Some(false));
    if library.family().is_strongly_typed_only() {
        let error = config.set_flag(Flag::Fp16, true).unwrap_err().to_string();
        assert!(error.contains("has no way to set the builder flag Fp16"), "{error}");
        assert_eq!(config.flag(Flag::Fp16), None);
        let error = builder.network(Typing::Weak).err().unwrap().to_string();
        assert!(error.ends_with("has no weakly typed networks"), "{error}");
    }
}

#[test]
fn a_timing_cache_goes_round_or_says_why_not() {
    let Some(library) = rtx() else { return };
    let builder = Builder::new(&library).unwrap();
    let mut config = config(&builder, &[86]);
    match config.set_timing_cache(&[]).and_then(|()| config.timing_cache()) {
        Ok(bytes) => {
            eprintln!("a timing cache of {} bytes", bytes.len());
            config.set_timing_cache(&bytes).unwrap();
            config.merge_timing_cache(&bytes).unwrap();
        }
        Err(error) => eprintln!("no timing cache: {:#}", anyhow::Error::from(error)),
    }
    let damaged = config.set_timing_cache(b"not a cache");
    eprintln!(
        "damaged: {:?}",
        damaged.map_err(|error| format!("{:#}", anyhow::Error::from(error)))
    );
}

#[test]
fn rtx_refuses_a_target_that_it_does_not_have() {
    let Some(library) = rtx() else { return };
    let builder = Builder::new(&library).unwrap();
    let error = builder.config().unwrap().set_targets(&[87]).unwrap_err().to_string();
    assert!(error.contains("has no way to build for compute capabilities [87]"), "{error}");
}

#[test]
fn parser_complaints_name_node_operator_and_opset() {
    let Some(library) = rtx() else { return };
    let builder = Builder::new(&library).unwrap();
    let (_network, outcome) = parsed(&builder, &unknown_operator());
    let error = outcome.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("(opset 17): node '/odd' (Frobnicate)"), "{text}");
}

#[test]
fn a_missing_profile_fails_with_the_log_as_its_cause() {
    let Some(library) = rtx() else { return };
    let builder = Builder::new(&library).unwrap();
    let (mut network, outcome) = parsed(&builder, &attention_like(FLOAT));
    outcome.unwrap();
    let mut config = builder.config().unwrap();
    config.set_targets(&[86]).unwrap();
    let error = builder.build(&mut network, &mut config, "tiny").err().unwrap();
    let chain = format!("{:#}", anyhow::Error::from(error));
    assert!(chain.contains("could not build tiny: [") && chain.contains("profile"), "{chain}");
}

#[test]
fn progress_is_heard_and_a_stop_is_obeyed() {
    let Some(library) = rtx() else { return };
    for stopping in [false, true] {
        let builder = Builder::new(&library).unwrap();
        let (mut network, outcome) = parsed(&builder, &attention_like(FLOAT));
        outcome.unwrap();
        let mut config = config(&builder, &[86]);
        let stop = Stop::default();
        let heard = Arc::new(Heard(Mutex::default(), stopping.then(|| stop.clone())));
        assert!(config.watch(heard.clone(), stop).unwrap());
        let built = builder.build(&mut network, &mut config, "tiny");
        let lines = heard.0.lock().unwrap().clone();
        eprintln!("{lines:?}");
        assert!(!lines.is_empty());
        match built {
            Ok(_) => assert!(!stopping, "a stop was not obeyed: {lines:?}"),
            Err(Error::Cancelled { .. }) => assert!(stopping),
            Err(error) => panic!("{:#}", anyhow::Error::from(error)),
        }
    }
}

#[test]
fn a_plan_is_read_back_where_there_is_a_gpu_and_refused_cleanly_where_not() {
    let Some(library) = rtx() else { return };
    let builder = Builder::new(&library).unwrap();
    let (mut network, outcome) = parsed(&builder, &attention_like(FLOAT));
    outcome.unwrap();
    let plan = builder.build(&mut network, &mut config(&builder, &[86]), "tiny").unwrap();
    let runtime = match Runtime::new(&library) {
        Ok(runtime) => runtime,
        Err(error) => {
            let gpus = std::fs::read_dir("/proc/driver/nvidia/gpus").map_or(0, Iterator::count);
            assert_eq!(gpus, 0, "{:#}", anyhow::Error::from(error));
            eprintln!("SKIPPED: no runtime without a GPU");
            return;
        }
    };
    match runtime.deserialize(plan.bytes(), "tiny") {
        Ok(engine) => {
            let tensors = engine.tensors().unwrap();
            eprintln!("{tensors:#?}");
            assert_eq!((tensors[0].mode, tensors[1].mode), (Mode::Input, Mode::Output));
            assert_eq!(tensors[0].profiles, [[64, 64], [256, 64]]);
            eprintln!("{:?} bytes, {} layers", engine.device_memory(None), engine.layer_count());
            eprintln!("{:?}", engine.layer_information());
        }
        Err(error) => {
            let chain = format!("{:#}", anyhow::Error::from(error));
            eprintln!("no engine without a GPU: {chain}");
            assert!(chain.contains("could not read the plan of tiny: ["), "{chain}");
        }
    }
}
