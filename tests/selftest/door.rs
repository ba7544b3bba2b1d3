//! The door to the driver, on the stand-in driver: in a process of its own, which finds the stand-in first.

use std::ptr::NonNull;
use std::sync::Arc;

use cuda::{DriverMemory, Gpu, GpuError, View};

use super::fakes::shared;

/// Set for the process below, so that `--ignored` by hand does not try it on a real GPU.
const MARK: &str = "SEGTRT_TEST_FAKE_DRIVER";

#[test]
fn the_door_keeps_its_promises_on_a_strict_driver() {
    let Some(fakes) = shared() else { return };
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["selftest::door::inside", "--exact", "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", fakes.dir())
        .env("FAKE_CUDA_MEMORY", (1 << 20).to_string())
        .env(MARK, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "started by the test above"]
fn inside() {
    if std::env::var_os(MARK).is_none() {
        eprintln!("SKIPPED: the_door_keeps_its_promises_on_a_strict_driver starts this one");
        return;
    }
    let gpu = Gpu::open(0).unwrap();
    let facts = gpu.facts();
    assert_eq!((facts.name.as_str(), facts.sm, facts.unified), ("NVIDIA H200", 90, false));
    assert_eq!((facts.driver_cuda.as_str(), facts.total_bytes), ("13.0", 1 << 20));
    assert!(matches!(Gpu::open(1), Err(GpuError::NoDevice { ordinal: 1, .. })));

    buffers(&gpu);
    allocator(&gpu);
    let whole = gpu.memory_info().unwrap();
    assert_eq!(whole, (1 << 20, 1 << 20), "everything went back");
}

fn buffers(gpu: &Gpu) {
    let stream = gpu.stream().unwrap();
    let buffer = View::new(gpu, 5).unwrap();
    assert_eq!(buffer.address() as usize % 256, 0);
    buffer.fill(0xFF, &stream).unwrap();
    buffer.upload(&[1, 2], &stream).unwrap();
    assert_eq!(buffer.download(&stream).unwrap(), [1, 2, 0xFF, 0xFF, 0xFF]);
    let error = buffer.upload(&[0; 6], &stream).unwrap_err().to_string();
    assert_eq!(error, "the CUDA driver could not take bytes 0..6 of 5: the range is outside");
    let empty = View::new(gpu, 0).unwrap();
    assert!(empty.is_empty() && empty.download(&stream).unwrap().is_empty());
    empty.fill(1, &stream).unwrap();

    let error = View::new(gpu, 2 << 20).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the CUDA driver could not give 2097152 bytes of device memory: \
         CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
    );

    let (start, end) = (gpu.event().unwrap(), gpu.event().unwrap());
    assert!(end.ms_since(&start).is_err(), "an event that was never recorded has no time");
    start.record(&stream).unwrap();
    end.record(&stream).unwrap();
    assert!(end.ms_since(&start).unwrap() >= 0.0);
    // On a thread without a context the driver would refuse; buffers make theirs current.
    std::thread::spawn(move || buffer.download(&stream).unwrap()).join().unwrap();
}

fn allocator(gpu: &Gpu) {
    let memory = Arc::new(DriverMemory::new(gpu));
    let other = Arc::clone(&memory);
    let first = std::thread::spawn(move || other.allocate(1000, 512).unwrap().as_ptr() as usize);
    let first = NonNull::new(first.join().unwrap() as *mut std::ffi::c_void).unwrap();
    let second = memory.allocate(1000, 0).unwrap();
    assert!(first != second && (first.as_ptr() as usize).is_multiple_of(512));
    assert!(memory.allocate(2 << 20, 256).is_none(), "there is not so much");
    let (free, total) = gpu.memory_info().unwrap();
    assert!(total - free >= 2000);
    assert!(memory.release(first) && memory.release(second));
    assert!(!memory.release(first), "it is given back already");
    assert!(!memory.release(NonNull::dangling()), "it was never given");
}
