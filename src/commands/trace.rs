/*!
`segtrt trace`.
*/

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::Outcome;
use crate::commands::headings::OUTPUT;
use host::counted;
use report::EventTrace;
use vos::files::atomic;

/// Flags of `segtrt trace`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  segtrt trace demo/out\n  segtrt trace run.nsys-rep --out \
                        run.json\n\nOpen the file at ui.perfetto.dev or chrome://tracing. A run has \
                        durations and no starts: its frames are drawn one after the other, its \
                        stages in the order of the pipeline. A report has all starts.")]
pub struct TraceArgs {
    /// Run folders with sidecar.json; reports of Nsight Systems (.nsys-rep) or exports (.sqlite).
    #[arg(required = true, value_name = "RUN|REPORT")]
    pub inputs: Vec<PathBuf>,
    /// The trace, in the Trace Event format.
    #[arg(short, long, help_heading = OUTPUT, value_name = "FILE", default_value = "trace.json")]
    pub out: PathBuf,
}

/// Writes the trace.
///
/// # Errors
/// An input cannot be read or has no times, or the file cannot be written.
pub fn run(args: TraceArgs) -> Result<Outcome> {
    let trace = EventTrace::of(&args.inputs)?;
    atomic::write(&args.out, |out| {
        serde_json::to_writer(&mut *out, &trace)?;
        Ok(out.write_all(b"\n")?)
    })?;
    if !atomic::is_standard_output(&args.out) {
        let events = counted(trace.events(), "event");
        println!("{}: {events}; open it at ui.perfetto.dev", args.out.display());
    }
    Ok(Outcome::Done)
}
