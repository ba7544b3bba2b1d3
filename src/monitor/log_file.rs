/*!
The log: the predecessor's columns and decimals; each line is written at once.
*/

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Amount, Sample};

const HEADER: &str =
    "timestamp,gpu_used_gb,gpu_total_gb,gpu_percent,ram_used_gb,ram_total_gb,ram_percent";

const EXTRA_HEADER: &str =
    ",swap_used_gb,gpu_util_percent,gpu_power_w,gpu_temperature_c,sm_clock_mhz,command_rss_gb";

/// An open log.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    path: PathBuf,
    extra: bool,
}

impl LogFile {
    /// Begins the log anew, as the predecessor does.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, extra: bool) -> Result<Self> {
        let file = File::create(path).with_context(|| {
            format!("cannot write {}; name a file in a folder that is there", path.display())
        })?;
        let mut log = Self { file, path: path.to_owned(), extra };
        log.line(format!("{HEADER}{}\n", if extra { EXTRA_HEADER } else { "" }))?;
        Ok(log)
    }

    /// Adds a sample.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn push(&mut self, sample: &Sample) -> Result<()> {
        self.line(line(sample, self.extra))
    }

    /// One write a line: a reader, or a crash, meets whole lines.
    fn line(&mut self, text: String) -> Result<()> {
        let written = self.file.write_all(text.as_bytes());
        written.with_context(|| format!("cannot write {}; is the disk full?", self.path.display()))
    }
}

/// What is unknown is zero in the predecessor's columns and empty in the new ones.
fn line(sample: &Sample, extra: bool) -> String {
    let amount = |amount: Option<Amount>| {
        let amount = amount.unwrap_or_default();
        format!("{:.3},{:.3},{:.2}", amount.used_gb, amount.total_gb, amount.percent())
    };
    let mut line = format!("{:.2},{},{}", sample.at_s, amount(sample.gpu), amount(sample.ram));
    if extra {
        let more = &sample.extra;
        for (value, digits) in [
            (more.swap_used_gb, 3),
            (more.gpu_util_percent, 1),
            (more.gpu_power_w, 1),
            (more.gpu_temperature_c, 1),
            (more.sm_clock_mhz, 0),
            (more.command_rss_gb, 3),
        ] {
            line.push(',');
            line.extend(value.map(|value| format!("{value:.digits$}")));
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Extra;

    #[test]
    fn the_first_columns_are_the_predecessors_to_the_byte() {
        let sample = Sample {
            at_s: 12.345,
            gpu: Some(Amount { used_gb: 1.5, total_gb: 24.0 }),
            ram: Some(Amount { used_gb: 2.000_49, total_gb: 15.6 }),
            extra: Extra { gpu_power_w: Some(61.25), ..Extra::default() },
        };
        assert_eq!(line(&sample, false), "12.35,1.500,24.000,6.25,2.000,15.600,12.82\n");
        assert_eq!(line(&sample, true), "12.35,1.500,24.000,6.25,2.000,15.600,12.82,,,61.2,,,\n");
        assert_eq!(line(&Sample::default(), false), "0.00,0.000,0.000,0.00,0.000,0.000,0.00\n");
        assert_eq!(HEADER.matches(',').count(), 6);
        let commas = format!("{HEADER}{EXTRA_HEADER}").matches(',').count();
        assert_eq!(line(&sample, true).matches(',').count(), commas);
    }
}
