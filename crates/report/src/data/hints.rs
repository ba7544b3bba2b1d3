/*!
Hints about what limits the speed of a group, each with the numbers as evidence.
*/

use serde::Serialize;

use super::group::Group;
use crate::input::NsysReport;
use vos::record::Limit;

/// Least share of the latency without work on the GPU for which the host is the limit.
const HOST_SHARE: f64 = 0.10;
/// Largest share of the latency for copies without a hint.
const TRANSFER_SHARE: f64 = 0.20;
/// Least mean clock over the highest clock without a hint.
const CLOCK_SHARE: f64 = 0.90;
/// Least power over its limit for which the limit counts.
const POWER_SHARE: f64 = 0.97;
/// Least share of memory in use for which a board is nearly full, %.
const MEMORY_PERCENT: f64 = 80.0;
/// Least 99th percentile over the median for which frames are uneven.
const TAIL: f64 = 1.5;
/// Utilisation below which a GPU with overlapping frames waits, %.
const UTILISATION_PERCENT: f64 = 70.0;

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hint {
    /// The group or profile.
    pub about: String,
    /// A keyword.
    pub code: &'static str,
    /// The conclusion.
    pub sentence: &'static str,
    /// The evidence.
    pub evidence: String,
}

/// Hints of all groups, in their order.
pub fn hints(groups: &[Group]) -> Vec<Hint> {
    groups.iter().filter(|group| group.counts.measured > 0).flat_map(of).collect()
}

/// Hints of profiles.
pub fn of_profiles(reports: &[NsysReport]) -> Vec<Hint> {
    let low = |report: &&NsysReport| {
        report.faults.is_empty()
            && report.gpu_util_percent.is_some_and(|util| util < UTILISATION_PERCENT)
    };
    let hint = |report: &NsysReport| Hint {
        about: report.name.clone(),
        code: "host-bound",
        sentence: "The GPU waits for the host: CUDA graphs or overlapping frames would keep it \
                   busy.",
        evidence: format!(
            "the GPU works in {:.0} % of the profile's time",
            report.gpu_util_percent.unwrap_or(0.0)
        ),
    };
    reports.iter().filter(low).map(hint).collect()
}

/// Keyword, conclusion, evidence.
type Finding = (&'static str, &'static str, String);

fn of(group: &Group) -> impl Iterator<Item = Hint> {
    let found = [host(group), transfer(group), decoding(group), throttling(group), clock(group)];
    let found = found.into_iter().chain([power(group), memory(group), unevenness(group)]).flatten();
    let hint =
        |(code, sentence, evidence)| Hint { about: group.full_name(), code, sentence, evidence };
    found.map(hint)
}

/// Pauses of the GPU: within a frame, or, if frames overlap, overall.
fn host(group: &Group) -> Option<Finding> {
    if group.overlapping() {
        let util = group.mean("gpu_util").filter(|util| *util < UTILISATION_PERCENT)?;
        return Some((
            "host-bound",
            "Frames overlap and the GPU still waits: decoding or other work of the host is too \
             slow.",
            format!("gpu_util is {util:.0} % on average, below {UTILISATION_PERCENT:.0} %"),
        ));
    }
    let frame = group.stages.as_ref().map(|stages| stages.frame_ms);
    let latency = frame.or_else(|| Some(1000.0 / group.mean("fps")?))?;
    let gpu = group.mean("gpu_ms")?;
    let share = (latency - gpu) / latency;
    (share > HOST_SHARE).then(|| {
        (
            "host-bound",
            "The GPU waits for the host between kernels: CUDA graphs, a faster CPU, or overlapping \
             frames (--mode throughput) would help.",
            format!(
                "{:.0} % of a frame's {latency:.2} ms are without work on the GPU (GPU time \
                 {gpu:.2} ms)",
                100.0 * share
            ),
        )
    })
}

