/*!
GPU sensors during a measurement: power, clocks, temperature, load, throttling, other processes.

```text
Telemetry ── separate thread ── SensorSource: NVML, or a Jetson's sysfs
    mark() ─→ Window ←─ a reading every 100 ms
    since() ←─ Observed
```

The timed thread makes one mark before the first frame and requests the result after the last. It
reads no sensor itself, and nothing runs between two frames. Memory does not grow with the length of
a pass, because readings are folded into the open windows and dropped.
*/

mod nvml;
mod sampler;
mod source;
mod tegra;
mod window;

use std::path::PathBuf;
use std::time::Duration;

use nvml::NvmlSource;
pub use sampler::{Mark, Telemetry};
pub use source::{Reading, SensorSource};
pub use tegra::Tegra;
pub use window::Window;

/// Default time between two readings.
pub const PERIOD: Duration = Duration::from_millis(100);

/// The watched GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Its index among CUDA's devices.
    pub ordinal: usize,
    /// Its PCI address from CUDA (`00000000:1b:00.0`), because NVML numbers devices in another
    /// order. Without it the CUDA index is used as NVML's.
    pub pci_address: Option<String>,
}

/// Options of watching.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time between two readings.
    pub period: Duration,
    /// NVML's library (default: the driver's `libnvidia-ml.so.1`).
    pub nvml: Option<PathBuf>,
    /// Root of a Jetson's `sys`, `etc`, `proc` and `var`.
    pub root: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self { period: PERIOD, nvml: None, root: PathBuf::from("/") }
    }
}

/// Why a GPU cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// NVML is missing or does not start.
    #[error(
        "NVML does not open: {0}; it comes with the driver (libnvidia-ml.so.1): check that \
         nvidia-smi runs, in a container that the `utility` capability is given"
    )]
    NoNvml(String),
    /// NVML does not show the GPU.
    #[error("NVML does not show GPU {wanted}: {why}; compare with `nvidia-smi -L`")]
    NoDevice {
        /// Address or index.
        wanted: String,
        /// NVML's message.
        why: String,
    },
    /// The thread did not start or died at once.
    #[error("the telemetry thread did not start: {0}; run with fewer threads or more memory")]
    NoThread(String),
}

/// The sensors of a GPU: a Jetson's if it is one, else NVML's.
///
/// # Errors
/// No sensors can be read; the message has the reason.
pub fn open(target: &Target, options: &Options) -> Result<Box<dyn SensorSource>, TelemetryError> {
    if let Some(tegra) = Tegra::open(&options.root) {
        return Ok(Box::new(tegra));
    }
    Ok(Box::new(NvmlSource::open(target, options.nvml.as_deref())?))
}
