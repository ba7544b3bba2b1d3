//! Memory of the tokens that stem, blocks and neck of an encoder exchange.

use anyhow::{Context, Result};

use cuda::{Gpu, MemoryTag, View};
use vos::bundle::DType;
use vos::bundle::trunk::{MapShape, STAGES, StemAndNeck};

/// The stages' maps; the stem's tokens lie in the first one.
///
/// # Errors
/// Too little memory, or tokens that are no floating-point numbers.
pub(crate) fn allocate(gpu: &Gpu, shape: &StemAndNeck) -> Result<[View; STAGES]> {
    let memory = gpu.tagged(MemoryTag::Scratch);
    let width = match shape.dtype {
        DType::F16 => 2,
        DType::F32 => 4,
        other => anyhow::bail!("tokens of an encoder are f16 or f32, found {other:?}"),
    };
    let map = |stage: MapShape| View::new(&memory, width * stage.grid * stage.grid * stage.columns);
    let maps = shape.stages.iter().map(|stage| Ok(map(*stage)?)).collect::<Result<Vec<View>>>()?;
    maps.try_into().ok().context("more stages than the neck takes")
}
