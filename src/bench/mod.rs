/*!
The benchmark: one worker process for each model, one row for each object, files that survive a
crash.

[`plan`] is the list of work, [`supervise`] starts the workers and keeps the results,
[`worker`] loads one model and measures object after object.
*/

mod clip_run;
mod gpu_runner;
mod mask_file;
mod object_error;
mod object_run;
mod overlay_file;
pub mod plan;
pub mod progress;
mod runner;
mod scoring;
pub mod supervise;
mod teacher;
pub mod teacher_check;
pub mod watch;
pub mod work;
pub mod worker;
