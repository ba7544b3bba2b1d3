/*!
The benchmark: one worker process for each model, one row for each object, files that survive a
crash.

[`plan`] is the list of work, [`supervise`] starts the workers and keeps the results,
[`worker`] loads one model and measures object after object.
*/

pub(crate) mod clip_run;
mod encode_stage;
pub(crate) mod gpu_runner;
pub(crate) mod lanes;
pub(crate) mod load;
mod mask_file;
mod memory_watch;
pub(crate) mod messages;
pub(crate) mod object_error;
mod object_files;
mod object_rows;
mod object_run;
mod overlay_file;
pub mod plan;
pub mod progress;
pub(crate) mod runner;
mod scoring;
mod stereo;
pub mod supervise;
mod teacher;
pub mod teacher_check;
pub mod watch;
pub mod work;
pub mod worker;
