/*!
Drawn values as a part's file of weights.
*/

use anyhow::{Context, Result};
use half::f16;
use safetensors::tensor::{Dtype, TensorView, serialize};

use super::bytes_of;
use vos::bundle::{FusedPart, WeightsFile};

/// The part's file with the values that `get` has by a tensor's name, read as a bundle's.
pub(crate) fn weights_file<'v, P: FusedPart>(
    shape: &P::Shape,
    get: impl Fn(&str) -> &'v [f32],
) -> Result<WeightsFile<P>> {
    let tensors = P::tensors(shape);
    let bytes = tensors.iter().map(|tensor| match tensor.dtype {
        Dtype::F16 => bytes_of(get(&tensor.name), |value| f16::from_f32(*value).to_le_bytes()),
        _ => bytes_of(get(&tensor.name), |value| value.to_le_bytes()),
    });
    let bytes: Vec<Vec<u8>> = bytes.collect();
    let views = tensors.iter().zip(&bytes).map(|(tensor, bytes)| {
        let view = TensorView::new(tensor.dtype, tensor.shape.clone(), bytes);
        Ok((tensor.name.clone(), view.with_context(|| format!("{} drawn", tensor.name))?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    WeightsFile::read(serialize(views, None)?, shape)
}
