/*!
CUDA API calls on the host: all functions, and those that wait for the GPU.
*/

use std::collections::HashMap;

use super::gpu_tables::{rows_of_times, timed};
use super::table::{Column, Table};
use super::trace::{Name, Trace};

const API: [Column; 9] = timed("Num Calls", "Name");

/// Functions that return only after the GPU has finished: of the runtime (`cuda…`) and of the
/// driver (`cu…`).
const WAITING: [&str; 4] =
    ["DeviceSynchronize", "StreamSynchronize", "EventSynchronize", "CtxSynchronize"];

/// `cuda_api_sum`.
pub fn calls(trace: &Trace) -> Table {
    Table {
        name: "cuda_api_sum",
        title: "CUDA API".into(),
        columns: API.to_vec(),
        keys: &[8],
        measure: 1,
        count: Some(2),
        rows: rows_of_times(trace, times(trace, |_| true)),
    }
}

/// `cuda_api_sync`.
pub fn waits(trace: &Trace) -> Table {
    Table {
        name: "cuda_api_sync",
        title: "Calls that wait for the GPU".into(),
        columns: API.to_vec(),
        keys: &[8],
        measure: 1,
        count: Some(2),
        rows: rows_of_times(trace, times(trace, waits_for_gpu)),
    }
}

fn times(trace: &Trace, takes: impl Fn(&str) -> bool) -> HashMap<Name, Vec<i64>> {
    let mut times: HashMap<Name, Vec<i64>> = HashMap::new();
    for call in trace.calls().iter().filter(|call| takes(trace.text(call.name))) {
        times.entry(call.name).or_default().push(call.end - call.start);
    }
    times
}

/// A function without the prefix of its API and without its suffixes; empty for other names. The
/// per-thread default stream has functions of its own, with the suffix _ptsz.
fn plain(name: &str) -> &str {
    let own = name.strip_prefix("cuda").or_else(|| name.strip_prefix("cu")).unwrap_or_default();
    own.trim_end_matches("_ptsz").trim_end_matches("_ptds").trim_end_matches("_v2")
}

/// Whether a function of the CUDA API copies memory and waits for it.
pub fn is_waiting_copy(name: &str) -> bool {
    let own = plain(name);
    own.starts_with("Memcpy") && !own.contains("Async")
}

/// Whether a function of the CUDA API fills memory and may wait for it.
pub fn is_waiting_fill(name: &str) -> bool {
    let own = plain(name);
    own.starts_with("Memset") && !own.contains("Async")
}

/// Copies without `Async` in their name wait too, except those within one device.
fn waits_for_gpu(name: &str) -> bool {
    let own = plain(name);
    let copies = own.starts_with("Memcpy") && !own.contains("Async") && !own.contains("DtoD");
    WAITING.contains(&own) || copies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_make_the_host_wait_are_counted() {
        for name in [
            "cudaStreamSynchronize",
            "cuStreamSynchronize_ptsz",
            "cuCtxSynchronize",
            "cudaEventSynchronize",
            "cudaMemcpy",
            "cuMemcpyDtoH_v2",
        ] {
            assert!(waits_for_gpu(name), "{name}");
        }
        for name in
            ["cudaMemcpyAsync", "cuMemcpyDtoD_v2", "cudaLaunchKernel", "cuStreamWaitEvent", "sync"]
        {
            assert!(!waits_for_gpu(name), "{name}");
        }
    }
}
