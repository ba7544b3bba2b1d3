/*!
An engine with a context for one profile, in memory that it shares with others: features that
several engines read, a bank that one engine writes and another reads, scratch memory of engines
that never run at the same time.
*/
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};

use cuda::{Element, Gpu, Stream, View};
use kernels::Output;
use tensorrt::{Context, DataType, Engine, LayerTime, Mode, TensorInfo};

/// TensorRT asks for this alignment of tensors.
const ALIGNMENT: usize = 256;

/// Device memory of a tensor.
#[derive(Clone, Debug)]
pub struct DeviceTensor {
    /// Its memory.
    pub view: View,
    /// Type of its elements.
    pub dtype: DataType,
}

/// One input or output of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorDesc {
    /// The tensor's name.
    pub name: String,
    /// Its direction.
    pub mode: Mode,
    /// Its element type.
    pub dtype: DataType,
    /// Its extents, all known.
    pub shape: Vec<i64>,
}

impl TensorDesc {
    /// Its size, bytes.
    ///
    /// # Errors
    /// An extent is open, or the size is beyond this machine.
    pub fn bytes(&self) -> Result<usize> {
        let Self { name, dtype, shape, .. } = self;
        bytes(shape, *dtype)
            .with_context(|| format!("the shape of '{name}' is still open: {shape:?}"))
    }
}

impl From<Output> for TensorDesc {
    fn from(output: Output) -> Self {
        let dtype = match output.element {
            Element::F32 => DataType::Float,
            Element::F16 => DataType::Half,
        };
        Self { name: output.name, mode: Mode::Output, dtype, shape: output.shape }
    }
}

/// A bound engine that several programs use in turn.
pub type SharedEngine = Rc<RefCell<BoundEngine>>;

/// An engine's context for one profile with the memory that its tensors are bound to.
///
/// Declared in the order of deletion: the context, then its memory.
pub struct BoundEngine {
    context: Context,
    tensors: Vec<TensorDesc>,
    bound: Vec<Option<View>>,
    scratch: Option<View>,
    gpu: Gpu,
    name: String,
}

impl BoundEngine {
    /// A context of `engine` for optimisation profile `profile`. Errors call the engine `name`;
    /// `shapes` has the inputs with open extents. `scratch` is memory of at least
    /// [`BoundEngine::scratch_bytes`]; contexts that share it must not run at the same time.
    /// `stream` carries the choice of the profile.
    ///
    /// # Errors
    /// Shapes that the profile does not allow or that leave others open, too little memory,
    /// TensorRT's own refusals.
    pub fn new(
        gpu: &Gpu,
        engine: &Engine,
        name: &str,
        (profile, shapes): (usize, &[(String, Vec<i64>)]),
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        gpu.bind()?;
        let needed = Self::scratch_bytes(engine);
        let mut context = match needed {
            Some(_) => engine.context_without_memory()?,
            None => engine.context()?,
        };
        if context.profile() != Some(profile) {
            // SAFETY: the stream belongs to the current context, and its work is waited for below.
            unsafe { context.set_profile(profile, stream.raw()) }?;
            stream.synchronize()?;
        }
        let infos = engine.tensors()?;
        set_shapes(&mut context, &infos, shapes).with_context(|| format!("the {name} engine"))?;
        let mut tensors = Vec::new();
        for info in infos {
            let tensor = &info.name;
            ensure!(info.on_device, "tensor '{tensor}' of the {name} engine lies on the host");
            let dtype = info.dtype;
            let dtype = dtype.with_context(|| format!("tensor '{tensor}' has an unknown type"))?;
            let shape = context.shape(tensor)?.unwrap_or_default();
            tensors.push(TensorDesc { name: info.name, mode: info.mode, dtype, shape });
        }
        let mut bound = Self {
            context,
            bound: vec![None; tensors.len()],
            tensors,
            scratch: None,
            gpu: gpu.clone(),
            name: name.to_owned(),
        };
        if let Some(needed) = needed {
            let has = scratch.len();
            ensure!(
                has as u64 >= needed,
                "the {name} engine needs {needed} bytes of scratch memory, {has} are there"
            );
            let address = scratch.address();
            // SAFETY: the view has the bytes that the engine asks for, with the driver's alignment,
            // and is kept longer than the context. Contexts that share it and overlap give wrong
            // numbers, but use no freed memory.
            unsafe { bound.context.set_device_memory(address, needed) }?;
            bound.scratch = Some(scratch.clone());
        }
        Ok(bound)
    }

