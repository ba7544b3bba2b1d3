/*!
JPEG files to pixels in device memory with NVIDIA's nvJPEG, in two phases.

```text
Library ─→ Decoder (a GPU) ─→ Coefficients: file ─ decode_host, any thread ─→ pinned memory ─ decode_device, a stream ─→ pixels
```

Host threads decode the entropy code ahead of a frame. The rest (inverse transform, upsampling,
colours) is enqueued on a stream, and the host does not wait. This is nvJPEG's hybrid backend under
its decoupled interface. Its other backends do not fit into a pipeline. The GPU's JPEG engine wrote
its pixels before earlier work of the stream had run (pytorch/vision pull request 9606), unless the
host waited. Entropy decoding on the GPU takes time from the kernels that run at the same time.

The pixels differ from Pillow's: nvJPEG rounds and upsamples differently.
*/

mod decoder;
mod error;
mod library;
mod memory;
mod sys;

pub use decoder::{Coefficients, Decoder};
pub use error::NvJpegError;
pub use library::{Library, VARIABLE, open};
