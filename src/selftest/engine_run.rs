/*!
Runs one case of an engine: once for its values, often for its times, enqueued and as a CUDA graph.
*/

use anyhow::{Context, Result};

use super::case::Case;
use super::record::{Cost, LayerCost, Timing};
use super::tensor::{POISON, Readback, Tensor};
use cuda::{Gpu, Stream};
use execution::StandaloneEngine;
use tensorrt::{DataType, Engine, LayerTime, Mode};
use vos::stats;

/// How often a case is run for its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Repeats {
    /// Runs before, not counted.
    pub warmup: usize,
    /// Runs that are timed.
    pub runs: usize,
    /// Runs in which each layer is timed by itself; 0 for none.
    #[serde(default)]
    pub layer_runs: usize,
}

/// An output of a case.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// Its values after one enqueued run.
    pub enqueued: Readback,
    /// Its values after one replay of the CUDA graph; none where there is no graph.
    pub replayed: Option<Readback>,
}

/// The inputs as the engine will see them: without those that it lacks, rounded to its types.
///
/// # Errors
/// An engine with an input that its graph does not declare.
pub fn fit(engine: &Engine, inputs: &mut [Tensor]) -> Result<()> {
    for info in engine.tensors()?.into_iter().filter(|info| info.mode == Mode::Input) {
        let found = inputs.iter_mut().find(|tensor| tensor.name == info.name);
        let tensor = found.with_context(|| {
            format!("the engine has an input '{}' that its bundle does not declare", info.name)
        })?;
        tensor.round_to(info.dtype.unwrap_or(DataType::Float));
    }
    Ok(())
}

/// Runs a case on inputs that [`fit`] prepared.
pub fn run(
    gpu: &Gpu,
    engine: &Engine,
    case: &Case,
    inputs: &[Tensor],
    repeats: Repeats,
) -> Result<(Vec<Output>, Cost)> {
    let mut execution = StandaloneEngine::new(gpu, engine, "tested", case.profile, &case.shapes)?;
    let ports: Vec<_> = execution.tensors().cloned().collect();
    for port in ports.iter().filter(|port| port.mode == Mode::Input) {
        let found = inputs.iter().find(|tensor| tensor.name == port.name);
        let tensor = found.with_context(|| format!("input '{}' is missing", port.name))?;
        execution.set_input(&port.name, &tensor.bytes(port.dtype)?)?;
    }
    let read = |execution: &mut StandaloneEngine| -> Result<Vec<(String, Readback)>> {
        let outputs = ports.iter().filter(|port| port.mode == Mode::Output);
        outputs
            .map(|port| {
                let bytes = execution.output(&port.name)?;
                Ok((port.name.clone(), Readback::new(&port.name, &bytes, port.dtype)?))
            })
            .collect()
    };

    execution.fill_outputs(POISON)?;
    execution.enqueue()?;
    execution.stream().synchronize()?;
    let enqueued = read(&mut execution)?;
    let mut cost = Cost { context_bytes: execution.scratch_bytes(), ..Cost::default() };
    let stream = execution.stream().clone();
    cost.enqueue = Timing::of(&times(gpu, &stream, repeats, || execution.enqueue())?);

    let mut replayed = None;
    match execution.record() {
        Ok(()) => {
            execution.fill_outputs(POISON)?;
            execution.replay()?;
            execution.stream().synchronize()?;
            replayed = Some(read(&mut execution)?);
            cost.graph = Timing::of(&times(gpu, &stream, repeats, || execution.replay())?);
        }
        // An engine that cannot be recorded still runs.
        Err(error) => cost.graph_problem = Some(format!("{error:#}")),
    }
    // Last, for the profiler stays in the context and keeps layers from running into each other.
    if repeats.layer_runs > 0 {
        cost.layers = layer_costs(&execution.layer_times(repeats.layer_runs)?);
    }
    Ok((outputs(enqueued, replayed), cost))
}

/// What was read after each way to run, output by output, in the same order both times.
pub(super) fn outputs(
    enqueued: Vec<(String, Readback)>,
    replayed: Option<Vec<(String, Readback)>>,
) -> Vec<Output> {
    let mut replayed = replayed.map(Vec::into_iter);
    let output = |(name, enqueued)| {
        let replayed = replayed.as_mut().and_then(Iterator::next).map(|(_, read)| read);
        Output { name, enqueued, replayed }
    };
    enqueued.into_iter().map(output).collect()
}

/// Each layer's median over the runs, in the order in which the engine runs them.
fn layer_costs(runs: &[Vec<LayerTime>]) -> Vec<LayerCost> {
    let Some(first) = runs.first() else { return Vec::new() };
    let median = |(index, layer): (usize, &LayerTime)| {
        // A layer's name may come twice; its place in the run does not.
        let times = runs.iter().filter_map(|run| Some(f64::from(run.get(index)?.milliseconds)));
        let median_ms = stats::median(&times.collect::<Vec<_>>())?;
        Some(LayerCost { layer: layer.layer.clone(), median_ms })
    };
    first.iter().enumerate().filter_map(median).collect()
}

/// Milliseconds of single runs on `stream`, each begun when it is idle.
pub(super) fn times(
    gpu: &Gpu,
    stream: &Stream,
    repeats: Repeats,
    mut enqueue: impl FnMut() -> Result<()>,
) -> Result<Vec<f64>> {
    for _ in 0..repeats.warmup {
        enqueue()?;
    }
    stream.synchronize()?;
    let (start, end) = (gpu.event()?, gpu.event()?);
    (0..repeats.runs)
        .map(|_| {
            start.record(stream)?;
            enqueue()?;
            end.record(stream)?;
            Ok(end.ms_since(&start)?)
        })
        .collect()
}
