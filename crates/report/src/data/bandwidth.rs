/*!
Bandwidth against its peak, as far as files tell: uploaded frames over the link to the device, and
the peak of the device's memory.

Only a profiler's counters show how much of the memory's peak the kernels use.
*/

use std::collections::BTreeMap;

use serde::Serialize;

use super::conditions::is_predecoded;
use crate::input::ResultRow;
use vos::stats;

/// Red, green and blue.
const BYTES_PER_PIXEL: f64 = 3.0;
/// GB/s of one PCI Express lane by generation, without encoding.
const LANE_GB_PER_S: [f64; 6] = [0.25, 0.5, 0.985, 1.969, 3.938, 7.563];

/// Bandwidth of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bandwidth {
    /// Bytes of uploaded frames over their upload time, GB/s.
    pub upload_gb_per_s: Option<f64>,
    /// Peak of the link, GB/s in one direction.
    pub link_gb_per_s: Option<f64>,
    /// Upload over link, %.
    pub link_percent: Option<f64>,
    /// Peak of the device's memory, GB/s: two transfers a clock times the bus width.
    pub memory_gb_per_s: Option<f64>,
}

/// From rows with sizes and upload times, and the driver's facts.
pub fn of(rows: &[&ResultRow], facts: &BTreeMap<String, f64>) -> Bandwidth {
    let rate = |row: &&ResultRow| {
        // Predecoded frames have another size and come from a mapped file, so they cross no link.
        if row.text("fidelity").is_some_and(is_predecoded) {
            return None;
        }
        let pixels = row.number("input_H")? * row.number("input_W")?;
        let ms = row.number("upload_ms").filter(|ms| *ms > 0.0)?;
        Some(pixels * BYTES_PER_PIXEL / ms / 1e6)
    };
    let rates: Vec<f64> = rows.iter().filter_map(rate).collect();
    let upload_gb_per_s = stats::mean(&rates);
    let fact = |name: &str| facts.get(name).copied();
    let lane = fact("pcie_generation")
        .and_then(|generation| LANE_GB_PER_S.get((generation as usize).checked_sub(1)?));
    let link_gb_per_s = lane.zip(fact("pcie_width")).map(|(lane, width)| lane * width);
    let memory = fact("memory_clock_max_mhz").zip(fact("memory_bus_width_bits"));
    Bandwidth {
        upload_gb_per_s,
        link_gb_per_s,
        link_percent: upload_gb_per_s
            .zip(link_gb_per_s)
            .map(|(upload, link)| 100.0 * upload / link),
        memory_gb_per_s: memory.map(|(mhz, bits)| 2.0 * mhz * bits / 8.0 / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_come_from_the_drivers_facts() {
        let facts = [
            ("pcie_generation", 5.0),
            ("pcie_width", 16.0),
            ("memory_clock_max_mhz", 3201.0),
            ("memory_bus_width_bits", 6144.0),
        ];
        let facts: BTreeMap<String, f64> =
            facts.map(|(name, value)| (name.to_owned(), value)).into();
        let found = of(&[], &facts);
        assert!((found.link_gb_per_s.unwrap() - 63.0).abs() < 0.1, "{found:?}");
        assert!((found.memory_gb_per_s.unwrap() - 4916.7).abs() < 0.1, "{found:?}");
        assert_eq!((found.upload_gb_per_s, found.link_percent), (None, None));
        assert_eq!(of(&[], &BTreeMap::new()), Bandwidth::default());
    }
}
