/*!
Each kernel by itself: the distribution of its durations, and of the intervals between its starts.
*/

use std::collections::HashMap;

use super::spread::Spread;
use super::table::{Cell, Column, Table, Unit, column};
use super::trace::{GpuOp, Name, OpKind, Trace};

/// Number of intervals of a histogram.
const BINS: usize = 20;

const HISTOGRAM: [Column; 7] = [
    column("Instances", Unit::Count),
    column("Min", Unit::Time),
    column("Med", Unit::Time),
    column("Max", Unit::Time),
    column("Bin Width", Unit::Time),
    column("Bin", Unit::Counts),
    column("Name", Unit::Text),
];

const PACE: [Column; 10] = [
    column("Intervals", Unit::Count),
    column("Avg", Unit::Time),
    column("Med", Unit::Time),
    column("Min", Unit::Time),
    column("Max", Unit::Time),
    column("StdDev", Unit::Time),
    column("Longest At", Unit::Time),
    column("Bin Width", Unit::Time),
    column("Bin", Unit::Counts),
    column("Name", Unit::Text),
];

/// `cuda_gpu_kern_hist`: of each kernel the number of instances in 20 equal intervals from its
/// shortest to its longest duration, the kernel with the largest total first.
pub fn histogram(trace: &Trace) -> Table {
    let rows = kernels(trace).into_iter().filter_map(|(name, ops)| {
        let times: Vec<i64> = ops.iter().map(|op| op.end - op.start).collect();
        let spread = Spread::of(&times)?;
        let (width, counts) = bins(&times, &spread);
        Some(vec![
            spread.count.into(),
            spread.min.into(),
            spread.median.into(),
            spread.max.into(),
            width.into(),
            Cell::Bins(counts),
            trace.text(name).into(),
        ])
    });
    Table {
        name: "cuda_gpu_kern_hist",
        title: "Durations of each kernel".into(),
        columns: HISTOGRAM.to_vec(),
        keys: &[6],
        measure: 2,
        count: Some(0),
        rows: rows.collect(),
    }
}

/// `cuda_gpu_kern_pace`: of each kernel the intervals between the starts of consecutive instances
/// on one GPU; kernels in the order of [`histogram`]. A kernel that ran once has no interval.
pub fn pace(trace: &Trace) -> Table {
    let rows = kernels(trace).into_iter().filter_map(|(name, ops)| {
        let mut last: HashMap<i64, i64> = HashMap::new();
        let gaps = ops.iter().filter_map(|op| {
            let before = last.insert(op.device, op.start)?;
            Some((op.start - before, before))
        });
        let gaps: Vec<(i64, i64)> = gaps.collect();
        let times: Vec<i64> = gaps.iter().map(|(time, _)| *time).collect();
        let spread = Spread::of(&times)?;
        let (width, counts) = bins(&times, &spread);
        let longest = gaps.iter().max_by_key(|(time, at)| (*time, -at)).map(|(_, at)| *at);
        Some(vec![
            spread.count.into(),
            spread.mean.into(),
            spread.median.into(),
            spread.min.into(),
            spread.max.into(),
            spread.deviation.into(),
            longest.map_or(Cell::Missing, Cell::Whole),
            width.into(),
            Cell::Bins(counts),
            trace.text(name).into(),
        ])
    });
    Table {
        name: "cuda_gpu_kern_pace",
        title: "Intervals between starts of each kernel".into(),
        columns: PACE.to_vec(),
        keys: &[9],
        measure: 2,
        count: Some(0),
        rows: rows.collect(),
    }
}

/// The instances of each kernel in the order of time; the kernel with the largest total first. A
/// CUDA graph that was traced as a whole counts as a kernel.
fn kernels(trace: &Trace) -> Vec<(Name, Vec<&GpuOp>)> {
    let mut kernels: HashMap<Name, Vec<&GpuOp>> = HashMap::new();
    for op in trace.ops().iter().filter(|op| matches!(op.kind, OpKind::Kernel | OpKind::Graph)) {
        kernels.entry(op.name).or_default().push(op);
    }
    let mut kernels: Vec<(Name, Vec<&GpuOp>)> = kernels.into_iter().collect();
    let total = |ops: &[&GpuOp]| ops.iter().map(|op| op.end - op.start).sum::<i64>();
    kernels.sort_by_cached_key(|(name, ops)| {
        (std::cmp::Reverse(total(ops)), trace.text(*name).to_owned())
    });
    kernels
}

/// Width of an interval in ns, and the number of values in each. The last one contains its end.
fn bins(values: &[i64], spread: &Spread) -> (f64, Vec<f64>) {
    let width = (spread.max - spread.min) as f64 / BINS as f64;
    let mut counts = vec![0.0; BINS];
    for value in values {
        let at = match width > 0.0 {
            true => ((value - spread.min) as f64 / width) as usize,
            false => 0,
        };
        if let Some(count) = counts.get_mut(at.min(BINS - 1)) {
            *count += 1.0;
        }
    }
    (width, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_one_bin_and_the_largest_in_the_last() {
        let values: Vec<i64> = (0..=40).collect();
        let (width, counts) = bins(&values, &Spread::of(&values).unwrap());
        assert_eq!(width, 2.0);
        assert_eq!((counts[0], counts[18], counts[19]), (2.0, 2.0, 3.0));
        assert_eq!(counts.iter().sum::<f64>(), 41.0);
        let (width, counts) = bins(&[7, 7], &Spread::of(&[7, 7]).unwrap());
        assert_eq!((width, counts[0]), (0.0, 2.0));
    }
}
