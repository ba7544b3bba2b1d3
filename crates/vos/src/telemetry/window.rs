/*!
Folds readings into the record of one pass.
*/

use std::time::Instant;

use super::source::Reading;
use crate::record::{Limits, Observed};

/// Mean and extremes of a number with gaps.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    sum: f64,
    count: usize,
    least: Option<f64>,
    most: Option<f64>,
}

impl Spread {
    fn push(&mut self, value: Option<f64>) {
        let Some(value) = value else { return };
        self.sum += value;
        self.count += 1;
        self.least = Some(self.least.map_or(value, |least| least.min(value)));
        self.most = Some(self.most.map_or(value, |most| most.max(value)));
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// The readings between a mark and its end, as sums.
///
/// The reading at the mark counts only for time, energy, memory and processes: the GPU may still be
/// idle then, and an idle GPU's low clock is not drift. The last reading counts fully, because
/// clocks do not fall within milliseconds.
#[derive(Clone, Debug)]
pub struct Window {
    start: Instant,
    last: Instant,
    first_counter_j: Option<f64>,
    last_counter_j: Option<f64>,
    last_power_w: Option<f64>,
    /// Integral of the power readings by the trapezoidal rule, J; over `integrated_s`.
    integral_j: f64,
    integrated_s: f64,
    readings: usize,
    power_w: Spread,
    sm_clock_mhz: Spread,
    memory_clock_mhz: Spread,
    temperature_c: Spread,
    utilisation_percent: Spread,
    process_memory_mib: Spread,
    device_memory_mib: Spread,
    limits: Option<Limits>,
    other_processes: Option<usize>,
}

impl Window {
    /// Begins with the reading at the mark.
    pub fn new(at: Instant, reading: &Reading) -> Self {
        let mut window = Self {
            start: at,
            last: at,
            first_counter_j: reading.energy_j,
            last_counter_j: reading.energy_j,
            last_power_w: reading.power_w,
            integral_j: 0.0,
            integrated_s: 0.0,
            readings: 0,
            power_w: Spread::default(),
            sm_clock_mhz: Spread::default(),
            memory_clock_mhz: Spread::default(),
            temperature_c: Spread::default(),
            utilisation_percent: Spread::default(),
            process_memory_mib: Spread::default(),
            device_memory_mib: Spread::default(),
            limits: None,
            other_processes: None,
        };
        window.company(reading);
        window
    }

    /// Adds a reading.
    pub fn push(&mut self, at: Instant, reading: &Reading) {
        let passed_s = at.saturating_duration_since(self.last).as_secs_f64();
        if let (Some(before), Some(now)) = (self.last_power_w, reading.power_w) {
            self.integral_j += 0.5 * (before + now) * passed_s;
            self.integrated_s += passed_s;
        }
        self.last = at;
        self.last_power_w = reading.power_w;
        self.last_counter_j = reading.energy_j.or(self.last_counter_j);
        self.readings += 1;
        self.power_w.push(reading.power_w);
        self.sm_clock_mhz.push(reading.sm_clock_mhz);
        self.memory_clock_mhz.push(reading.memory_clock_mhz);
        self.temperature_c.push(reading.temperature_c);
        self.utilisation_percent.push(reading.utilisation_percent);
        if let Some(limits) = reading.limits {
            self.limits = Some(self.limits.unwrap_or_default().union(limits));
        }
        self.company(reading);
    }

    /// Memory and processes.
    fn company(&mut self, reading: &Reading) {
        self.process_memory_mib.push(reading.process_memory_mib);
        self.device_memory_mib.push(reading.device_memory_mib);
        self.other_processes = self.other_processes.max(reading.other_processes);
    }

    /// The observations of all readings.
    pub fn observed(&self) -> Observed {
        let seconds = self.last.saturating_duration_since(self.start).as_secs_f64();
        let energy_j = self.counted_j().or_else(|| self.integrated_j(seconds));
        let power = energy_j.filter(|_| seconds > 0.0).map(|energy| energy / seconds);
        Observed {
            seconds,
            readings: self.readings,
            power_mean_w: power.or_else(|| self.power_w.mean()),
            power_max_w: self.power_w.most,
            energy_j,
            sm_clock_min_mhz: self.sm_clock_mhz.least,
            sm_clock_mean_mhz: self.sm_clock_mhz.mean(),
            sm_clock_max_mhz: self.sm_clock_mhz.most,
            memory_clock_mhz: self.memory_clock_mhz.mean(),
            temperature_max_c: self.temperature_c.most,
            utilisation_percent: self.utilisation_percent.mean(),
            limits: self.limits,
            other_processes: self.other_processes,
            idle_processes: None,
            frames_fed: None,
            process_memory_mib: self.process_memory_mib.most,
            device_memory_mib: self.device_memory_mib.most,
        }
    }

    /// From the counter. A counter that did not move, or fell because the driver was reloaded,
    /// counted nothing.
    fn counted_j(&self) -> Option<f64> {
        let used = self.last_counter_j? - self.first_counter_j?;
        (used > 0.0).then_some(used)
    }

    /// From the power readings, if they cover the whole window.
    fn integrated_j(&self, seconds: f64) -> Option<f64> {
        (self.integrated_s > 0.0 && self.integrated_s >= 0.99 * seconds).then_some(self.integral_j)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::Limit;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    fn power(power_w: f64) -> Reading {
        Reading { power_w: Some(power_w), ..Reading::default() }
    }

    #[test]
    fn energy_is_the_counter_where_there_is_one_and_the_integral_where_there_is_none() {
        let start = Instant::now();
        let mut window = Window::new(start, &power(100.0));
        window.push(at(start, 1000), &power(300.0));
        window.push(at(start, 2000), &power(300.0));
        let observed = window.observed();
        assert_eq!(observed.energy_j, Some(500.0));
        assert_eq!((observed.power_mean_w, observed.power_max_w), (Some(250.0), Some(300.0)));
        assert_eq!((observed.seconds, observed.readings), (2.0, 2));

        let counted = |power_w, energy_j| Reading { energy_j: Some(energy_j), ..power(power_w) };
        let mut window = Window::new(start, &counted(100.0, 7000.0));
        window.push(at(start, 2000), &counted(300.0, 7900.0));
        assert_eq!(window.observed().energy_j, Some(900.0));
        assert_eq!(window.observed().power_mean_w, Some(450.0));

        // A counter that fell counted nothing, so the integral is used.
        let mut window = Window::new(start, &counted(100.0, 7000.0));
        window.push(at(start, 2000), &counted(100.0, 20.0));
        assert_eq!(window.observed().energy_j, Some(200.0));
    }

    #[test]
    fn power_that_was_not_read_all_the_time_gives_no_energy() {
        let start = Instant::now();
        let mut window = Window::new(start, &Reading::default());
        window.push(at(start, 1000), &power(300.0));
        window.push(at(start, 2000), &power(100.0));
        let observed = window.observed();
        assert_eq!((observed.energy_j, observed.power_mean_w), (None, Some(200.0)));
    }

    #[test]
    fn the_idle_reading_at_the_mark_is_no_clock_and_no_limit_of_the_pass() {
        let start = Instant::now();
        let reading = |sm: f64, limit| Reading {
            sm_clock_mhz: Some(sm),
            temperature_c: Some(40.0 + sm / 100.0),
            limits: Some(Limits::of(limit)),
            process_memory_mib: Some(sm),
            other_processes: Some(1),
            ..Reading::default()
        };
        let idle = Reading {
            sm_clock_mhz: Some(345.0),
            process_memory_mib: Some(9999.0),
            ..reading(345.0, None)
        };
        let mut window = Window::new(start, &idle);
        window.push(at(start, 100), &reading(1980.0, None));
        window.push(at(start, 200), &reading(1950.0, Some(Limit::PowerCap)));
        window.push(at(start, 300), &reading(1980.0, None));
        let observed = window.observed();
        assert_eq!(observed.sm_clock_min_mhz, Some(1950.0));
        assert_eq!(observed.sm_clock_mean_mhz, Some(1970.0));
        assert_eq!(observed.sm_clock_max_mhz, Some(1980.0));
        assert_eq!(observed.temperature_max_c, Some(59.8));
        assert_eq!(observed.limits, Some(Limits::of([Limit::PowerCap])));
        assert_eq!(observed.process_memory_mib, Some(9999.0), "memory was in use at the mark");
        assert_eq!(observed.other_processes, Some(1));
    }

    #[test]
    fn a_board_that_says_nothing_gives_no_numbers() {
        let start = Instant::now();
        let mut window = Window::new(start, &Reading::default());
        window.push(at(start, 50), &Reading::default());
        let expected = Observed { seconds: 0.05, readings: 1, ..Observed::default() };
        assert_eq!(window.observed(), expected);
        let empty = Window::new(start, &power(5.0)).observed();
        assert_eq!((empty.seconds, empty.energy_j, empty.power_mean_w), (0.0, None, None));
    }
}
