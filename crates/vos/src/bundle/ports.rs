/*!
Checks graph tensors next to a part that custom CUDA kernels compute.
*/

use anyhow::{Context, Result, ensure};

use super::graph::{Axis, Tensor};

/// Checks the extents of a graph's tensor `what`, which `takers` ("the decoder's kernels") use. The
/// first extent may be the number of objects. Types are not checked: engines are built with f16
/// tensors from either type.
///
/// # Errors
/// The tensor is missing or has other extents.
pub(super) fn has_shape(
    tensor: Option<&Tensor>,
    shape: &[usize],
    what: &str,
    takers: &str,
) -> Result<()> {
    let tensor = tensor.with_context(|| format!("there is no {what}, expected {shape:?}"))?;
    let one = |(at, axis): (usize, &Axis)| match axis {
        Axis::Fixed(extent) => shape.get(at) == Some(extent),
        Axis::Symbol(_) => at == 0,
    };
    ensure!(
        tensor.shape.len() == shape.len() && tensor.shape.iter().enumerate().all(one),
        "{what} is {tensor}, {takers} need {shape:?}"
    );
    Ok(())
}

/// The names of the tensors, for messages.
pub(super) fn listed(tensors: &[Tensor]) -> String {
    match tensors {
        [] => "nothing".to_owned(),
        some => some.iter().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}
