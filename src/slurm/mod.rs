/*!
Slurm's part of an experiment: an array of jobs, one task a shard, submitted, waited for, and its
failed tasks run again.

```text
script (written into the experiment) ─→ sbatch ─→ tasks ─→ shards/I-of-N, slurm/ended/JOB_TASK (the exit code)
                                                     ↑
                                      squeue: which of them are still waiting or running
```

Whether a task did well is told by the file that it leaves and by nothing else: accounting (sacct)
is not everywhere. A task that is neither in the queue nor has left its file was killed, or its node
is gone.
*/

mod array;
mod queue;
mod script;
mod watch;

pub use array::Array;
pub use queue::{Commands, Live};
pub use script::{Script, command_line};
pub use watch::{Ending, Watch, endings};

/// What is missing where there is no sbatch.
pub const INSTALL: &str = "Slurm's commands sbatch and squeue are not on PATH: work on a login \
                           node of the cluster, or install them (Debian, Ubuntu: apt-get install \
                           slurm-client); --dry-run writes the script and submits nothing";

/// Words of sbatch that are the experiment's own, or that it cannot follow: jobs of another cluster
/// have other numbers.
pub const OWNED: [&str; 8] =
    ["--array", "-a", "--wrap", "--parsable", "--test-only", "--wait", "--clusters", "-M"];
