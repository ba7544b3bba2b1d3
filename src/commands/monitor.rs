/*!
`segtrt monitor`: samples to a log and to the screen, beside a command where one is given.
*/

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::Outcome;
use crate::commands::headings::{GPU, MEASURING, OUTPUT};
use crate::monitor::{Amount, LogFile, Sample, Sensors, Settings, Summary, watch};
use host::UsageError;
use host::child;
use host::ctrl_c;
use vos::telemetry::Options;

/// Flags of `segtrt monitor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  segtrt monitor --log memory.csv --duration 60\n  segtrt \
                        monitor --log memory.csv --extra -- segtrt bench --split-dir demo/split \
                        --models edgetam_mini_points\n\nColumns: timestamp, gpu_used_gb, \
                        gpu_total_gb, gpu_percent, ram_used_gb, ram_total_gb, ram_percent. A GB \
                        is 2^30 bytes. On a Jetson, GPU and host share one memory: it is in the \
                        ram columns, and the gpu columns are zero. Memory is of the whole \
                        machine. --extra adds the command's own memory as the last column. A \
                        leak is told by its slope: 95 % interval above zero, 50 MB or more in all, \
                        16 samples or more.")]
pub struct MonitorArgs {
    /// CSV log file; an existing one is replaced.
    #[arg(long, help_heading = OUTPUT, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Seconds between samples.
    #[arg(long, help_heading = MEASURING, value_name = "S", default_value = "1", value_parser = seconds)]
    pub interval: f64,
    /// Seconds until it ends [default: with the command, or on Ctrl-C].
    #[arg(long, help_heading = MEASURING, value_name = "S", value_parser = seconds)]
    pub duration: Option<f64>,
    /// More columns: swap, GPU load, power, temperature and clock, and the command's own memory.
    #[arg(long, help_heading = OUTPUT)]
    pub extra: bool,
    /// Number of the GPU, in the order of nvidia-smi.
    #[arg(long, help_heading = GPU, default_value_t = 0)]
    pub device: usize,
    /// Print one JSON document at the end instead of samples and peaks.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Command to run; the log ends with it and its exit code is passed on.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=31_536_000.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds, 0.01 or more, such as 1 or 0.5".to_owned()),
    }
}

/// A command that was asked to stop is given this long before it is told so itself, and as long
/// again before it is killed. On a terminal Ctrl-C reaches it anyway.
const GRACE: Duration = Duration::from_secs(5);

/// Watches, and ends with the command's own exit code.
pub fn run(args: MonitorArgs) -> Result<Outcome> {
    if args.log.is_none() && args.json && args.command.is_empty() && args.duration.is_none() {
        bail!(UsageError(
            "nothing would come of it: give --log FILE, --duration S or a command after --"
                .to_owned()
        ));
    }
    let stopped = ctrl_c::flag()?;
    let mut log = args.log.as_deref().map(|path| LogFile::create(path, args.extra)).transpose()?;
    let mut sensors = Sensors::open(args.device, &Options::default());
    // A command owns standard output; its own words must not be mixed with ours.
    let beside = !args.command.is_empty();
    let quiet = beside || args.json;
    announce(&sensors, quiet);
    let mut running = match args.command.split_first() {
        Some((program, rest)) => Some(Running::start(program, rest)?),
        None => None,
    };
    let settings = Settings {
        interval: Duration::from_secs_f64(args.interval),
        duration: args.duration.map(Duration::from_secs_f64),
        command: running.as_ref().map(|running| running.child.id()),
    };
    let ended = || {
        let asked = stopped.load(Ordering::Relaxed);
        match &mut running {
            Some(running) => running.ended(asked),
            None => Ok(asked),
        }
    };
    let heard = |sample: &Sample| {
        if !quiet {
            println!("{}", line(sample));
        }
    };
    let summary = watch(&mut sensors, &settings, &mut log, ended, heard);
    // Whatever became of the log: a command is not left alone, nor its exit code lost.
    let status = running.map(|mut running| running.finish(&stopped)).transpose();
    let summary = summary?;
    if args.json {
        let document = serde_json::to_string_pretty(&summary)?;
        if beside { eprintln!("{document}") } else { println!("{document}") }
    } else {
        let text = peaks(&summary, &args);
        if beside { eprintln!("{text}") } else { println!("{text}") }
    }
    warn_of_growth(&summary);
    Ok(match status? {
        Some(status) => Outcome::Code(code(status)),
        None => Outcome::Done,
    })
}

