/*!
What holds a group back, each with the numbers that say so: a hint without evidence is an opinion.
*/

use serde::Serialize;

use super::group::Group;
use crate::input::NsysReport;
use vos::record::Limit;

/// Part of the latency without work on the GPU from which the host is to blame.
const HOST_SHARE: f64 = 0.10;
/// Part of the latency that copies may take.
const TRANSFER_SHARE: f64 = 0.20;
/// Mean clock over the highest clock below which the GPU is slower than it could be.
const CLOCK_SHARE: f64 = 0.90;
/// Power over its limit from which it is the limit that counts.
const POWER_SHARE: f64 = 0.97;
/// Memory in use from which a board is nearly full, %.
const MEMORY_PERCENT: f64 = 80.0;
/// 99th percentile over the median from which frames come unevenly.
const TAIL: f64 = 1.5;
/// Utilisation below which a GPU whose frames overlap is waiting, %.
const UTILISATION_PERCENT: f64 = 70.0;

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hint {
    /// Group or profile it speaks of.
    pub about: String,
    /// A word for it.
    pub code: &'static str,
    /// What follows.
    pub sentence: &'static str,
    /// The numbers.
    pub evidence: String,
}

/// Of all groups, in their order.
pub fn hints(groups: &[Group]) -> Vec<Hint> {
    groups.iter().filter(|group| group.counts.measured > 0).flat_map(of).collect()
}

/// Of profiles.
pub fn of_profiles(reports: &[NsysReport]) -> Vec<Hint> {
    let low = |report: &&NsysReport| {
        report.faults.is_empty()
            && report.gpu_util_percent.is_some_and(|util| util < UTILISATION_PERCENT)
    };
    let hint = |report: &NsysReport| Hint {
        about: report.name.clone(),
        code: "host-bound",
        sentence: "The GPU waits for the host: fewer and larger launches (CUDA graphs), or frames that overlap, would fill it.",
        evidence: format!(
            "the profile shows work on the GPU in {:.0} % of the time",
            report.gpu_util_percent.unwrap_or(0.0)
        ),
    };
    reports.iter().filter(low).map(hint).collect()
}

/// A word, what follows, and the numbers.
type Finding = (&'static str, &'static str, String);

fn of(group: &Group) -> impl Iterator<Item = Hint> {
    let found = [host(group), transfer(group), decoding(group), throttling(group), clock(group)];
    let found = found.into_iter().chain([power(group), memory(group), unevenness(group)]).flatten();
    let hint =
        |(code, sentence, evidence)| Hint { about: group.full_name(), code, sentence, evidence };
    found.map(hint)
}

/// The GPU's pauses: within a frame, or, where frames overlap, at all.
fn host(group: &Group) -> Option<Finding> {
    if group.overlapping() {
        let util = group.mean("gpu_util").filter(|util| *util < UTILISATION_PERCENT)?;
        return Some((
            "host-bound",
            "Frames overlap and the GPU is idle all the same: decoding or the host's own work does not keep up.",
            format!("gpu_util is {util:.0} % on average; {UTILISATION_PERCENT:.0} % would be busy"),
        ));
    }
    let frame = group.stages.as_ref().map(|stages| stages.frame_ms);
    let latency = frame.or_else(|| Some(1000.0 / group.mean("fps")?))?;
    let gpu = group.mean("gpu_ms")?;
    let share = (latency - gpu) / latency;
    (share > HOST_SHARE).then(|| {
        (
            "host-bound",
            "The GPU waits for the host between its pieces of work: CUDA graphs, a faster processor, or frames that overlap (--mode throughput) would help.",
            format!(
                "{:.0} % of a frame's {latency:.2} ms are without work on the GPU ({gpu:.2} ms by its own clock)",
                100.0 * share
            ),
        )
    })
}

fn transfer(group: &Group) -> Option<Finding> {
    // Predecoded frames come out of a file: no link is crossed. Stages of frames that overlap are
    // no shares of a frame.
    let stages = group.stages.as_ref().filter(|stages| !stages.overlapping)?;
    let copies = |column| stages.per_frame(column).unwrap_or(0.0);
    let share = (copies("upload_ms") + copies("download_ms")) / stages.frame_ms;
    (share > TRANSFER_SHARE && !group.conditions.are_predecoded()).then(|| {
        (
            "transfer-bound",
            "Copies between host and device take a good part of the frame: pinned memory, smaller frames, or masks that stay on the device.",
            format!("upload and download are {:.0} % of a frame's {:.2} ms", 100.0 * share, stages.frame_ms),
        )
    })
}

fn decoding(group: &Group) -> Option<Finding> {
    let stages = group.stages.as_ref()?;
    let decode = stages.per_frame("decode_ms").filter(|decode| *decode > stages.frame_ms)?;
    Some((
        "decode-bound",
        "One thread decodes more slowly than the network runs: decode on several threads, or in hardware, where frames come from files.",
        format!(
            "decoding takes {decode:.2} ms a frame, the network {:.2} ms: {:.0} threads keep up",
            stages.frame_ms,
            (decode / stages.frame_ms).ceil()
        ),
    ))
}

fn throttling(group: &Group) -> Option<Finding> {
    let limits = Limit::ALL.into_iter().filter(|limit| limit.is_throttling());
    let held = limits.filter_map(|limit| {
        Some(format!("{} in {} rows", limit.word(), group.throttle.get(limit.word())?))
    });
    let held = held.collect::<Vec<_>>().join(", ");
    (!held.is_empty()).then(|| {
        (
            "throttled",
            "The clocks were held down: the board can do more than was measured, or cannot hold what was measured.",
            format!("{held} of {}", group.counts.rows),
        )
    })
}

fn clock(group: &Group) -> Option<Finding> {
    let (clock, most) =
        group.mean("sm_clock_mhz_mean").zip(group.gpu_facts.get("sm_clock_max_mhz"))?;
    (clock < CLOCK_SHARE * most).then(|| {
        (
            "low-clock",
            "The GPU did not run at its highest clock: look at power mode and application clocks before comparing boards.",
            format!("{clock:.0} MHz on average, the board can do {most:.0} MHz"),
        )
    })
}

fn power(group: &Group) -> Option<Finding> {
    let (power, limit) = group.mean("power_w").zip(group.gpu_facts.get("power_limit_w"))?;
    (power > POWER_SHARE * limit).then(|| {
        (
            "power-bound",
            "The board is at its power limit: more speed would need more power.",
            format!("{power:.0} W of {limit:.0} W"),
        )
    })
}

fn memory(group: &Group) -> Option<Finding> {
    let memory = group.device_memory.as_ref().filter(|memory| memory.percent > MEMORY_PERCENT)?;
    Some((
        "memory-nearly-full",
        "Little memory is left on the device: a longer bank, another object or another process may not fit.",
        format!("{:.0} of {:.0} MiB, {:.0} %", memory.peak_mib, memory.total_mib, memory.percent),
    ))
}

fn unevenness(group: &Group) -> Option<Finding> {
    let frames = group.frames.as_ref().filter(|frames| frames.kind == "latency")?;
    (frames.p99_ms > TAIL * frames.p50_ms).then(|| {
        (
            "uneven",
            "Some frames take much longer than most: something else runs on the machine, or memory is allocated on the way.",
            format!(
                "P99 is {:.2} ms, P50 is {:.2} ms, over {} frames",
                frames.p99_ms, frames.p50_ms, frames.frames
            ),
        )
    })
}
