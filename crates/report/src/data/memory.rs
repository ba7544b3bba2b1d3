/*!
Peak of a GPU's memory against its size.
*/

use std::collections::BTreeMap;

use serde::Serialize;

use super::stat::Stat;
use vos::platform::Platforms;

/// Compute capabilities for the look-up of a device's name, because tables of results do not
/// contain them.
const CAPABILITIES: [u32; 9] = [72, 75, 80, 86, 87, 89, 90, 100, 120];

/// Peak and size of the memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceMemory {
    /// Peak, MiB.
    pub peak_mib: f64,
    /// What the peak covers.
    pub peak_of: &'static str,
    /// Size, MiB.
    pub total_mib: f64,
    /// RunSource of the size.
    pub total_from: &'static str,
    /// Peak over size, %.
    pub percent: f64,
}

/// Memory of a group; `None` if peak or size is unknown.
pub fn of(
    facts: &BTreeMap<String, f64>,
    device: Option<&str>,
    stats: &BTreeMap<String, Stat>,
    observed: &BTreeMap<String, f64>,
) -> Option<DeviceMemory> {
    let column = |name: &str| stats.get(name).map(|stat| stat.max);
    let (peak_mib, peak_of) = observed
        .get("device_memory_mib")
        .map(|peak| (*peak, "everything on the device (driver)"))
        .or_else(|| {
            Some((column("gpu_peak_reserved_MiB")?, "this process (gpu_peak_reserved_MiB)"))
        })
        .or_else(|| {
            Some((
                column("gpu_peak_alloc_MiB")?,
                "allocations of this program \
                (gpu_peak_alloc_MiB)",
            ))
        })?;
    let reported = facts.get("memory_total_mib").copied();
    let (total_mib, total_from) = reported.map(|total| (total, "the driver")).or_else(|| {
        Some((sold_with(device?)?, "the platform table: the smallest size sold under this name"))
    })?;
    (total_mib > 0.0).then(|| DeviceMemory {
        peak_mib,
        peak_of,
        total_mib,
        total_from,
        percent: 100.0 * peak_mib / total_mib,
    })
}

/// Memory of a device by its name in the platform table, MiB.
fn sold_with(device: &str) -> Option<f64> {
    let table = Platforms::open(None).ok()?;
    let row = CAPABILITIES.into_iter().find_map(|sm| table.of_device(device, sm))?;
    Some(row.memory_mb as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::stat::stat;

    #[test]
    fn the_peak_is_held_against_the_size_of_the_board() {
        let stats =
            BTreeMap::from([("gpu_peak_reserved_MiB".to_owned(), stat(&[700.0, 762.0]).unwrap())]);
        let found = of(&BTreeMap::new(), Some("NVIDIA H200"), &stats, &BTreeMap::new()).unwrap();
        assert_eq!(
            (found.peak_mib, found.peak_of),
            (762.0, "this process (gpu_peak_reserved_MiB)")
        );
        assert!(found.total_mib > 100_000.0 && found.percent < 1.0, "{found:?}");
        assert_eq!(of(&BTreeMap::new(), Some("cpu: AMD EPYC"), &stats, &BTreeMap::new()), None);
        assert_eq!(
            of(&BTreeMap::new(), Some("NVIDIA H200"), &BTreeMap::new(), &BTreeMap::new()),
            None
        );
        let anyone = BTreeMap::from([("device_memory_mib".to_owned(), 9000.0)]);
        assert_eq!(
            of(&BTreeMap::new(), Some("NVIDIA H200"), &stats, &anyone).unwrap().peak_mib,
            9000.0
        );
    }
}
