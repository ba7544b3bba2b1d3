/*!
Engines bound for a profile, and memory for their tensors: what the encoder, the object's engines
and the segmented track step have in common.
*/

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Context, Result};

use super::loaded_engine::LoadedEngine;
use cuda::{Gpu, MemoryTag, Stream, View};
use execution::{BoundEngine, DeviceTensor, SharedEngine, TensorDesc};

/// A context of one engine.
pub fn bind(
    gpu: &Gpu,
    loaded: &LoadedEngine,
    profile: usize,
    scratch: &View,
    stream: &Stream,
) -> Result<SharedEngine> {
    let shapes = loaded.profiles.get(profile).context("the engine lacks a profile")?;
    let name = loaded.role.name();
    let engine = BoundEngine::new(gpu, &loaded.engine, name, (profile, shapes), scratch, stream)?;
    Ok(Rc::new(RefCell::new(engine)))
}

/// The tensor of a context; an error where the engine lacks it.
pub fn tensor_of(engine: &SharedEngine, name: &str) -> Result<TensorDesc> {
    let engine = engine.borrow();
    let known = || engine.tensors().iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(", ");
    engine
        .tensor(name)
        .cloned()
        .with_context(|| format!("an engine lacks the tensor '{name}'; it has {}", known()))
}

/// New memory for a tensor of an engine.
pub fn allocate_for(
    gpu: &Gpu,
    engine: &SharedEngine,
    name: &str,
    tag: MemoryTag,
) -> Result<DeviceTensor> {
    allocate(gpu, &tensor_of(engine, name)?, tag)
}

/// New memory for a tensor.
pub fn allocate(gpu: &Gpu, desc: &TensorDesc, tag: MemoryTag) -> Result<DeviceTensor> {
    let view = View::new(&gpu.tagged(tag), desc.bytes()?)?;
    Ok(DeviceTensor { view, dtype: desc.dtype })
}
