/*!
The system's memory while a model runs.

On a Jetson the GPU's memory is part of the board's: what the system uses is the primary number
there, and the GPU's is never added to it. The system's is of all programs; the rows' own columns
are of the model's process.
*/

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use host::meminfo::MemInfo;
use host::threads;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(200);
/// The predecessor's guide: at least this part of the memory stays free.
const FREE_PART: f64 = 0.20;
const MIB: f64 = 1024.0;

/// The system's memory now, MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SystemMemory {
    /// All of it, MiB.
    pub total_mib: f64,
    /// What programs could still get without swapping, MiB.
    pub available_mib: f64,
}

impl SystemMemory {
    /// As the kernel counts it; none off Linux.
    pub fn now() -> Option<Self> {
        let (total, available) = MemInfo::read(Path::new("/")).total_and_available_kib()?;
        Some(Self { total_mib: total / MIB, available_mib: available / MIB })
    }

    /// In use, as the predecessor's monitor counts it: total less available, MiB.
    pub fn used_mib(self) -> f64 {
        self.total_mib - self.available_mib
    }

    /// Less than the part is free that should stay so.
    pub fn is_scarce(self) -> bool {
        self.available_mib < FREE_PART * self.total_mib
    }

    /// For people.
    pub fn line(self) -> String {
        format!(
            "system memory: {:.1} of {:.1} MiB used, {:.0} % free{}",
            self.used_mib(),
            self.total_mib,
            100.0 * self.available_mib / self.total_mib,
            if self.is_scarce() { " (less than 20 %: close other programs)" } else { "" }
        )
    }
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Watched {
    /// Most memory in use by all programs, MiB; none where the system does not tell.
    pub peak_used_mib: Option<f64>,
}

/// A thread that reads the memory until it is stopped.
pub struct MemoryWatch {
    stop: Sender<()>,
    /// None where the system gave no thread.
    thread: Option<JoinHandle<Watched>>,
}

impl MemoryWatch {
    /// Starts to look; a line goes to standard error every `every`, none where that is zero.
    pub fn start(label: &str, every: Duration) -> Self {
        let (stop, stopped) = channel();
        let label = label.to_owned();
        let thread = threads::spawn("memory", move || {
            let mut watched = Watched::default();
            let mut told = Instant::now();
            loop {
                if let Some(memory) = SystemMemory::now() {
                    let used = memory.used_mib();
                    let peak = watched.peak_used_mib.map_or(used, |peak: f64| peak.max(used));
                    watched.peak_used_mib = Some(peak);
                    if !every.is_zero() && told.elapsed() >= every {
                        told = Instant::now();
                        eprintln!("[MEMORY] {label}: {}", memory.line());
                    }
                }
                if !matches!(stopped.recv_timeout(PERIOD), Err(RecvTimeoutError::Timeout)) {
                    return watched;
                }
            }
        });
        let thread = thread.inspect_err(|error| log::warn!("the memory is not watched: {error:#}"));
        Self { stop, thread: thread.ok() }
    }

    /// Stops; what was seen.
    pub fn stop(self) -> Watched {
        // One that is gone already needs no word.
        let _ = self.stop.send(());
        self.thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_said_to_be_little() {
        let memory = SystemMemory { total_mib: 32000.0, available_mib: 4882.8125 };
        assert!(memory.is_scarce() && memory.line().contains("less than 20 %"));
        assert!(!SystemMemory { available_mib: 6400.0, ..memory }.is_scarce());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_watch_sees_a_peak() {
        let watch = MemoryWatch::start("test", Duration::ZERO);
        std::thread::sleep(Duration::from_millis(50));
        let seen = watch.stop().peak_used_mib.unwrap();
        assert!(seen > 0.0 && seen <= SystemMemory::now().unwrap().total_mib);
    }
}
