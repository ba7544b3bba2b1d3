/*!
Experiments: the machine, its models, a folder with all settings, and the steps.

```text
arguments ─→ Spec ─→ nsight_experiment_PLATFORM_TIME/
                       experiment_config.txt   the predecessor's lines
                       experiment.json         all that a later --resume needs
                       profile_outputs/        the timed bench, unprofiled
                       shards/I-of-N/          shards, if several GPUs or machines measure
                       nsight_reports/         the same objects again, under nsys
```

Each step is a child process, so no step affects the numbers of another.
*/

mod config_file;
mod folder;
mod platform;
mod sharding;
mod spec;
mod step;

pub use config_file::render as render_config;
pub use folder::Folder;
pub use platform::PlatformKind;
pub use sharding::{By, Sharding, SlurmJobs, Submission};
pub use spec::{Ran, Spec};
pub use step::{STOPPED, Step, run_step};