    /// Bytes of scratch memory that any profile of the engine needs; none where a context brings
    /// its own.
    pub fn scratch_bytes(engine: &Engine) -> Option<u64> {
        engine.device_memory(None)
    }

    /// The engine's inputs and outputs.
    pub fn tensors(&self) -> &[TensorDesc] {
        &self.tensors
    }

    /// The input or output called `name`; none where the engine has no such (TensorRT drops unused
    /// inputs).
    pub fn tensor(&self, name: &str) -> Option<&TensorDesc> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// Binds a tensor to memory from now on; enqueued and recorded runs keep what they had.
    ///
    /// # Errors
    /// No such tensor, another element type, too little memory, or an address that TensorRT cannot
    /// take.
    pub fn bind(&mut self, tensor: &str, to: &DeviceTensor) -> Result<()> {
        let at = self.tensors.iter().position(|known| known.name == tensor);
        let at =
            at.with_context(|| format!("the {} engine has no tensor '{tensor}'", self.name))?;
        let desc = &self.tensors[at];
        ensure!(
            desc.dtype == to.dtype,
            "'{tensor}' of the {} engine is {}, and the memory to bind holds {}; build the \
             engines of this folder together",
            self.name,
            desc.dtype,
            to.dtype
        );
        let (needed, has) = (desc.bytes()?, to.view.len());
        ensure!(
            needed <= has,
            "'{tensor}' of the {} engine takes {needed} bytes, {has} are bound to it",
            self.name
        );
        let address = to.view.address();
        if self.bound[at].as_ref().is_some_and(|bound| bound.address() == address) {
            // The same memory, but perhaps another owner of it.
            self.bound[at] = Some(to.view.clone());
            return Ok(());
        }
        ensure!(
            (address as usize).is_multiple_of(ALIGNMENT),
            "'{tensor}' of the {} engine would lie at an address that is no multiple of {ALIGNMENT}",
            self.name
        );
        // SAFETY: the view has the bytes of the tensor's shape and is aligned. It is kept until
        // another view is bound; a program that enqueued or captured a run with it keeps it until
        // that is done.
        unsafe { self.context.set_address(tensor, address) }?;
        self.bound[at] = Some(to.view.clone());
        Ok(())
    }

    /// Enqueues one run; returns before it is done.
    ///
    /// # Errors
    /// A tensor that is bound to nothing, or TensorRT's refusal.
    pub fn enqueue(&mut self, stream: &Stream) -> Result<()> {
        if let Some(at) = self.bound.iter().position(Option::is_none) {
            let (tensor, name) = (&self.tensors[at].name, &self.name);
            anyhow::bail!("'{tensor}' of the {name} engine has no memory");
        }
        // SAFETY: every tensor has memory (just checked) that lives as long as this value; drop
        // waits for the device.
        Ok(unsafe { self.context.enqueue(stream.raw()) }?)
    }
}

impl BoundEngine {
    /// Times each layer by itself from now on; the profiler stays.
    ///
    /// # Errors
    /// A TensorRT without a layer profiler.
    pub(crate) fn profile_layers(&mut self) -> Result<()> {
        Ok(self.context.profile_layers(true)?)
    }

    /// Times of the layers of the last run, once it is done.
    pub(crate) fn layer_times(&mut self) -> Result<Vec<LayerTime>> {
        Ok(self.context.layer_times()?)
    }
}

impl Drop for BoundEngine {
    fn drop(&mut self) {
        // Several streams use a context: all work must be done before it is deleted.
        if let Err(error) = self.gpu.synchronize() {
            log::debug!("{error}");
        }
    }
}

/// Sets the shapes of the inputs with open extents, and refuses if one stays open.
fn set_shapes(
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
fn bytes(shape: &[i64], dtype: DataType) -> Option<usize> {
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