fn transfer(group: &Group) -> Option<Finding> {
    // Predecoded frames come from a file and cross no link. Stages of overlapping frames are not
    // shares of a frame.
    let stages = group.stages.as_ref().filter(|stages| !stages.overlapping)?;
    let copies = |column| stages.per_frame(column).unwrap_or(0.0);
    let share = (copies("upload_ms") + copies("download_ms")) / stages.frame_ms;
    (share > TRANSFER_SHARE && !group.conditions.are_predecoded()).then(|| {
        (
            "transfer-bound",
            "Copies between host and device take a large part of the frame: use pinned memory, \
             smaller frames, or masks that stay on the device.",
            format!(
                "upload and download are {:.0} % of a frame's {:.2} \
                     ms",
                100.0 * share,
                stages.frame_ms
            ),
        )
    })
}

fn decoding(group: &Group) -> Option<Finding> {
    let stages = group.stages.as_ref()?;
    let decode = stages.per_frame("decode_ms").filter(|decode| *decode > stages.frame_ms)?;
    Some((
        "decode-bound",
        "One decoding thread is slower than the network: decode on several threads or in hardware \
         if frames come from files.",
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
        // Rows that the board sustains at its power limit have a hint of their own.
        let own = if limit == Limit::PowerCap { group.power_limited } else { 0 };
        let rows = group.throttle.get(limit.word())?.checked_sub(own).filter(|rows| *rows > 0)?;
        Some(format!("{} in {rows} rows", limit.word()))
    });
    let held = held.collect::<Vec<_>>().join(", ");
    (!held.is_empty()).then(|| {
        (
            "throttled",
            "The clocks were throttled: the board is faster without the limit, or cannot sustain \
             this speed.",
            format!("{held} of {}", group.counts.rows),
        )
    })
}

fn clock(group: &Group) -> Option<Finding> {
    let (clock, most) =
        group.mean("sm_clock_mhz_mean").zip(group.gpu_facts.get("sm_clock_max_mhz"))?;
    // Where the power limit lowered all of them, its hint tells.
    (clock < CLOCK_SHARE * most && group.power_limited < group.counts.measured).then(|| {
        (
            "low-clock",
            "The GPU did not run at its highest clock: check power mode and application clocks \
             before comparing boards.",
            format!("{clock:.0} MHz on average, highest {most:.0} MHz"),
        )
    })
}

fn power(group: &Group) -> Option<Finding> {
    let power = group.mean("power_w").zip(group.gpu_facts.get("power_limit_w"));
    let near = power.is_some_and(|(power, limit)| power > POWER_SHARE * limit);
    let sustained = group.power_limited;
    (near || sustained > 0).then(|| {
        let watts = power.map(|(power, limit)| format!("{power:.0} W of {limit:.0} W"));
        let rows = (sustained > 0).then(|| {
            format!("sustained at the limit in {sustained} rows of {}", group.counts.rows)
        });
        (
            "power-bound",
            "The board is at its power limit: more speed would need more power. Quote the limit \
             with the speed.",
            watts.into_iter().chain(rows).collect::<Vec<_>>().join(", "),
        )
    })
}

fn memory(group: &Group) -> Option<Finding> {
    let memory = group.device_memory.as_ref().filter(|memory| memory.percent > MEMORY_PERCENT)?;
    Some((
        "memory-nearly-full",
        "The device's memory is nearly full: a longer memory bank, another object or another \
         process may not fit.",
        format!("{:.0} of {:.0} MiB, {:.0} %", memory.peak_mib, memory.total_mib, memory.percent),
    ))
}

fn unevenness(group: &Group) -> Option<Finding> {
    let frames = group.frames.as_ref().filter(|frames| frames.kind == "latency")?;
    (frames.p99_ms > TAIL * frames.p50_ms).then(|| {
        (
            "uneven",
            "Some frames take much longer than most: another program uses the machine, or memory \
             is allocated during the run.",
            format!(
                "P99 is {:.2} ms, P50 is {:.2} ms, over {} frames",
                frames.p99_ms, frames.p50_ms, frames.frames
            ),
        )
    })
}
