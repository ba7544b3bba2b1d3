/*!
Power of a Jetson: the INA3221 monitors of its supply rails, and the counters of over-current
events.
*/

use std::path::{Path, PathBuf};

use super::{entries, number, text};

/// Rails of the whole module; if there is one, the others are parts of it.
const WHOLE: [&str; 2] = ["VDD_IN", "POM_5V_IN"];
/// Channels of a monitor.
const CHANNELS: u32 = 3;

/// A rail and its files.
#[derive(Debug)]
struct Rail {
    name: String,
    measure: Measure,
}

#[derive(Debug)]
enum Measure {
    /// Current in mA and voltage in mV (`hwmon`, JetPack 5 and later).
    CurrentVoltage(PathBuf, PathBuf),
    /// Power in mW (`iio`, JetPack 4).
    Power(PathBuf),
}

impl Rail {
    fn power_w(&self) -> Option<f64> {
        match &self.measure {
            Measure::CurrentVoltage(current, voltage) => {
                Some(number(current)? * number(voltage)? / 1e6)
            }
            Measure::Power(power) => number(power).map(|milliwatts| milliwatts / 1e3),
        }
    }
}

/// All rails that can be read.
#[derive(Debug)]
pub(super) struct Rails(Vec<Rail>);

impl Rails {
    /// Looks for monitors.
    pub(super) fn find(root: &Path) -> Self {
        let mut rails = Vec::new();
        for driver in ["sys/bus/i2c/drivers/ina3221", "sys/bus/i2c/drivers/ina3221x"] {
            // A driver's devices are named bus-address.
            for device in entries(&root.join(driver), |name| name.contains('-')) {
                for monitor in entries(&device.join("hwmon"), |name| name.starts_with("hwmon")) {
                    rails.extend((1..=CHANNELS).filter_map(|channel| hwmon(&monitor, channel)));
                }
                for monitor in entries(&device, |name| name.starts_with("iio:device")) {
                    rails.extend((0..CHANNELS).filter_map(|channel| iio(&monitor, channel)));
                }
            }
        }
        Self(rails)
    }

    fn whole(&self) -> Option<&Rail> {
        WHOLE.iter().find_map(|name| self.0.iter().find(|rail| rail.name == *name))
    }

    /// Power of the module, W: of the rail for the whole module, else the sum of the rails. `None`
    /// if any of them cannot be read, because an incomplete sum would be another quantity.
    pub(super) fn power_w(&self) -> Option<f64> {
        match self.whole() {
            Some(rail) => rail.power_w(),
            None if self.0.is_empty() => None,
            None => self.0.iter().map(Rail::power_w).sum(),
        }
    }

    /// Description of [`Self::power_w`].
    pub(super) fn meaning(&self) -> Option<String> {
        match self.whole() {
            Some(rail) => Some(format!("rail {}, the whole module", rail.name)),
            None if self.0.is_empty() => None,
            None => Some("sum of all rails".to_owned()),
        }
    }

    /// Names of the rails.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().map(|rail| rail.name.clone()).collect()
    }
}

fn hwmon(monitor: &Path, channel: u32) -> Option<Rail> {
    let file = |prefix: &str, suffix: &str| monitor.join(format!("{prefix}{channel}_{suffix}"));
    let name = connected(text(&file("in", "label"))?)?;
    let (current, voltage) = (file("curr", "input"), file("in", "input"));
    number(&current)?;
    Some(Rail { name, measure: Measure::CurrentVoltage(current, voltage) })
}

fn iio(monitor: &Path, channel: u32) -> Option<Rail> {
    let name = connected(text(&monitor.join(format!("rail_name_{channel}")))?)?;
    let power = monitor.join(format!("in_power{channel}_input"));
    number(&power)?;
    Some(Rail { name, measure: Measure::Power(power) })
}

/// Unconnected channels have these names.
fn connected(name: String) -> Option<String> {
    (!matches!(name.as_str(), "NC" | "Not Connected")).then_some(name)
}

/// Counters of over-current events, each of which lowered the clocks.
#[derive(Debug)]
pub(super) struct OverCurrent {
    counters: Vec<PathBuf>,
    last: f64,
}

impl OverCurrent {
    /// Finds counters (`oc1_event_cnt` …) and stores their current values.
    pub(super) fn find(root: &Path) -> Self {
        let is_counter = |name: &str| name.starts_with("oc") && name.ends_with("_event_cnt");
        let counters = entries(&root.join("sys/class/hwmon"), |_| true)
            .iter()
            .flat_map(|monitor| entries(monitor, is_counter))
            .collect();
        let mut found = Self { counters, last: 0.0 };
        found.has_grown();
        found
    }

    /// Whether the board counts such events.
    pub(super) fn is_known(&self) -> bool {
        !self.counters.is_empty()
    }

    /// Whether there was an event since the last call.
    pub(super) fn has_grown(&mut self) -> bool {
        let now = self.counters.iter().filter_map(|counter| number(counter)).sum();
        let before = std::mem::replace(&mut self.last, now);
        now > before
    }
}
