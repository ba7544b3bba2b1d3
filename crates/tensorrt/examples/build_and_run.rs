/*!
Builds a plan from a small ONNX file with the installed TensorRT, and runs it on the GPU.

    cargo run -p tensorrt-dl --example build_and_run [DIRECTORY OF TENSORRT]

The network is `y = relu(x + b)` for eight numbers; its ONNX file is written byte by byte below. The
example skips, and says so, without TensorRT. Without a GPU only TensorRT for RTX builds, and
nothing runs.
*/

#![allow(unsafe_code)]

use std::error::Error;
use std::ffi::c_void;
use std::path::Path;

use cudarc::driver::{CudaContext, DevicePtr, DevicePtrMut};
use tensorrt::{Builder, Error as TensorRtError, Library, Plan, Runtime, Typing};

const X: [f32; 8] = [-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0];
const B: [f32; 8] = [0.5; 8];
/// Compute capability to build for without a GPU: 8.6.
const WITHOUT_A_GPU: i32 = 86;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1);
    let library = match Library::open(directory.as_deref().map(Path::new)) {
        Ok(library) => library,
        Err(error @ TensorRtError::NotFound(_)) => {
            println!("SKIPPED: {error}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    println!("{} at {}", library.version(), library.path().display());

    // SAFETY: only asks the loader for the driver's library, whose initialisers may run at any
    // time.
    let has_driver = unsafe { cudarc::driver::sys::is_culib_present() };
    let gpus = if has_driver { CudaContext::device_count().unwrap_or(0) } else { 0 };
    if gpus == 0 && !library.version().rtx {
        println!("SKIPPED: no GPU, and {} builds only with one", library.version());
        return Ok(());
    }
    // The primary context, which TensorRT uses too; it must be current on this thread.
    let context = if gpus > 0 { Some(CudaContext::new(0)?) } else { None };

    let plan = build(&library, context.is_some())?;
    println!("a plan of {} bytes", plan.bytes().len());
    match context {
        Some(context) => run(&library, &plan, &context),
        None => {
            println!("SKIPPED: no GPU to run it");
            Ok(())
        }
    }
}

fn build(library: &Library, on_this_gpu: bool) -> Result<Plan, Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("tensorrt-dl-{}.onnx", std::process::id()));
    std::fs::write(&file, onnx())?;
    let builder = Builder::new(library)?;
    // TensorRT 8 chooses precisions itself; later releases keep those of the file.
    let typing = if library.version().major == 8 { Typing::Weak } else { Typing::Strong };
    let mut network = builder.network(typing)?;
    let parsed = network.parse_onnx(&file);
    std::fs::remove_file(&file)?;
    parsed?;
    for tensor in network.inputs().iter().chain(&network.outputs()) {
        println!("{}: {:?} {:?}", tensor.name, tensor.dtype, tensor.shape);
    }
    let mut config = builder.config()?;
    if !on_this_gpu {
        config.set_targets(&[WITHOUT_A_GPU])?;
    }
    Ok(builder.build(&mut network, &mut config, "the example")?)
}

fn run(
    library: &Library,
    plan: &Plan,
    context: &std::sync::Arc<CudaContext>,
) -> Result<(), Box<dyn Error>> {
    let engine = Runtime::new(library)?.deserialize(plan.bytes(), "the example")?;
    let mut execution = engine.context()?;
    let stream = context.default_stream();
    let x = stream.clone_htod(&X)?;
    let mut y = stream.alloc_zeros::<f32>(X.len())?;
    {
        let ((x, _x), (y, _y)) = (x.device_ptr(&stream), y.device_ptr_mut(&stream));
        // SAFETY: both are device memory of 8 floats, the tensors' size, 256-byte aligned as the
        // driver allocates, and live until the stream is synchronised below.
        unsafe {
            execution.set_address("x", x as *mut c_void)?;
            execution.set_address("y", y as *mut c_void)?;
            execution.enqueue(stream.cu_stream().cast())?;
        }
        stream.synchronize()?;
    }
    let y = stream.clone_dtoh(&y)?;
    let expected: Vec<f32> = X.iter().zip(B).map(|(x, b)| (x + b).max(0.0)).collect();
    println!("y = {y:?}");
    if y != expected {
        return Err(format!("{expected:?} expected").into());
    }
    Ok(())
}

/// The network as an ONNX file: protobuf messages, of which each field is a tag and a value.
fn onnx() -> Vec<u8> {
    const FLOAT: u8 = 1;
    // Messages here are shorter than 128 bytes, so each length is one byte.
    let bytes = |field: u8, value: &[u8]| [&[field << 3 | 2, value.len() as u8], value].concat();
    let number = |field: u8, value: u8| vec![field << 3, value];
    let node = |operator: &str, inputs: [&str; 2], output: &str| {
        let inputs = inputs.into_iter().filter(|input| !input.is_empty());
        let mut node: Vec<u8> = inputs.flat_map(|input| bytes(1, input.as_bytes())).collect();
        node.extend([bytes(2, output.as_bytes()), bytes(4, operator.as_bytes())].concat());
        bytes(1, &node)
    };
    let value = |field: u8, name: &str| {
        let shape = bytes(1, &number(1, X.len() as u8));
        let tensor = [number(1, FLOAT), bytes(2, &shape)].concat();
        bytes(field, &[bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat())
    };
    let weights: Vec<u8> = B.iter().flat_map(|b| b.to_le_bytes()).collect();
    let b = [number(1, B.len() as u8), number(2, FLOAT), bytes(8, b"b"), bytes(9, &weights)];
    let graph = [
        node("Add", ["x", "b"], "sum"),
        node("Relu", ["sum", ""], "y"),
        bytes(2, b"example"),
        bytes(5, &b.concat()),
        value(11, "x"),
        value(12, "y"),
    ]
    .concat();
    // The graph is longer than 127 bytes: its length has two.
    let length = [graph.len() as u8 & 0x7f | 0x80, (graph.len() >> 7) as u8];
    let opset = bytes(8, &number(2, 17));
    [number(1, 8), vec![7 << 3 | 2], length.to_vec(), graph, opset].concat()
}
