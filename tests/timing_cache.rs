/*!
A timing cache that TensorRT does not merge, on a stand-in for TensorRT 8.6.
*/

use runtime::engine::timing_files::{Stack, Start, TimingFiles};
use tensorrt::{Builder, Config};

/// What 8.6.0 says on an H200 of any cache with parts of Myelin's.
#[test]
fn a_build_whose_timing_cache_8_does_not_merge_keeps_it_in_a_file_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let stand_in = directory.path().join("libnvinfer.so.8");
    let flags = ["-std=c++17", "-shared", "-fPIC", "crates/tensorrt/tests/fake_tensorrt8.cpp"];
    if crate::selftest::fakes::compile("CXX", "c++", &flags, &stand_in).is_none() {
        return;
    }
    let library = runtime::tensorrt_library::open(Some(directory.path())).unwrap();
    let builder = Builder::new(&library).unwrap();
    let mut config: Config = builder.config().unwrap();
    let driver = "driver 580.95.05 with CUDA 13.0";
    let stack = Stack { tensorrt: "TensorRT 8.6.1", device: "H200", driver };
    let files = TimingFiles::new(&directory.path().join("8.timing"), "edgetam_1024_fp16", "track");
    let begun = files.start(stack, |bytes| Ok(config.set_timing_cache(bytes)?));
    assert_eq!(begun, Start { keeps: true, ..Start::default() });
    let timed = config.timing_cache().unwrap();
    assert_eq!(timed, b"timed");
    // Meanwhile another build was done.
    assert_eq!(files.keep(stack, None, b"other", |_| unreachable!()).unwrap(), None);
    let note = files.keep(stack, None, &timed, |others| {
        config.merge_timing_cache(others)?;
        unreachable!("the stand-in merges nothing")
    });
    let note = note.unwrap().unwrap();
    for part in [
        "8.timing.d/edgetam_1024_fp16_track.timing, where the next build of this graph looks first",
        "TensorRT 8.6.1 could not merge the timing cache: [error] [myelinCache.h::deserializeFromBuffer::52]",
    ] {
        assert!(note.contains(part), "{note}");
    }
    let again = files.start(stack, |bytes| Ok(config.set_timing_cache(bytes)?));
    assert_eq!(again.cache.as_deref(), Some(&b"timed"[..]));
}
