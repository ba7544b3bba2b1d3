/*!
What the GPU's sensors say while it is measured: power, clocks, temperature, load, what holds it
back, who else is on it.

```text
Telemetry ── its own thread ── Source: NVML, or a Jetson's sysfs
    mark() ─→ Window ←─ a reading every 100 ms
    since() ←─ Observed
```

The thread that is timed makes one mark before the first frame and asks for the result after the
last; it calls no sensor itself and nothing of this happens between two frames. Memory does not grow
with the length of a pass: readings are folded into the open windows and forgotten.
*/

mod nvml;
mod sampler;
mod source;
mod tegra;
mod window;

use std::path::PathBuf;
use std::time::Duration;

pub use sampler::{Mark, Telemetry};
pub use source::{Reading, Source, open};
pub use tegra::Tegra;
pub use window::Window;

/// Time between two readings, unless said otherwise.
pub const PERIOD: Duration = Duration::from_millis(100);

/// The GPU that is to be watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Its place among the devices that CUDA shows.
    pub ordinal: usize,
    /// Its PCI address as CUDA says it (`00000000:1b:00.0`): NVML counts devices in another order.
    /// Without one the ordinal is taken for NVML's.
    pub pci_address: Option<String>,
}

/// How to watch.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time between two readings.
    pub period: Duration,
    /// NVML's library [`libnvidia-ml.so.1` of the driver].
    pub nvml: Option<PathBuf>,
    /// Where a Jetson's `sys`, `etc`, `proc` and `var` are looked for.
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
    /// NVML is not there or does not start.
    #[error(
        "NVML does not open: {0}; it comes with the driver (libnvidia-ml.so.1): check that nvidia-smi runs, in a \
         container that the `utility` capability is given"
    )]
    NoNvml(String),
    /// NVML does not know the GPU.
    #[error("NVML does not show GPU {wanted}: {why}; compare with `nvidia-smi -L`")]
    NoDevice {
        /// Address or ordinal.
        wanted: String,
        /// NVML's words.
        why: String,
    },
    /// The thread did not start or died at once.
    #[error("the telemetry thread did not start: {0}; run with fewer threads or more memory")]
    NoThread(String),
}
