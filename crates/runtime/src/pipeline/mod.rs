/*!
Clips on a GPU: from JPEG files to masks in host memory, on engines, without a copy or a wait that
is not needed.

```text
files ─ threads ─→ frame buffers ─ upload stream ─→ frame ─ preprocess ─→ encoder ─→ features    encode stream
                                                                       ┌────────────────┘
                       bank inputs ─→ track or prompt engine ─→ mask kernel ─→ memory encoder    object's stream
                                                                       └─→ scores and mask words download stream
```

A deep encoder may be in parts that run one after the other, or be a stem and a neck around a trunk
of CUDA kernels. All frames share the memory between the parts.

[`Pipeline`] owns everything that stays: engines, contexts, streams, memory. [`run`] feeds one pass
over a clip through it. In `latency` mode one frame is in flight and everything but the download
shares one stream. In `throughput` mode frames overlap, events order them, and the host only feeds
and collects. Work that is the same for each frame (all engines, the bank's kernels) is captured as
CUDA graphs on first use, and replayed.

In `offline` mode a process has several pipelines, a thread and a clip each, in one context of the
device. Each has one frame in flight; the frames of the others fill the device meanwhile.

With [`JpegDecoder::Nvjpeg`] the frame buffers hold coefficients, which the upload turns into pixels
on the device.

docs/explanation/how-we-measure.md defines the timed region of a frame: from pixels in host memory
to the mask in host memory, memory written. In latency mode the host waits in it once for each
object, and allocates nothing. Runs that exchange logits (`--save-logits`, `--teacher`) have two
more copies in it and are no measurement.
*/

mod bound;
mod clip_setup;
mod contexts;
mod decode_ahead;
mod encoder;
mod engines;
mod error;
mod exchange;
mod features;
mod frame_buffer;
mod in_flight;
mod loaded_engine;
mod options;
mod part_weights;
mod pass_plan;
#[expect(clippy::module_inception, reason = "it holds the type of this name")]
mod pipeline;
mod prepared;
mod prompt_input;
mod run;
mod segmented_layers;
mod segmented_track;
mod standalone_encoder;
mod step_engines;
mod tracked_object;
mod trunk_file;

pub use engines::{Engines, encoder_roles};
pub use error::PassError;
pub use options::{JpegDecoder, Options};
pub use pass_plan::{FrameResult, ObjectSpan, PassPlan};
pub use pipeline::Pipeline;
pub use run::run;
pub use standalone_encoder::StandaloneEncoder;
pub use tracked_object::Results;
pub use vos::record::Mode;
