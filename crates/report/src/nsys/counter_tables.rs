/*!
Mean readings of the GPUs' counters while there was work: use of multiprocessors, tensor cores and
memory.
*/

use std::collections::BTreeMap;

use super::table::{Cell, Column, Table, Unit, column};
use super::trace::{Sample, Trace};

const COUNTERS: [Column; 7] = [
    column("Device ID", Unit::Count),
    column("Name", Unit::Text),
    column("Counter", Unit::Text),
    column("Avg", Unit::Number),
    column("Min", Unit::Number),
    column("Max", Unit::Number),
    column("Samples", Unit::Count),
];

/// Name of the table, which `segtrt report` reads.
pub const NAME: &str = "gpu_metric_util";

/// `gpu_metric_util`: mean, minimum and maximum of every counter from the first work of any GPU to
/// the last, as for utilisation; over all readings if the export has no work. nsys's names of the
/// counters contain the units.
pub fn readings(trace: &Trace) -> Table {
    let first = trace.ops().iter().map(|op| op.start).min();
    let last = trace.ops().iter().map(|op| op.end).max();
    let in_work = |sample: &&Sample| {
        first.is_none_or(|first| sample.time >= first)
            && last.is_none_or(|last| sample.time <= last)
    };
    let mut counters: BTreeMap<(i64, &str, &str), Vec<i64>> = BTreeMap::new();
    for sample in trace.samples().iter().filter(in_work) {
        let key = (sample.device, trace.text(sample.gpu), trace.text(sample.counter));
        counters.entry(key).or_default().push(sample.value);
    }
    let rows = counters.into_iter().map(|((device, gpu, counter), values)| {
        let sum: f64 = values.iter().map(|value| *value as f64).sum();
        let end = |value: Option<&i64>| value.map_or(Cell::Missing, |value| (*value).into());
        vec![
            device.into(),
            gpu.into(),
            counter.into(),
            (sum / values.len() as f64).into(),
            end(values.iter().min()),
            end(values.iter().max()),
            values.len().into(),
        ]
    });
    Table {
        name: NAME,
        title: "Counters of the GPU".into(),
        columns: COUNTERS.to_vec(),
        keys: &[0, 2],
        measure: 3,
        count: None,
        rows: rows.collect(),
    }
}
