/*!
The door to the CUDA driver: device, streams, events, buffers, graphs, and an engine laid out in device memory.

```text
Gpu ─→ Stream ─→ Event          Execution = a Stage with its own Views and Stream: for single runs
   ├─→ View, DriverMemory ─→ Pool (the count)
   │                            Stage = engine context + bound Views + shared scratch: for pipelines
   ├─→ Pinned (host memory)     Recorded = work, and the CUDA graph that it became
   ├─→ Module ─→ Function (a kernel)
   ├─→ cublaslt (products of tokens with weights)
   └─→ nvjpeg (JPEG files to pixels on the device)
```

The driver is opened at run time, so the program starts, and says what is missing, on machines without one. The
device's primary context is used: TensorRT, which lives on the CUDA runtime, uses the same, and addresses and streams
can be handed over. Everything outside this module is safe; launches of kernels stay in `kernels`, where it is known
what each of them touches.
*/
#![allow(unsafe_code)]

mod buffer;
mod cleared;
pub mod cublaslt;
mod device;
mod driver;
mod element;
mod error;
pub mod find;
pub mod graph;
mod memory;
pub mod module;
pub mod nvjpeg;
mod pinned;
mod pool;
mod recorded;
mod stream;
pub mod tensor_map;
mod view;

pub use device::{Facts, Gpu};
pub use element::Element;
pub use error::{GpuError, Result};
pub use memory::DriverMemory;
pub use module::Begin;
pub use pinned::Pinned;
pub use pool::{Pool, PoolUse, Purpose};
pub use recorded::{Recorded, Replay, Work};
pub use stream::{Event, Stream, Wait};
pub use view::View;
