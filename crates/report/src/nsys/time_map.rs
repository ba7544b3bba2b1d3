/*!
Utilisation of the GPUs over time.
*/

use super::filter::{Window, merged};
use super::idle_tables::devices;
use super::table::{Cell, Column, Table, Unit, column};
use super::trace::{GpuOp, Trace};

/// Number of intervals.
const BINS: usize = 60;

const MAP: [Column; 7] = [
    column("Device ID", Unit::Count),
    column("Name", Unit::Text),
    column("Work", Unit::Text),
    column("Start", Unit::Time),
    column("Bin Width", Unit::Time),
    column("Utilisation", Unit::Percent),
    column("Bin", Unit::Shares),
];

/// `cuda_gpu_time_util_map`: of each GPU the share of 60 equal intervals in which kernels ran, and
/// in which memory was copied or filled, from the first work of any GPU to the last, or over the
/// requested window. Concurrent work counts once.
pub fn map(trace: &Trace, window: Option<Window>) -> Table {
    let first = trace.ops().iter().map(|op| op.start).min().unwrap_or(0);
    let last = trace.ops().iter().map(|op| op.end).max().unwrap_or(0);
    let start = window.and_then(|window| window.start).unwrap_or(first);
    let end = window.and_then(|window| window.end).unwrap_or(last);
    let width = (end - start) as f64 / BINS as f64;
    let mut rows = Vec::new();
    for (device, ops) in devices(trace).into_iter().filter(|_| width > 0.0) {
        let (memory, kernels): (Vec<&GpuOp>, Vec<&GpuOp>) =
            ops.into_iter().partition(|op| op.kind.is_memory());
        for (work, ops) in [("kernels", kernels), ("memory", memory)] {
            let busy = merged(ops.iter().map(|op| (op.start, op.end)).collect());
            let shares = shares(&busy, start, width);
            let mean = shares.iter().sum::<f64>() / BINS as f64;
            rows.push(vec![
                device.into(),
                trace.gpus.get(&device).map_or(Cell::Missing, |name| name.as_str().into()),
                work.into(),
                start.into(),
                width.into(),
                mean.into(),
                Cell::Bins(shares),
            ]);
        }
    }
    Table {
        name: "cuda_gpu_time_util_map",
        title: "GPU utilisation over time".into(),
        columns: MAP.to_vec(),
        keys: &[],
        measure: 5,
        count: None,
        rows,
    }
}

/// Percent of each interval that the spans cover; spans are sorted and disjoint.
fn shares(spans: &[(i64, i64)], start: i64, width: f64) -> Vec<f64> {
    let mut shares = vec![0.0; BINS];
    for &(from, to) in spans {
        let place = |time: i64| (time - start) as f64 / width;
        let (from, to) = (place(from).max(0.0), place(to).min(BINS as f64));
        let mut at = from;
        while at < to {
            let next = (at.floor() + 1.0).min(to);
            if let Some(share) = shares.get_mut(at as usize) {
                *share += 100.0 * (next - at);
            }
            at = next;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_divided_among_its_intervals() {
        let shares = shares(&[(105, 125), (130, 131), (690, 900)], 100, 10.0);
        let rounded: Vec<f64> = shares[..4].iter().map(|share| share.round()).collect();
        assert_eq!(rounded, [50.0, 100.0, 50.0, 10.0]);
        assert_eq!((shares[58], shares[59]), (0.0, 100.0));
        assert_eq!(shares.len(), 60);
    }
}
