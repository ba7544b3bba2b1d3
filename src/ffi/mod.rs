/*!
Foreign interfaces that no crate wraps safely; beside `trt` and `gpu` the only place for `unsafe`.
*/

pub mod libjpeg;
pub mod nvtx;
