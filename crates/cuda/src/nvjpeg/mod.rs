/*!
JPEG files to pixels in device memory with NVIDIA's nvJPEG, in two halves.

```text
Library ─→ Decoder (a GPU) ─→ Coefficients: file ─ decode_host, any thread ─→ pinned memory ─ decode_device, a stream ─→ pixels
```

The entropy code is decoded on the host, where threads have time for it ahead of a frame; what follows it (inverse
transform, upsampling, colours) is enqueued on a stream like any other work of a frame, and the host waits for nothing. That
is nvJPEG's hybrid backend under its decoupled interface. Its other backends do not fit into a pipeline: the GPU's own JPEG
engine was seen to write its pixels before earlier work of the stream has run (pytorch/vision pull request 9606), which only a
wait of the host mends, and decoding the entropy code on the GPU takes the time of the kernels beside it.

The pixels are not Pillow's: nvJPEG rounds and upsamples in its own way.
*/

mod decoder;
mod error;
mod library;
mod memory;
mod sys;

pub use decoder::{Coefficients, Decoder};
pub use error::NvJpegError;
pub use library::{Library, VARIABLE, open};
