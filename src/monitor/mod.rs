/*!
Memory of GPU and machine against time, as the predecessor's `monitor_memory.py` logs it.

```text
Sensors (NVML, /proc) → Sample → log line, Peaks, Growth
```

On a Jetson GPU and host share their memory: what the GPU uses is part of what the machine uses,
nothing may be added, and the GPU's own columns are zero as they were there.
*/

mod growth;
mod log_file;
mod sample;
mod tree;
mod watch;

pub use growth::{Growth, growth};
pub use log_file::LogFile;
pub use sample::{Amount, Extra, Sample, Sensors};
pub use watch::{Peaks, Settings, Summary, watch};
