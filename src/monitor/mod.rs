/*!
Memory of GPU and machine against time, as the predecessor's `monitor_memory.py` logs it.

```text
Sensors (NVML, /proc) → Sample → log line, Peaks, Growth
```

On a Jetson, GPU and host share one memory: the GPU's use is part of the machine's, and the GPU
columns are zero, as in the predecessor's log.
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
