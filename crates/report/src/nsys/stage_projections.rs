/*!
Mean projections of a benchmark's stages, for the rows of the run that a report was recorded of.
*/

use std::path::Path;

use anyhow::{Result, bail};

use super::export::read;
use super::filter::without_warmup;
use super::projection::project;
use super::trace::Trace;
use vos::record::StageTimes;
use vos::stage::Stage;
use vos::stats::mean;

/// Mean projection of each stage on the GPU in a report or an export, ms. Warm-up passes are
/// omitted.
///
/// # Errors
/// The file cannot be read, or no stage in it launched GPU work.
pub fn stage_projections(file: &Path) -> Result<StageTimes> {
    let mut trace = read(file)?;
    without_warmup(&mut trace);
    let times = means(&trace);
    if times.known().next().is_some() {
        return Ok(times);
    }
    bail!(
        "{} has no GPU work inside the range of a stage; expected CUDA calls and NVTX ranges of \
         segtrt; record it with: segtrt profile --trace cuda,nvtx",
        file.display()
    )
}

/// Mean projections, ms. A stage has none if one of its ranges has none: the mean would be of other
/// frames than the mean of the events.
fn means(trace: &Trace) -> StageTimes {
    let projected = project(trace);
    StageTimes::each(|stage| {
        if !Stage::ON_GPU.contains(&stage) {
            return None;
        }
        let name = format!("segtrt:{}", stage.range().to_string_lossy());
        let ranges = trace.ranges.iter().filter(|range| trace.text(range.name) == name).count();
        let of_stage =
            projected.iter().filter(|one| trace.text(trace.ranges[one.range].name) == name);
        let times: Vec<f64> = of_stage.map(|one| (one.end - one.start) as f64 / 1e6).collect();
        mean(&times).filter(|_| times.len() == ranges)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nsys::trace::{Call, GpuOp, OpKind, Range, RangeKind};

    /// A range of 100 us, which may launch a kernel that runs so many us.
    fn add(trace: &mut Trace, name: &str, start_us: i64, kernel_us: Option<i64>) {
        let (name, start) = (trace.names.place(name), start_us * 1000);
        let end = start + 100_000;
        let style = RangeKind::PushPop;
        trace.ranges.push(Range { name, style, start, end, thread: 1, same_thread: true });
        let Some(kernel_us) = kernel_us else { return };
        let correlation = (0, start_us);
        let call = Call { name, start: start + 10, end: start + 20, thread: 1, correlation };
        trace.calls.get_or_insert_default().push(call);
        trace.ops.get_or_insert_default().push(GpuOp {
            kind: OpKind::Kernel,
            name,
            start: start + 50_000,
            end: start + 50_000 + kernel_us * 1000,
            device: 0,
            stream: 0,
            memory: [None; 2],
            correlation: Some(correlation),
            bytes: 0,
        });
    }

    #[test]
    fn means_are_of_the_recorded_frames_and_of_whole_stages() {
        let mut trace = Trace::default();
        let warmup = trace.names.place("segtrt:warmup");
        add(&mut trace, "segtrt:encoder", 100, Some(900));
        trace.ranges.push(Range { name: warmup, start: 0, end: 500_000, ..trace.ranges[0] });
        add(&mut trace, "segtrt:encoder", 1000, Some(40));
        add(&mut trace, "segtrt:encoder", 2000, Some(60));
        // Another program's range, a stage of the CPU, a stage whose second range launched nothing.
        add(&mut trace, ":track", 1100, Some(40));
        add(&mut trace, "segtrt:decode", 1200, Some(40));
        add(&mut trace, "segtrt:memory", 1300, Some(40));
        add(&mut trace, "segtrt:memory", 2300, None);
        assert_eq!(without_warmup(&mut trace), 1);
        let found = means(&trace);
        assert_eq!(found, StageTimes::of([(Stage::Encoder, 0.05)]));
    }
}