fn announce(sensors: &Sensors, quiet: bool) {
    if sensors.unified {
        log::info!(
            "GPU and host share one memory: the GPU's use is part of the RAM's, never to be added"
        );
        if !quiet {
            println!(
                "Unified memory (Jetson): what the GPU uses is part of the RAM, not on top of it"
            );
        }
    }
    if let Some(error) = &sensors.no_gpu {
        match quiet {
            true => log::info!("no GPU is watched: {error}"),
            false => println!("GPU not available: {error}"),
        }
    }
}

/// A sample for the screen.
fn line(sample: &Sample) -> String {
    let one = |name: &str, amount: Option<Amount>| {
        amount
            .map(|a| format!("  {name} {:.2} GB {:.1} %", a.used_gb, a.percent()))
            .unwrap_or_default()
    };
    format!("{:.1}s{}{}", sample.at_s, one("GPU", sample.gpu), one("RAM", sample.ram))
}

fn peaks(summary: &Summary, args: &MonitorArgs) -> String {
    let mut lines = vec![format!("Peak Usage in {} samples:", summary.samples)];
    let amount =
        |a: Amount| format!("{:.2} GB of {:.2} ({:.1} %)", a.used_gb, a.total_gb, a.percent());
    lines.extend(summary.peaks.gpu.map(|gpu| format!("  GPU: {}", amount(gpu))));
    lines.extend(summary.peaks.ram.map(|ram| format!("  RAM: {}", amount(ram))));
    lines.extend(summary.peaks.command_rss_gb.map(|gb| format!("  command: {gb:.2} GB resident")));
    lines.extend(args.log.as_ref().map(|log| format!("Log saved to: {}", log.display())));
    lines.join("\n")
}

fn warn_of_growth(summary: &Summary) {
    for (name, growth) in &summary.growing {
        let mb = |gb: f64| gb * 1024.0;
        log::warn!(
            "{name} memory kept growing, by {:.0} MB a minute (95 % interval {:.0} to {:.0}) and \
             {:.0} MB in all; if that goes on with longer runs it is a leak, or another program's: \
             compare the command's own memory (--extra)",
            mb(growth.gb_per_minute),
            mb(growth.interval[0]),
            mb(growth.interval[1]),
            mb(growth.grown_gb)
        );
    }
}

/// The command.
struct Running {
    child: Child,
    asked_at: Option<Instant>,
    told: bool,
}

impl Running {
    fn start(program: &std::ffi::OsStr, rest: &[std::ffi::OsString]) -> Result<Self> {
        let child = Command::new(program).args(rest).spawn().with_context(|| {
            format!("cannot start {}; give a program's name or path after --", program.display())
        })?;
        Ok(Self { child, asked_at: None, told: false })
    }

    /// Whether it is over; a command that is asked to stop and does not is told, then killed.
    fn ended(&mut self, asked: bool) -> Result<bool> {
        if self.child.try_wait().context("cannot wait for the command")?.is_some() {
            return Ok(true);
        }
        if asked {
            let waited = self.asked_at.get_or_insert_with(Instant::now).elapsed();
            if waited > GRACE && !self.told {
                self.told = true;
                child::terminate(&mut self.child);
            } else if waited > 2 * GRACE {
                // It may be gone this moment.
                let _ = self.child.kill();
            }
        }
        Ok(false)
    }

    /// Waits for it; after `--duration` it runs on, without being watched.
    fn finish(&mut self, stopped: &AtomicBool) -> Result<ExitStatus> {
        while !self.ended(stopped.load(Ordering::Relaxed))? {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child.wait().context("cannot wait for the command")
    }
}

/// As shells pass it on: 128 and the signal's number for a command that a signal ended.
fn code(status: ExitStatus) -> u8 {
    let signal = child::signal(status).map(|signal| 128 + signal);
    status.code().or(signal).and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(1)
}
