/*!
An engine laid out for one profile: context, scratch memory and one buffer a tensor, ready to be enqueued or replayed.

It is a [`Stage`] that shares nothing: the smallest thing that can be run safely, because it owns every address that it gives
to TensorRT.
*/
#![allow(unsafe_code)]

use anyhow::{Context as _, Result, bail, ensure};

use cuda::graph::Graph;
use cuda::{Gpu, Stream, View};

use super::stage::{Placed, Port, Stage};
use tensorrt::{Engine, LayerTime, Mode};

/// An engine with memory for one profile. One run at a time, on one stream.
///
/// Declared in the order of deletion: what runs, then the memory that it runs in.
pub struct Execution {
    graph: Option<Graph>,
    stage: Stage,
    tensors: Vec<(Port, View)>,
    scratch_bytes: Option<u64>,
    stream: Stream,
}

impl Execution {
    /// Lays out `engine`, called `name` in errors, for optimization profile `profile`; `shapes` names the inputs with open
    /// extents.
    ///
    /// # Errors
    /// Shapes that the profile does not allow or that leave others open, too little memory, TensorRT's own refusals.
    pub fn new(
        gpu: &Gpu,
        engine: &Engine,
        name: &str,
        profile: usize,
        shapes: &[(String, Vec<i64>)],
    ) -> Result<Self> {
        let stream = gpu.stream()?;
        let needed = Stage::scratch_bytes(engine).unwrap_or(0);
        let too_much = || format!("the {name} engine needs {needed} bytes to run in");
        let bytes = usize::try_from(needed).with_context(too_much)?;
        let scratch = View::new(gpu, bytes).with_context(too_much)?;
        let mut stage = Stage::new(gpu, engine, name, (profile, shapes), &scratch, &stream)?;
        let mut tensors = Vec::new();
        for port in stage.ports().to_vec() {
            let view = View::new(gpu, Stage::port_bytes(&port)?)?;
            // An input that is never written must not hold what another process left there.
            view.fill(0, &stream)?;
            stage.bind(&port.name, &Placed { view: view.clone(), dtype: port.dtype })?;
            tensors.push((port, view));
        }
        let of_profile = engine.device_memory(Some(profile));
        let scratch_bytes = of_profile.or_else(|| Stage::scratch_bytes(engine));
        Ok(Self { graph: None, stage, tensors, scratch_bytes, stream })
    }

    /// The engine's inputs and outputs.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.tensors.iter().map(|(port, _)| port)
    }

    /// The stream that runs it.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Bytes of scratch memory that the profile needs; none where the context has its own.
    pub fn scratch_bytes(&self) -> Option<u64> {
        self.scratch_bytes
    }

    /// Writes a whole input.
    pub fn set_input(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let stream = self.stream.clone();
        let (port, buffer) = self.tensor(name)?;
        ensure!(port.mode == Mode::Input, "tensor '{name}' is an output");
        let expected = buffer.len();
        ensure!(bytes.len() == expected, "'{name}' takes {expected} bytes, {} came", bytes.len());
        Ok(buffer.upload(bytes, &stream)?)
    }

    /// Reads a whole output, after the work enqueued so far.
    pub fn output(&mut self, name: &str) -> Result<Vec<u8>> {
        let stream = self.stream.clone();
        let (_, buffer) = self.tensor(name)?;
        Ok(buffer.download(&stream)?)
    }

    /// Sets every byte of all outputs, so that what a run leaves unwritten can be told.
    pub fn fill_outputs(&mut self, byte: u8) -> Result<()> {
        let stream = self.stream.clone();
        for (_, buffer) in self.tensors.iter_mut().filter(|(port, _)| port.mode == Mode::Output) {
            buffer.fill(byte, &stream)?;
        }
        Ok(())
    }

    /// Enqueues one run; returns before it is done.
    pub fn enqueue(&mut self) -> Result<()> {
        self.stage.enqueue(&self.stream)
    }

    /// Records one run as a CUDA graph, for [`Execution::replay`]. Run it once before: TensorRT prepares on first use.
    ///
    /// # Errors
    /// An engine that cannot be recorded; it can still be enqueued.
    pub fn record(&mut self) -> Result<()> {
        self.stream.synchronize()?;
        let (stage, stream) = (&mut self.stage, &self.stream);
        let enqueue = || stage.enqueue(stream);
        // SAFETY: it names no memory that the work would have to clear.
        self.graph = Some(unsafe { Graph::record(stream, None, enqueue) }?);
        Ok(())
    }

    /// Enqueues the recorded run; returns before it is done.
    pub fn replay(&self) -> Result<()> {
        let Some(graph) = &self.graph else { bail!("no run of this engine was recorded") };
        // SAFETY: the graph names this value's memory only, which lives as long; drop waits for the stream.
        Ok(unsafe { graph.launch() }?)
    }

    /// Times each layer by itself in `runs` runs; the profiler stays, so it is the last that is asked of this value.
    ///
    /// # Errors
    /// A TensorRT without a layer profiler.
    pub fn layer_times(&mut self, runs: usize) -> Result<Vec<Vec<LayerTime>>> {
        self.stage.profile_layers()?;
        let mut all = Vec::with_capacity(runs);
        for _ in 0..runs {
            self.enqueue()?;
            self.stream.synchronize()?;
            all.push(self.stage.layer_times()?);
        }
        Ok(all)
    }

    fn tensor(&mut self, name: &str) -> Result<&mut (Port, View)> {
        let found = self.tensors.iter_mut().find(|(port, _)| port.name == name);
        found.with_context(|| format!("the engine has no tensor '{name}'"))
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        // Memory and context must outlive what was enqueued.
        if let Err(error) = self.stream.synchronize() {
            log::debug!("{error}");
        }
    }
}
