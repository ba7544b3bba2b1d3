/*!
An engine laid out for one profile: context, scratch memory and one buffer a tensor, ready to be enqueued or replayed.

This is the smallest thing that can be run safely: it owns every address that it gives to TensorRT.
*/

use anyhow::{Context as _, Result, bail, ensure};

use super::device::Gpu;
use super::graph::Graph;
use super::stream::Stream;
use super::view::View;
use crate::trt::{Context, DataType, Engine, LayerTime, Mode, TensorInfo};

/// One input or output of an [`Execution`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The tensor's name.
    pub name: String,
    /// Its direction.
    pub mode: Mode,
    /// Its element type.
    pub dtype: DataType,
    /// Its extents, all known.
    pub shape: Vec<i64>,
}

/// An engine with memory for one profile. One run at a time, on one stream.
///
/// Declared in the order of deletion: what runs, then the memory that it runs in.
pub struct Execution {
    graph: Option<Graph>,
    context: Context,
    tensors: Vec<(Port, View)>,
    scratch: Option<View>,
    stream: Stream,
}

impl Execution {
    /// Lays out `engine` for optimization profile `profile`; `shapes` names the inputs with open extents.
    ///
    /// # Errors
    /// Shapes that the profile does not allow or that leave others open, too little memory, TensorRT's own refusals.
    pub fn new(
        gpu: &Gpu,
        engine: &Engine,
        profile: usize,
        shapes: &[(String, Vec<i64>)],
    ) -> Result<Self> {
        gpu.bind()?;
        let stream = gpu.stream()?;
        let own = engine.device_memory(Some(profile)).or_else(|| engine.device_memory(None));
        let mut context = match own {
            Some(_) => engine.context_without_memory()?,
            None => engine.context()?,
        };
        // The first context of an engine starts in profile 0; the choice is made once, before the shapes.
        if context.profile() != Some(profile) {
            // SAFETY: the stream belongs to the current context, and its work is waited for below.
            unsafe { context.set_profile(profile, stream.raw()) }?;
            stream.synchronize()?;
        }
        let infos = engine.tensors()?;
        set_shapes(&mut context, &infos, shapes)?;
        let scratch = own.map(|bytes| {
            let needed = || format!("the engine needs {bytes} bytes to run in");
            View::new(gpu, usize::try_from(bytes).with_context(needed)?).with_context(needed)
        });
        let mut execution = Self {
            graph: None,
            context,
            tensors: Vec::new(),
            scratch: scratch.transpose()?,
            stream,
        };
        if let Some(scratch) = &execution.scratch {
            // SAFETY: as much as the engine says, aligned as the driver aligns, used by this context alone, and kept
            // until the context is gone.
            unsafe {
                execution.context.set_device_memory(scratch.address(), scratch.len() as u64)
            }?;
        }
        for info in infos {
            execution.add(gpu, info)?;
        }
        Ok(execution)
    }

    fn add(&mut self, gpu: &Gpu, info: TensorInfo) -> Result<()> {
        let TensorInfo { name, mode, dtype, on_device, .. } = info;
        ensure!(on_device, "tensor '{name}' lies on the host; the graphs of a bundle have no such");
        let dtype = dtype.with_context(|| format!("tensor '{name}' has an unknown type"))?;
        let shape = self.context.shape(&name)?.unwrap_or_default();
        let bytes = bytes(&shape, dtype)
            .with_context(|| format!("the shape of '{name}' is still open: {shape:?}"))?;
        let buffer = View::new(gpu, bytes)?;
        // An input that is never written must not hold what another process left there.
        buffer.fill(0, &self.stream)?;
        // SAFETY: as much memory as the tensor's shape needs; it is kept until the context is gone.
        unsafe { self.context.set_address(&name, buffer.address()) }?;
        self.tensors.push((Port { name, mode, dtype, shape }, buffer));
        Ok(())
    }

    /// The engine's inputs and outputs.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.tensors.iter().map(|(port, _)| port)
    }

    /// The stream that runs it.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Bytes of scratch memory; none where the context has its own.
    pub fn scratch_bytes(&self) -> Option<u64> {
        self.scratch.as_ref().map(|scratch| scratch.len() as u64)
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
        // SAFETY: every address was set by `add` and lives as long as this value, whose drop waits for the stream.
        Ok(unsafe { self.context.enqueue(self.stream.raw()) }?)
    }

    /// Records one run as a CUDA graph, for [`Execution::replay`]. Run it once before: TensorRT prepares on first use.
    ///
    /// # Errors
    /// An engine that cannot be recorded; it can still be enqueued.
    pub fn record(&mut self) -> Result<()> {
        self.stream.synchronize()?;
        let (context, stream) = (&mut self.context, &self.stream);
        // SAFETY: as in `enqueue`; the graph is dropped with the buffers that it names.
        let graph = Graph::record(stream, || unsafe { context.enqueue(stream.raw()) })?;
        self.graph = Some(graph);
        Ok(())
    }

    /// Enqueues the recorded run; returns before it is done.
    pub fn replay(&self) -> Result<()> {
        let Some(graph) = &self.graph else { bail!("no run of this engine was recorded") };
        // SAFETY: the graph names this value's buffers only, which live as long; drop waits for the stream.
        Ok(unsafe { graph.launch() }?)
    }

    /// Times each layer by itself in `runs` runs; the profiler stays, so it is the last that is asked of this value.
    ///
    /// # Errors
    /// A TensorRT without a layer profiler.
    pub fn layer_times(&mut self, runs: usize) -> Result<Vec<Vec<LayerTime>>> {
        self.context.profile_layers(true)?;
        let mut all = Vec::with_capacity(runs);
        for _ in 0..runs {
            self.enqueue()?;
            self.stream.synchronize()?;
            all.push(self.context.layer_times()?);
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

/// Fixes the inputs with open extents, and makes sure that none is left.
pub(super) fn set_shapes(
    context: &mut Context,
    infos: &[TensorInfo],
    shapes: &[(String, Vec<i64>)],
) -> Result<()> {
    for info in infos.iter().filter(|info| info.mode == Mode::Input && info.shape.contains(&-1)) {
        let given = shapes.iter().find(|(name, _)| *name == info.name);
        let (_, shape) =
            given.with_context(|| format!("input '{}' was given no shape", info.name))?;
        context.set_input_shape(&info.name, shape)?;
    }
    let missing = context.missing_shapes().unwrap_or_default();
    ensure!(missing.is_empty(), "the shapes of {} are still open", missing.join(", "));
    Ok(())
}

/// Bytes of a tensor; none where an extent is open or the size is beyond this machine.
pub(super) fn bytes(shape: &[i64], dtype: DataType) -> Option<usize> {
    let extents = shape.iter().map(|&extent| usize::try_from(extent).ok());
    let elements = extents.into_iter().try_fold(1_usize, |n, extent| n.checked_mul(extent?))?;
    Some(elements.checked_mul(dtype.bits())?.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_bits_and_refuse_open_extents() {
        assert_eq!(bytes(&[2, 3], DataType::Half), Some(12));
        assert_eq!(bytes(&[], DataType::Float), Some(4));
        assert_eq!(bytes(&[3], DataType::Int4), Some(2));
        assert_eq!(bytes(&[1, 0, 5], DataType::Float), Some(0));
        assert_eq!(bytes(&[1, -1], DataType::Float), None);
        assert_eq!(bytes(&[i64::MAX, i64::MAX], DataType::Float), None);
    }
}
