/*!
The child: builds one plan after another and reports the result of each.

It keeps the objects that take long to open and are the same for all jobs, and creates all others
for each job. It ends with its parent: standard input stays open as long as the parent lives.
*/

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result};

use super::configure::configure;
use super::failure::Failure;
use super::job::{BuildJob, Built, Event, FailureKind};
use super::log_progress::Steps;
use super::plan_file;
use crate::engine::fp32_pins::Fp32Pins;
use crate::engine::timing_files::{Stack, Start, TimingFiles};
use crate::engine::{BuildCost, Builder as MadeBy};
use cuda::Gpu;
use execution::TensorRtMemory;
use host::child;
use host::process_memory;
use tensorrt::{
    Builder, Config, DataType, Library, LogListener, Network, Plan, Runtime, Stop, Typing,
};
use vos::telemetry::{self, Options, Target};

/// What is kept from job to job; the parent gives no child a job of another place. Declared in the
/// order of deletion.
struct Open {
    /// Builds nothing: TensorRT (8.2 on) unloads its kernels with the last builder, and loading
    /// them again takes the seconds that a child that stays is to save.
    _spare: Builder,
    /// None where plans are built ahead of time.
    gpu: Option<Gpu>,
    library: Library,
}

/// Runs the jobs on standard input.
pub fn run() -> Result<()> {
    let mut open = None;
    for (number, job) in child::jobs::<BuildJob>().enumerate() {
        let job = job?;
        // The first one's peak is with the opening; the next one's is its own only where the kernel
        // lets it begin anew.
        let own_peak = number == 0 || process_memory::reset_peak();
        match logged(&mut open, &job) {
            Ok(mut built) => {
                built.cost.peak_host_bytes = built.cost.peak_host_bytes.filter(|_| own_peak);
                child::send(&Event::Built(Box::new(built)))?;
            }
            Err(failure) => child::send(&Event::Failed {
                kind: failure.kind,
                reason: format!("{:#}", failure.error),
            })?,
        }
        child::send(&Event::Idle)?;
    }
    Ok(())
}

/// Builds while TensorRT's log goes to this job's steps and file, and to no other's.
fn logged(open: &mut Option<Open>, job: &BuildJob) -> Result<Built, Failure> {
    let library = match open {
        Some(open) => open.library.clone(),
        None => crate::tensorrt_library::open(job.tensorrt_lib.as_deref())?,
    };
    let profiles = job.settings.profiles.len();
    let steps = Arc::new(Steps::new(profiles, |done, total, doing| {
        // A parent that is gone ends this process by other means.
        let _ = child::send(&Event::Progress { done, total, doing: doing.to_owned() });
    }));
    library.on_log(Some(listener(job.log.as_deref(), steps.clone()).map_err(Failure::other)?));
    let built = match open {
        Some(open) => build(open, job, steps),
        None => opened(&library, job).and_then(|new| build(open.insert(new), job, steps)),
    };
    library.on_log(None);
    built
}

fn opened(library: &Library, job: &BuildJob) -> Result<Open, Failure> {
    let gpu = match job.settings.targets.as_slice() {
        [] => Some(Gpu::open(job.device).map_err(Failure::other)?),
        _ => None,
    };
    Ok(Open { _spare: Builder::new(library)?, gpu, library: library.clone() })
}

/// The driver's release, or a Jetson's, and the CUDA that it brings.
fn driver(gpu: &Gpu) -> String {
    let facts = gpu.facts();
    let target = Target { ordinal: facts.ordinal, pci_address: gpu.pci_address().ok() };
    let known = telemetry::open(&target, &Options::default()).map(|source| source.facts());
    let known = known.unwrap_or_default();
    let release = ["driver", "l4t"].into_iter().find_map(|name| known.get(name)?.as_str());
    format!("driver {} with CUDA {}", release.unwrap_or("of unknown release"), facts.driver_cuda)
}

