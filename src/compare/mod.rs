/*!
The measuring half of a comparison: the sides run in turn, each in processes of its own, and every
run folder is kept.

[`report::compare`] judges what they left.
*/

pub mod measure;
