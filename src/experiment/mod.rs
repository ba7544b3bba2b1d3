/*!
Whole experiments: what the machine is, which models run on it, a folder with everything that was
decided, and the steps.

```text
arguments ─→ Spec ─→ nsight_experiment_PLATFORM_TIME/
                       experiment_config.txt   the predecessor's lines
                       experiment.json         all that a later --resume needs
                       profile_outputs/        the timed bench, unprofiled
                       shards/I-of-N/          its parts, where several GPUs or machines measured them
                       nsight_reports/         the same objects again, under nsys
```

Each step is a child process of this program, so that nothing of one step is in another's numbers.
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
