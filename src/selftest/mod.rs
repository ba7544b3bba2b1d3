/*!
The self-test: the kernels against the CPU code that they equal ([`kernels`]), then the engines,
each run on random inputs and compared with ONNX Runtime on the same inputs, and all of them
together on a short clip ([`clip`]).

What the owner of a new board runs first. A plan that TensorRT takes can still be wrong there: a
kernel that overflows in half precision, an output that is never written, a fusion that this GPU's
tactics get wrong.

```text
folders ─→ supervise ─→ worker (a process a folder): case ─→ inputs ─┬→ engine_run (GPU) ─┬→ verdict ─→ rows
                                                                     └→ reference (CPU) ──┘
```
*/

mod bank_inputs;
pub mod case;
pub mod clip;
mod compare;
mod engine_run;
mod folders;
pub mod inputs;
mod joined;
pub mod kernels;
mod protocol;
mod record;
pub mod reference;
pub mod report;
mod same_masks;
mod steadiness;
mod supervise;
pub mod tensor;
mod verdict;
pub mod worker;

pub use compare::Difference;
pub use engine_run::Repeats;
pub use folders::{Asked, Folder, find, parts_of, reference_of};
pub use kernels::{KernelReport, KernelRow};
pub use protocol::{Opened, Settings};
pub use record::{Cost, EngineKey, EngineRow, Timing};
pub use same_masks::{Agreement, same_masks};
pub use supervise::{References, run};
pub use verdict::{Judged, Verdict};
