/*!
What a part that this program's own kernels compute asks of the ports of graphs beside it.
*/

use anyhow::{Context, Result, ensure};

use super::manifest::{Axis, Tensor};

/// These are the extents of `what`, which `takers` ("the decoder's kernels") take; the first may be
/// the number of objects. Types are the engines', which are built in half precision from either.
///
/// # Errors
/// There is no such tensor, or it has others.
pub(super) fn has_shape(
    tensor: Option<&Tensor>,
    shape: &[usize],
    what: &str,
    takers: &str,
) -> Result<()> {
    let tensor = tensor.with_context(|| format!("there is no {what}, expected {shape:?} of it"))?;
    let one = |(at, axis): (usize, &Axis)| match axis {
        Axis::Fixed(extent) => shape.get(at) == Some(extent),
        Axis::Symbol(_) => at == 0,
    };
    ensure!(
        tensor.shape.len() == shape.len() && tensor.shape.iter().enumerate().all(one),
        "{what} is {tensor}, {takers} take {shape:?}"
    );
    Ok(())
}

/// Their names, for messages.
pub(super) fn listed(tensors: &[Tensor]) -> String {
    match tensors {
        [] => "nothing".to_owned(),
        some => some.iter().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}
