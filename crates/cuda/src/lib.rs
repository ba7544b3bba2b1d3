/*!
The CUDA driver, cuBLASLt and nvJPEG: device, streams, events, buffers, graphs, kernels' launches.

```text
Gpu ─→ Stream ─→ Event
   ├─→ View, DriverMemory ─→ Pool (the count)
   ├─→ Pinned (host memory)     CapturedGraph = work and its CUDA graph
   ├─→ Module ─→ Function (a kernel)
   ├─→ cublaslt (matmuls with bias)
   └─→ nvjpeg (JPEG files to pixels on the device)
```

The driver is opened at run time, so the program starts on machines without one and says what is
missing. It uses the device's primary context, as does TensorRT on the CUDA runtime, so addresses
and streams are valid in both. A launch is unsafe: the crate `kernels` knows which memory each
kernel touches.
*/
// The program's messages escape control characters; the standard library's macros do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![allow(unsafe_code)]

mod branch;
mod buffer;
mod captured_graph;
mod cleared_memory;
mod constants;
pub mod cublaslt;
mod device;
mod driver;
mod element;
mod error;
pub mod graph;
mod graph_nodes;
mod host_block;
pub mod image;
mod launches;
mod mapped_file;
mod memory;
pub mod module;
pub mod nvjpeg;
mod owned;
mod pinned;
mod pool;
mod recording;
mod stream;
pub mod tensor_map;
mod view;

pub use branch::Branch;
pub use captured_graph::{Capturable, CapturedGraph, GraphStats};
pub use constants::ContentHash;
pub use device::{Facts, Gpu};
pub use dynlib::{Missed, Searched};
pub use element::Element;
pub use error::{GpuError, Result};
pub use launches::Launches;
pub use mapped_file::MappedFile;
pub use memory::DriverMemory;
pub use module::LaunchMode;
pub use pinned::Pinned;
pub use pool::{MemoryTag, Pool, PoolUse};
pub use stream::{Event, Stream, Wait};
pub use view::View;
