/*!
An engine for single runs: a context for one profile with scratch memory, a buffer for each tensor
and a stream.

It is a [`BoundEngine`] that shares nothing: it owns each address that it gives to TensorRT.
*/
#![allow(unsafe_code)]

use anyhow::{Context as _, Result, bail, ensure};

use cuda::graph::Graph;
use cuda::{Gpu, Stream, View};

use super::bound_engine::{BoundEngine, DeviceTensor, TensorDesc};
use tensorrt::{Engine, LayerTime, Mode};

/// An engine with memory for one profile. One run at a time, on one stream.
///
/// Declared in the order of deletion: graph and context, then their memory.
pub struct StandaloneEngine {
    graph: Option<Graph>,
    engine: BoundEngine,
    tensors: Vec<(TensorDesc, View)>,
    scratch_bytes: Option<u64>,
    stream: Stream,
}

impl StandaloneEngine {
    /// A context of `engine` for optimisation profile `profile`. Errors call the engine `name`;
    /// `shapes` has the inputs with open extents.
    ///
    /// # Errors
    /// Shapes that the profile does not allow or that leave others open, too little memory,
    /// TensorRT's own refusals.
    pub fn new(
        gpu: &Gpu,
        engine: &Engine,
        name: &str,
        profile: usize,
        shapes: &[(String, Vec<i64>)],
    ) -> Result<Self> {
        let stream = gpu.stream()?;
        let needed = BoundEngine::scratch_bytes(engine).unwrap_or(0);
        let too_much = || format!("the {name} engine needs {needed} bytes to run in");
        let bytes = usize::try_from(needed).with_context(too_much)?;
        let scratch = View::new(gpu, bytes).with_context(too_much)?;
        let mut bound = BoundEngine::new(gpu, engine, name, (profile, shapes), &scratch, &stream)?;
        let mut tensors = Vec::new();
        for desc in bound.tensors().to_vec() {
            let view = View::new(gpu, desc.bytes()?)?;
            // An input that is never written must not hold what another process left there.
            view.fill(0, &stream)?;
            bound.bind(&desc.name, &DeviceTensor { view: view.clone(), dtype: desc.dtype })?;
            tensors.push((desc, view));
        }
        let of_profile = engine.device_memory(Some(profile));
        let scratch_bytes = of_profile.or_else(|| BoundEngine::scratch_bytes(engine));
        Ok(Self { graph: None, engine: bound, tensors, scratch_bytes, stream })
    }

    /// The engine's inputs and outputs.
    pub fn tensors(&self) -> impl Iterator<Item = &TensorDesc> {
        self.tensors.iter().map(|(desc, _)| desc)
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
        let (desc, buffer) = self.tensor(name)?;
        ensure!(desc.mode == Mode::Input, "tensor '{name}' is an output");
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

    /// Sets every byte of all outputs, so that bytes that a run leaves unwritten show.
    pub fn fill_outputs(&mut self, byte: u8) -> Result<()> {
        let stream = self.stream.clone();
        for (_, buffer) in self.tensors.iter_mut().filter(|(desc, _)| desc.mode == Mode::Output) {
            buffer.fill(byte, &stream)?;
        }
        Ok(())
    }

    /// Enqueues one run; returns before it is done.
    pub fn enqueue(&mut self) -> Result<()> {
        self.engine.enqueue(&self.stream)
    }

    /// Records one run as a CUDA graph, for [`StandaloneEngine::replay`]. Run it once before:
    /// TensorRT prepares on first use.
    ///
    /// # Errors
    /// An engine that cannot be recorded; it can still be enqueued.
    pub fn record(&mut self) -> Result<()> {
        self.stream.synchronize()?;
        let (engine, stream) = (&mut self.engine, &self.stream);
        let enqueue = || engine.enqueue(stream);
        // SAFETY: no memory is named that the work would have to clear.
        self.graph = Some(unsafe { Graph::record(stream, None, enqueue) }?);
        Ok(())
    }

    /// Enqueues the recorded run; returns before it is done.
    pub fn replay(&self) -> Result<()> {
        let Some(graph) = &self.graph else { bail!("no run of this engine was recorded") };
        // SAFETY: the graph uses this value's memory only, which lives as long; drop waits for the
        // stream.
        Ok(unsafe { graph.launch() }?)
    }

    /// Times each layer by itself in `runs` runs. The profiler stays: later runs of this value are
    /// slower.
    ///
    /// # Errors
    /// A TensorRT without a layer profiler.
    pub fn layer_times(&mut self, runs: usize) -> Result<Vec<Vec<LayerTime>>> {
        self.engine.profile_layers()?;
        let mut all = Vec::with_capacity(runs);
        for _ in 0..runs {
            self.enqueue()?;
            self.stream.synchronize()?;
            all.push(self.engine.layer_times()?);
        }
        Ok(all)
    }

    fn tensor(&mut self, name: &str) -> Result<&mut (TensorDesc, View)> {
        let found = self.tensors.iter_mut().find(|(desc, _)| desc.name == name);
        found.with_context(|| format!("the engine has no tensor '{name}'"))
    }
}

impl Drop for StandaloneEngine {
    fn drop(&mut self) {
        // Memory and context must outlive what was enqueued.
        if let Err(error) = self.stream.synchronize() {
            log::debug!("{error}");
        }
    }
}