fn build(open: &Open, job: &BuildJob, steps: Arc<Steps>) -> Result<Built, Failure> {
    let Open { gpu, library, .. } = open;
    let builder = Builder::new(library)?;
    if let Some(gpu) = gpu {
        builder.set_memory(Arc::new(TensorRtMemory::new(gpu)), job.settings.memory_bytes)?;
    }
    let (mut network, pinned) = network(job, &builder)?;
    let some_pinned = pinned.as_ref().is_some_and(|names| !names.is_empty());
    let mut config = configure(&builder, &job.settings, some_pinned)?;
    let tensorrt = library.version().to_string();
    let device = gpu.as_ref().map_or_else(|| "no GPU".to_owned(), |gpu| gpu.facts().name.clone());
    // Ahead of time nothing is timed.
    let files = job.timing_cache.as_ref().filter(|_| gpu.is_some());
    let driver = gpu.as_ref().map_or_else(String::new, driver);
    let stack = Stack { tensorrt: &tensorrt, device: &device, driver: &driver };
    let mut begun = files.map_or_else(Start::default, |files| {
        files.start(stack, |bytes| Ok(config.set_timing_cache(bytes)?))
    });
    let mut notes = std::mem::take(&mut begun.notes);
    config.watch(steps, Stop::default())?;
    let start = Instant::now();
    let plan = builder.build(&mut network, &mut config, &job.what)?;
    let seconds = start.elapsed().as_secs_f64();
    if let (true, Some(files)) = (begun.keeps, files) {
        match keep(files, stack, begun.cache.as_deref(), &mut config) {
            Ok(note) => notes.extend(note),
            Err(error) => notes.push(format!("the timing cache is not kept: {error:#}")),
        }
    }
    let mut cost = BuildCost {
        seconds,
        warm_cache: begun.cache.is_some(),
        peak_host_bytes: process_memory::peak_rss_mib().map(|mib| (mib * 1048576.0) as u64),
        peak_device_bytes: builder.memory_use().map(|usage| usage.peak),
        context_bytes: None,
        weights_bytes: None,
        pinned_layers: pinned,
    };
    let bytes = plan.bytes();
    let sha256 = plan_file::write(&job.partial, bytes).map_err(|error| Failure {
        kind: FailureKind::Disk,
        error: plan_file::write_error(&job.partial, bytes.len(), &error),
    })?;
    drop((network, config, builder));
    let layers = match gpu {
        Some(gpu) => Some(look_inside(library, gpu, &plan, job, &mut cost)?),
        None => None,
    };
    Ok(Built {
        sha256,
        bytes: bytes.len() as u64,
        made_by: made_by(job, tensorrt, gpu.as_ref()),
        cost,
        layers,
        notes,
    })
}

/// Saves the timings for later builds; returns a note for the user.
fn keep(
    files: &TimingFiles,
    stack: Stack<'_>,
    begun: Option<&[u8]>,
    config: &mut Config,
) -> Result<Option<String>> {
    // Read before the merge: the state after a failed merge is undefined.
    let timed = config.timing_cache()?;
    files.keep(stack, begun, &timed, |others| {
        config.merge_timing_cache(others)?;
        Ok(config.timing_cache()?)
    })
}

/// The parsed network and, where pinned layers are pinned, the names of the pinned layers.
fn network(job: &BuildJob, builder: &Builder) -> Result<(Network, Option<Vec<String>>), Failure> {
    let typing = if job.settings.strongly_typed { Typing::Strong } else { Typing::Weak };
    let mut network = builder.network(typing)?;
    network.parse_onnx(&job.onnx)?;
    if job.settings.fp32_pins == Fp32Pins::None {
        return Ok((network, None));
    }
    let layers = network.layers();
    let mut names = Vec::new();
    for index in job.settings.fp32_pins.choose(&layers, &job.settings.fp32_layers) {
        network.pin_layer(index, DataType::Float)?;
        names.extend(layers.iter().find(|layer| layer.index == index).map(|l| l.name.clone()));
    }
    Ok((network, Some(names)))
}

/// Opens the plan as a user would, for what only the engine knows, and whether it runs at all.
fn look_inside(
    library: &Library,
    gpu: &Gpu,
    plan: &Plan,
    job: &BuildJob,
    cost: &mut BuildCost,
) -> Result<Vec<crate::engine::LayerRecord>, Failure> {
    let runtime = Runtime::with_memory(library, Arc::new(TensorRtMemory::new(gpu)), None)?;
    let engine = runtime.deserialize(plan.bytes(), &job.what)?;
    cost.weights_bytes = runtime.memory_use().map(|usage| usage.current);
    cost.context_bytes = engine.device_memory(None);
    // TensorRT 8.6.0 built a plan of EdgeTAM at optimization level 0 and then made no context of it.
    drop(engine.context_without_memory().map_err(|error| Failure::unusable(error, &job.what))?);
    let json = engine.layer_information()?;
    if let Some(log) = &job.log {
        let path = log.with_extension("layers.json");
        std::fs::write(&path, &json)
            .with_context(|| format!("cannot write {}", path.display()))
            .map_err(Failure::other)?;
    }
    crate::engine::layers::parse(&json).map_err(Failure::other)
}

fn made_by(job: &BuildJob, tensorrt: String, gpu: Option<&Gpu>) -> MadeBy {
    MadeBy {
        tensorrt,
        sm: gpu.map_or_else(|| job.settings.targets.clone(), |gpu| vec![gpu.facts().sm]),
        device: gpu.map(|gpu| gpu.facts().name.clone()),
        driver_cuda: gpu.map(|gpu| gpu.facts().driver_cuda.clone()),
        segtrt: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Feeds the progress, and the log file where one is wanted.
fn listener(log: Option<&Path>, steps: Arc<Steps>) -> Result<LogListener> {
    let file = log
        .map(|path| {
            std::fs::File::create(path)
                .with_context(|| format!("cannot write the build log {}", path.display()))
        })
        .transpose()?
        .map(Mutex::new);
    let start = Instant::now();
    Ok(Box::new(move |line| {
        steps.hear(line);
        if let Some(Ok(mut file)) = file.as_ref().map(Mutex::lock) {
            // Unbuffered: the line before a crash is the one that matters. A full disk must not end
            // a build that may fit elsewhere.
            let text = format!("{:9.3} {line}\n", start.elapsed().as_secs_f64());
            let _ = file.write_all(text.as_bytes());
        }
    }))
}
