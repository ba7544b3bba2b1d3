/*!
The calling convention of 8.x against a compiler's: a stand-in library with real C++ classes,
compiled here.

NVIDIA's public headers of 8.x come with no crate, and the library makes no builder without a GPU.
Its extents are 32-bit, passed and returned by value, and its error recorder and logger have layouts
of their own.
*/

use std::path::PathBuf;
use std::process::Command;

use tensorrt::{Builder, Config, DataType, Error, Family, Library, Mode, Profile, Runtime};

fn library(directory: &tempfile::TempDir) -> Option<Library> {
    let path: PathBuf = directory.path().join("libnvinfer.so.8");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let built = Command::new(compiler)
        .args(["-std=c++17", "-shared", "-fPIC", "-o"])
        .args([path.as_os_str(), "tests/fake_tensorrt8.cpp".as_ref()])
        .output();
    let Ok(built) = built else {
        eprintln!("SKIPPED: no C++ compiler");
        return None;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(Library::open(Some(directory.path())).unwrap())
}

#[test]
fn extents_of_8_travel_by_value_in_both_directions() {
    let directory = tempfile::tempdir().unwrap();
    let Some(library) = library(&directory) else { return };
    assert_eq!(library.family(), Family::Trt8);
    let runtime = Runtime::new(&library).unwrap();
    let engine = runtime.deserialize(b"plan", "fake").unwrap();
    drop(runtime);
    let tensors = engine.tensors().unwrap();
    assert_eq!((tensors[0].mode, tensors[1].mode), (Mode::Input, Mode::Output));
    assert_eq!((tensors[0].name.as_str(), tensors[1].name.as_str()), ("x", "y"));
    assert_eq!(tensors[0].shape, [-1, 64]);
    assert_eq!(tensors[0].profiles, [[1, 61], [7, 61]]);
    assert!(tensors[1].profiles.is_empty());
    assert_eq!(tensors[0].dtype, Some(DataType::Half));
    assert_eq!((tensors[0].format.as_str(), tensors[0].on_device), ("rows", true));
}

#[test]
fn a_profile_of_8_is_set_by_value_and_its_log_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let Some(library) = library(&directory) else { return };
    let builder = Builder::new(&library).unwrap();
    let mut config: Config = builder.config().unwrap();
    assert_eq!(config.add_profile(&Profile::exact([("x", vec![7, 64])])).unwrap(), 0);
    let error = config.add_profile(&Profile::exact([("x", vec![0, 64])])).unwrap_err();
    let chain = format!("{:#}", anyhow::Error::from(error));
    let expected =
        "TensorRT 8.6.1 could not fix input 'x' to [0, 64]: [warning] x 0: 2 extents, 0 64";
    assert_eq!(chain, expected);
    // What 8.x does not have is refused before anything is called.
    let error = config.set_targets(&[86]).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    let error = builder.network(tensorrt::Typing::Strong).err().unwrap().to_string();
    assert_eq!(error, "TensorRT 8.6.1 has no strongly typed networks");
}

#[test]
fn an_error_reported_to_the_recorder_of_8_is_the_cause_with_its_code() {
    let directory = tempfile::tempdir().unwrap();
    let Some(library) = library(&directory) else { return };
    let runtime = Runtime::new(&library).unwrap();
    let error = runtime.deserialize(b"junk", "fake").err().unwrap();
    assert!(error.is_out_of_memory(), "{error:?}");
    let chain = format!("{:#}", anyhow::Error::from(error));
    assert_eq!(
        chain,
        "TensorRT 8.6.1 could not read the plan of fake: [error] no memory for this plan"
    );
}
