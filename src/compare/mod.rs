/*!
The measurements of a comparison: the sides run in turn in separate processes, and every run folder
is kept.

[`report::compare`] judges the run folders.
*/

pub mod measure;
