/*!
Reads the output of NVIDIA Nsight Compute (`ncu --csv --page raw`): a few numbers of each kernel.

ncu measures single kernels with the GPU's counters and replays each launch several times, so a
program under it has no meaningful speed. These numbers say why a kernel takes its time.
*/

mod program;
mod raw_page;

pub use program::{Ncu, Recording, VARIABLE, refusal};
pub use raw_page::parse;

use std::collections::HashMap;

use super::nsys::{Cell, Column, Table, Unit};
use vos::stats;

/// One launch of a kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// The kernel.
    pub kernel: String,
    /// Its metrics in base units (ns, bytes, %), by ncu's name.
    pub metrics: HashMap<String, f64>,
}

/// Durations, ns.
pub const TIME: &str = "gpu__time_duration.sum";
/// Share of the warps that the multiprocessors can hold, %.
pub const OCCUPANCY: &str = "sm__warps_active.avg.pct_of_peak_sustained_active";
/// Share of the cycles in which the tensor cores' pipe worked, %.
pub const TENSOR: &str = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active";
/// Bytes read from and written to the GPU's memory. An integrated GPU has no such counter.
pub const DRAM: &str = "dram__bytes.sum";
/// Bytes through the L2 cache.
pub const L2: &str = "lts__t_bytes.sum";
/// Section with the reasons for which warps wait.
pub const STALLS: &str = "WarpStateStats";

const COLUMNS: [Column; 9] = [
    column("Kernel", Unit::Text),
    column("Launches", Unit::Count),
    column("Med Time", Unit::Time),
    column("Occupancy", Unit::Percent),
    column("Tensor Pipe", Unit::Percent),
    column("DRAM", Unit::Bytes),
    column("L2", Unit::Bytes),
    column("Main Stall", Unit::Text),
    column("Stall Share", Unit::Percent),
];

const fn column(title: &'static str, unit: Unit) -> Column {
    super::nsys::column(title, unit)
}

/// A row for each kernel, the one with the largest total time first: medians over its launches. A
/// metric that the GPU does not have is empty.
pub fn table(launches: &[Launch]) -> Table {
    let mut kernels: Vec<(&str, Vec<&Launch>)> = Vec::new();
    for launch in launches {
        match kernels.iter_mut().find(|(name, _)| *name == launch.kernel) {
            Some((_, of)) => of.push(launch),
            None => kernels.push((&launch.kernel, vec![launch])),
        }
    }
    let mut rows: Vec<(f64, Vec<Cell>)> = kernels
        .into_iter()
        .map(|(name, launches)| {
            let metric = |metric: &str| {
                let values =
                    launches.iter().filter_map(|launch| launch.metrics.get(metric).copied());
                stats::median(&values.collect::<Vec<_>>())
            };
            let cell = |name: &str| metric(name).map_or(Cell::Missing, Cell::Real);
            let stall = main_stall(&launches);
            let total = metric(TIME).unwrap_or(0.0) * launches.len() as f64;
            let (reason, share) = match stall {
                Some((reason, share)) => (Cell::Text(reason), Cell::Real(share)),
                None => (Cell::Missing, Cell::Missing),
            };
            let row = vec![
                name.into(),
                launches.len().into(),
                cell(TIME),
                cell(OCCUPANCY),
                cell(TENSOR),
                cell(DRAM),
                cell(L2),
                reason,
                share,
            ];
            (total, row)
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    Table {
        name: "ncu_kernels",
        title: "Kernels under Nsight Compute".into(),
        columns: COLUMNS.to_vec(),
        keys: &[0],
        measure: 2,
        count: Some(1),
        rows: rows.into_iter().map(|(_, row)| row).collect(),
    }
}

/// The reason for which warps wait longest, and its share of all waiting, %.
fn main_stall(launches: &[&Launch]) -> Option<(String, f64)> {
    let mut sums: HashMap<&str, f64> = HashMap::new();
    for (name, value) in launches.iter().flat_map(|launch| &launch.metrics) {
        if let Some(reason) = stall(name) {
            *sums.entry(reason).or_default() += value;
        }
    }
    let all: f64 = sums.values().sum();
    let (reason, most) = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(a.0)))?;
    (all > 0.0).then(|| (reason.replace('_', " "), 100.0 * most / all))
}

/// `long_scoreboard` of `smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio`.
/// A selected warp does not wait.
fn stall(metric: &str) -> Option<&str> {
    let (_, rest) = metric.split_once("__average_warps_issue_stalled_")?;
    let reason = rest.strip_suffix("_per_issue_active.ratio")?;
    (reason != "selected").then_some(reason)
}

#[cfg(test)]
mod tests;
