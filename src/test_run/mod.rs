/*!
Every step of the main job once, on a clip that is made for it and a network that is small: does
this installation work?

```text
split ─→ bundle ─→ bench on the CPU ─→ kernels ─→ engines ─→ engines' selftest ─→ bench on the GPU
                                       └────────────── where there is a GPU ──────────────┘
```

Each step is this program again, as a user would call it, in a process of its own with a log of its
own. What a step leaves is looked at, not only its exit code: the masks of the GPU are compared with
the CPU's. That the steps work is all that is tested: engines are built in haste, and no speed says
anything.
*/

mod haste;
mod result_files;
mod step;

pub use haste::{NO_SPEEDS, build_flags};
pub use result_files::measured;
pub use step::{Outcome, Result, Runner};
