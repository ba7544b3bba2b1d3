/*!
Arguments of `segtrt profile`.
*/

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::profile::Settings;

/// What is recorded of a bench, and how.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt profile -- bench --split-dir demo/split --models edgetam_mini_points --out-dir demo/out\n\n\
    First the bench runs as it is, unprofiled: the rows are from that run alone. Then each object that has numbers is run \
    again under nsys, once for each model and recorded pass, and the column nsight_report of profile_summary.csv names the \
    reports: OUT_DIR/nsight_reports/VIDEO_objOBJECT_TAG_runN.nsys-rep. Look at them with segtrt nsys. A report holds the \
    environment of the program: look through it before you pass it on."
)]
pub struct ProfileArgs {
    /// Record only; the column is filled in rows of an earlier bench with the same settings, where there are any.
    #[arg(long)]
    pub no_timed_run: bool,
    /// APIs to trace.
    #[arg(long, env = "NSYS_TRACE", default_value = crate::profile::USUAL_TRACE, value_name = "LIST")]
    pub trace: String,
    /// Sampling of the CPU: none, process-tree or system-wide.
    #[arg(long, env = "NSYS_SAMPLE", default_value = "none")]
    pub sample: String,
    /// Backtraces of samples: none, lbr, fp or dwarf.
    #[arg(long, env = "NSYS_BACKTRACE", default_value = "none")]
    pub backtrace: String,
    /// Folder of the reports [default: OUT_DIR/nsight_reports].
    #[arg(long, env = "NSYS_OUTPUT_DIR", value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
    /// Put before each report's name; nsys's %p, %h and %q{VARIABLE} work.
    #[arg(long, env = "NSYS_OUTPUT_NAME", value_name = "NAME")]
    pub output_name: Option<String>,
    /// Sample the counters of these GPUs, by nsys's numbers, or all: SM and tensor activity, memory bandwidth. The driver must
    /// let this user read them.
    #[arg(long, value_name = "GPUS")]
    pub gpu_metrics: Option<String>,
    /// Write each report's SQLite export beside it.
    #[arg(long)]
    pub export_sqlite: bool,
    /// Print one JSON document instead of the tables; so does --json among the bench's flags.
    #[arg(long)]
    pub json: bool,
    /// The bench: `bench` and its flags.
    #[arg(last = true, required = true, value_name = "bench …")]
    pub command: Vec<OsString>,
}

impl ProfileArgs {
    /// How reports are recorded.
    pub fn settings(&self) -> Settings {
        Settings {
            trace: self.trace.clone(),
            sample: self.sample.clone(),
            backtrace: self.backtrace.clone(),
            gpu_metrics: self.gpu_metrics.clone(),
            export_sqlite: self.export_sqlite,
        }
    }
}
