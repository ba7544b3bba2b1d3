/*!
`segtrt` measures how fast and how well promptable video object segmentation (SAM 2.1, EdgeTAM)
runs.

Data flows one way; only the memory bank feeds back:

```text
dataset → decode → preprocess → network (encoder → prompt | track → memory) → mask → metrics → record → files
                                             ↑____________ bank ____________|
```

This crate is the program: its commands and the workflows that they start. What they use lies in the
crates below it: `host` and `dynlib`, `tensorrt` and `cuda`, `vos` (data, masks, metrics and the
tracker on the CPU), `kernels`, `runtime` (engines and pipelines) and `report`.
*/
#![forbid(unsafe_code)]

// Messages that a terminal can show.
#[macro_use]
extern crate host;

pub mod bench;
pub mod collect;
pub mod commands;
pub mod compare;
pub mod doctor;
pub mod download;
pub mod environment;
pub mod estimate;
pub mod experiment;
pub mod fetch;
pub mod inspect;
pub mod masks;
pub mod monitor;
pub mod pack;
pub mod profile;
pub mod selftest;
pub mod setup;
pub mod shard;
pub mod slurm;
pub mod submit;
pub mod suite;
pub mod test_run;
pub mod track;
pub mod two_phase;
