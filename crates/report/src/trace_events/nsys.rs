/*!
A report of Nsight Systems: its processes with NVTX ranges and CUDA calls, its GPUs with a thread for
each stream.
*/

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::{Map, json};

use super::{Event, EventTrace};
use crate::nsys::{GpuOp, OpKind, Range, RangeKind, Trace, read};

const US_PER_NS: f64 = 1e-3;
/// A global thread id has the process above its lowest 24 bits.
const PROCESS: u32 = 24;

/// Adds everything with a time in a report.
pub fn add(trace: &mut EventTrace, path: &Path) -> Result<()> {
    let report = read(path)?;
    if report.ranges.is_empty() && report.ops().is_empty() && report.calls().is_empty() {
        bail!(
            "{} has no NVTX range, no CUDA call and no GPU work; the program used none or failed \
             before; run it without nsys first",
            path.display()
        );
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    host(trace, &report, &name);
    gpus(trace, &report, &name);
    trace.other.insert(path.display().to_string(), report.exporter.as_str().into());
    Ok(())
}

fn us(ns: i64) -> f64 {
    ns as f64 * US_PER_NS
}

/// Ranges and calls: each thread of the program is two threads of the trace.
fn host(trace: &mut EventTrace, report: &Trace, name: &str) {
    let threads = report.ranges.iter().map(|range| range.thread);
    let threads = threads.chain(report.calls().iter().map(|call| call.thread));
    let mut processes: BTreeMap<i64, BTreeMap<i64, [u64; 2]>> = BTreeMap::new();
    for thread in threads {
        processes.entry(thread >> PROCESS).or_default().entry(thread).or_default();
    }
    let mut pids: BTreeMap<i64, u64> = BTreeMap::new();
    for (process, threads) in &mut processes {
        let pid = trace.process(&format!("CPU · {name} · process {}", process & 0xff_ffff));
        pids.insert(*process, pid);
        for (at, (thread, tids)) in threads.iter_mut().enumerate() {
            let first = 2 * at as u64 + 1;
            *tids = [first, first + 1];
            let number = thread & 0xff_ffff;
            if report.ranges.iter().any(|range| range.thread == *thread) {
                trace.thread(pid, first, &format!("NVTX · thread {number}"));
            }
            if report.calls().iter().any(|call| call.thread == *thread) {
                trace.thread(pid, first + 1, &format!("CUDA API · thread {number}"));
            }
        }
    }
    let place = |thread: i64| {
        let process = thread >> PROCESS;
        let tids = processes.get(&process).and_then(|threads| threads.get(&thread));
        (pids.get(&process).copied().unwrap_or(0), tids.copied().unwrap_or_default())
    };
    for (at, range) in report.ranges.iter().enumerate() {
        let (pid, [tid, _]) = place(range.thread);
        let text = report.text(range.name);
        match range.style {
            RangeKind::PushPop => {
                let time = (us(range.start), us(range.end - range.start));
                trace.complete((pid, tid), (text, "nvtx"), time, json!({}));
            }
            // These overlap on their thread, and may end on another one.
            RangeKind::StartEnd => asynchronous(trace, (pid, tid), text, at as u64, range),
        }
    }
    for call in report.calls() {
        let (pid, [_, tid]) = place(call.thread);
        let time = (us(call.start), us(call.end - call.start));
        let args = json!({"correlation": call.correlation.1});
        trace.complete((pid, tid), (report.text(call.name), "cuda_api"), time, args);
    }
}

fn asynchronous(
    trace: &mut EventTrace,
    (pid, tid): (u64, u64),
    name: &str,
    id: u64,
    range: &Range,
) {
    for (ph, time) in [("b", range.start), ("e", range.end)] {
        trace.events.push(Event {
            name: name.to_owned(),
            cat: Some("nvtx"),
            ph,
            ts: us(time),
            dur: None,
            pid,
            tid,
            id: Some(id),
            args: Map::new(),
        });
    }
}

/// GPU work: each stream is a thread, and a further one where its operations overlap.
fn gpus(trace: &mut EventTrace, report: &Trace, name: &str) {
    let mut devices: BTreeMap<i64, u64> = BTreeMap::new();
    let mut lanes: BTreeMap<(i64, i64), Vec<(u64, i64)>> = BTreeMap::new();
    let mut threads: BTreeMap<i64, u64> = BTreeMap::new();
    for op in report.ops() {
        let pid = *devices.entry(op.device).or_insert_with(|| {
            let gpu = report.gpus.get(&op.device).map_or("", String::as_str);
            trace.process(&format!("GPU {} · {gpu} · {name}", op.device))
        });
        let lanes = lanes.entry((op.device, op.stream)).or_default();
        let free = lanes.iter_mut().find(|(_, end)| *end <= op.start);
        let tid = match free {
            Some((tid, end)) => {
                *end = op.end;
                *tid
            }
            None => {
                let tid = threads.entry(op.device).or_default();
                *tid += 1;
                let further = match lanes.len() {
                    0 => String::new(),
                    more => format!(" ({})", more + 1),
                };
                trace.thread(pid, *tid, &format!("stream {}{further}", op.stream));
                lanes.push((*tid, op.end));
                *tid
            }
        };
        let time = (us(op.start), us(op.end - op.start));
        let cat = match op.kind {
            OpKind::Kernel => "kernel",
            OpKind::Graph => "cuda_graph",
            OpKind::Copy => "memcpy",
            OpKind::Set => "memset",
        };
        trace.complete((pid, tid), (report.text(op.name), cat), time, args(op));
    }
    for sample in report.samples() {
        // Counters have nsys's numbers of GPUs.
        let pid = *devices.entry(sample.device).or_insert_with(|| {
            trace.process(&format!("GPU {} · counters · {name}", sample.device))
        });
        trace.events.push(Event {
            name: report.text(sample.counter).to_owned(),
            cat: Some("counter"),
            ph: "C",
            ts: us(sample.time),
            dur: None,
            pid,
            tid: 0,
            id: None,
            args: Map::from_iter([("value".to_owned(), sample.value.into())]),
        });
    }
}

fn args(op: &GpuOp) -> serde_json::Value {
    let mut args = Map::new();
    if let Some((_, correlation)) = op.correlation {
        args.insert("correlation".to_owned(), correlation.into());
    }
    if op.kind.is_memory() {
        args.insert("bytes".to_owned(), op.bytes.into());
        for (word, kind) in ["from", "to"].into_iter().zip(op.memory) {
            if let Some(kind) = kind {
                args.insert(word.to_owned(), kind.word().into());
            }
        }
    }
    args.into()
}
