/*!
Clips on a GPU: from JPEG files to masks in host memory, on engines, without a copy or a wait that is not needed.

```text
files ─ threads ─→ pinned slots ─ upload stream ─→ frame ─ preprocess ─→ encoder ─→ features      encode stream
                                                                     ┌────────────────┘
                     bank inputs ─→ track or prompt engine ─→ mask kernel ─→ memory engine        object's stream
                                                                     └─→ scores and mask words    download stream
```

A deep encoder may come in parts, which run one behind the other; what they hand on lies in memory that all frames use in turn.
Or in two, between which the crate `kernels` computes all blocks (`trunk_file.rs`).

[`Pipeline`] owns everything that stays: engines, contexts, streams, memory. [`run`] feeds one pass over a clip through
it. In `latency` mode one frame is in flight and everything but the download shares one stream; in `throughput` mode
frames overlap, events order them, and the host only feeds and collects. What is the same for each frame (all engines, the
bank's kernels) is recorded as CUDA graphs on first use, and replayed.

With [`Decoder::Nvjpeg`] the slots hold coefficients, and the upload makes pixels of them on the device.

The timed region of a frame is docs/measuring.md's: from pixels in host memory to the mask in host memory and the memory
written. Runs that exchange logits (`--save-logits`, `--teacher`) have two copies more in it and are no measurement. Within it the host waits once and allocates nothing.
*/

mod contexts;
mod decode_ahead;
mod encoder;
mod encoder_alone;
mod engines;
mod exchange;
mod features;
mod flight;
mod lane;
mod options;
mod part_weights;
mod prompt_input;
mod rig;
mod run;
mod segmented_track;
mod slot;
mod step_engines;
mod steps;
mod trunk_file;

pub use encoder_alone::EncoderAlone;
pub use engines::{Engines, encoder_roles};
pub use lane::Results;
pub use options::{Decoder, Options};
pub use rig::Pipeline;
pub use run::{FrameResult, ObjectSpan, PassError, PassPlan, run};
pub use vos::record::Mode;
