/*!
The loop: samples at a steady pace until the command ends, the time is over or the user stops it.
*/

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::{Amount, Growth, LogFile, Sample, Sensors, growth};

/// How often it is looked whether the end has come.
const POLL: Duration = Duration::from_millis(20);

/// When samples are taken.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Between two samples.
    pub interval: Duration,
    /// After this it ends.
    pub duration: Option<Duration>,
    /// Process whose own memory is wanted too.
    pub command: Option<u32>,
}

/// Largest readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Peaks {
    /// GPU memory.
    pub gpu: Option<Amount>,
    /// The machine's memory.
    pub ram: Option<Amount>,
    /// Resident memory of the command, GB of 2³⁰ bytes.
    pub command_rss_gb: Option<f64>,
}

/// The readings in short.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// From the first sample to the end, s.
    pub seconds: f64,
    /// Samples.
    pub samples: usize,
    /// GPU and host share one memory: do not add.
    pub unified: bool,
    /// Largest readings.
    pub peaks: Peaks,
    /// Memories that kept growing: `gpu`, `ram`, `command`.
    pub growing: Vec<(&'static str, Growth)>,
}

/// Takes samples until `ended` says so or the time is over; the first at once.
///
/// # Errors
/// The log cannot be written, or what `ended` says.
pub fn watch(
    sensors: &mut Sensors,
    settings: &Settings,
    log: &mut Option<LogFile>,
    mut ended: impl FnMut() -> Result<bool>,
    mut heard: impl FnMut(&Sample),
) -> Result<Summary> {
    let start = Instant::now();
    let mut next = Duration::ZERO;
    let mut seen = Seen::default();
    loop {
        let at = start.elapsed();
        let sample = sensors.sample(at.as_secs_f64(), settings.command);
        if let Some(log) = log {
            log.push(&sample)?;
        }
        heard(&sample);
        seen.push(&sample);
        // From the start, so that the pace holds; what was missed is not made up for.
        while next <= start.elapsed() {
            next += settings.interval;
        }
        let over = settings.duration.is_some_and(|duration| next > duration);
        let until = if over { settings.duration.unwrap_or(next) } else { next };
        while start.elapsed() < until {
            if ended()? {
                return Ok(seen.summary(sensors.unified, start.elapsed()));
            }
            std::thread::sleep(POLL.min(until.saturating_sub(start.elapsed())));
        }
        if over || ended()? {
            return Ok(seen.summary(sensors.unified, start.elapsed()));
        }
    }
}

/// Samples folded into the summary.
#[derive(Default)]
struct Seen {
    peaks: Peaks,
    samples: usize,
    /// GB by s: sixteen bytes a sample, of a day at one a second less than two megabytes.
    gpu: Vec<(f64, f64)>,
    ram: Vec<(f64, f64)>,
    command: Vec<(f64, f64)>,
}

impl Seen {
    fn push(&mut self, sample: &Sample) {
        let most = |old: Option<Amount>, new: Option<Amount>| match (old, new) {
            (Some(old), Some(new)) if old.used_gb >= new.used_gb => Some(old),
            (old, new) => new.or(old),
        };
        self.samples += 1;
        self.peaks.gpu = most(self.peaks.gpu, sample.gpu);
        self.peaks.ram = most(self.peaks.ram, sample.ram);
        let rss = sample.extra.command_rss_gb;
        self.peaks.command_rss_gb =
            [self.peaks.command_rss_gb, rss].into_iter().flatten().reduce(f64::max);
        self.gpu.extend(sample.gpu.map(|gpu| (sample.at_s, gpu.used_gb)));
        self.ram.extend(sample.ram.map(|ram| (sample.at_s, ram.used_gb)));
        self.command.extend(rss.map(|gb| (sample.at_s, gb)));
    }

    fn summary(self, unified: bool, took: Duration) -> Summary {
        let series = [("gpu", &self.gpu), ("ram", &self.ram), ("command", &self.command)];
        let growing = series.into_iter().filter_map(|(name, series)| Some((name, growth(series)?)));
        Summary {
            seconds: took.as_secs_f64(),
            samples: self.samples,
            unified,
            peaks: self.peaks,
            growing: growing.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: f64, gpu: f64, rss: Option<f64>) -> Sample {
        let gpu = Some(Amount { used_gb: gpu, total_gb: 8.0 });
        let extra = crate::monitor::Extra { command_rss_gb: rss, ..Default::default() };
        Sample { at_s, gpu, ram: None, extra }
    }

    #[test]
    fn peaks_are_the_most_of_each_and_what_grows_is_named() {
        let mut seen = Seen::default();
        for at in 0..60 {
            seen.push(&sample(f64::from(at), if at == 7 { 6.0 } else { 2.0 }, Some(f64::from(at))));
        }
        seen.push(&sample(60.0, 2.0, None));
        let summary = seen.summary(false, Duration::from_secs(60));
        assert_eq!(summary.peaks.gpu.unwrap().used_gb, 6.0);
        assert_eq!((summary.peaks.ram, summary.peaks.command_rss_gb), (None, Some(59.0)));
        assert_eq!((summary.samples, summary.seconds), (61, 60.0));
        let names: Vec<_> = summary.growing.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["command"]);
    }

    #[test]
    fn it_ends_with_the_time_and_with_the_command() {
        let options = vos::telemetry::Options {
            nvml: Some("/no/such/nvml.so".into()),
            root: "/no/such/root".into(),
            ..Default::default()
        };
        let mut sensors = Sensors::open(0, &options);
        let ms = Duration::from_millis;
        let settings = Settings { interval: ms(40), duration: Some(ms(100)), command: None };
        let summary = watch(&mut sensors, &settings, &mut None, || Ok(false), |_| {}).unwrap();
        // At 0, 40 and 80 ms; fewer where this machine was held up.
        assert!((1..=3).contains(&summary.samples), "{summary:?}");

        let settings = Settings { interval: ms(60_000), duration: None, command: None };
        let mut asked = 0;
        let ended = || {
            asked += 1;
            Ok(asked > 2)
        };
        let begun = Instant::now();
        let summary = watch(&mut sensors, &settings, &mut None, ended, |_| {}).unwrap();
        assert_eq!(summary.samples, 1);
        assert!(begun.elapsed() < Duration::from_secs(30), "it waited for the interval");
    }
}
