/*!
An attention between two parts of an encoder: which tensors of theirs it takes and gives, and that there are kernels for them.
*/

use anyhow::{Context, Result, bail, ensure};

use super::{ATTENDED, RESULT, output};
use crate::bundle::manifest::{Axis, DType, Graph, Tensor};

/// Columns of a head that there are kernels for; heads of fewer have zeros behind their own.
pub const WIDTHS: [usize; 2] = [64, 128];

/// softmax(q kᵀ) v, head by head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attends {
    /// The part that makes q, k and v; the next one takes the result.
    pub behind: usize,
    /// Heads.
    pub heads: usize,
    /// Tokens, which all attend to each other.
    pub tokens: usize,
    /// Columns of a head: one of [`WIDTHS`].
    pub width: usize,
}

/// The part ends at an attention.
pub fn begins(part: &Graph) -> bool {
    ATTENDED.iter().any(|name| output(part, name).is_some())
}

impl Attends {
    /// The attention behind part `at`; none where it makes nothing for one.
    ///
    /// # Errors
    /// Some of q, k and v are missing, or the part behind that takes the result; or one of them is none that the kernels take.
    pub fn behind(parts: &[&Graph], at: usize) -> Result<Option<Self>> {
        let Some(part) = parts.get(at).filter(|part| begins(part)) else { return Ok(None) };
        let name = part.role.name();
        let find = |tensor: &str| {
            output(part, tensor).with_context(|| {
                format!("{name} ends at an attention, for which it makes no '{tensor}': expected q, k and v")
            })
        };
        let [q, k, v] = ATTENDED.map(find);
        let (q, k, v) = (q?, k?, v?);
        let o = parts.get(at + 1).and_then(|next| next.input(RESULT)).with_context(|| {
            format!("{name} makes q, k and v, but no part behind it takes '{RESULT}', what an attention makes of them")
        })?;
        let Some([heads, tokens, width]) = extents(q) else {
            bail!("{name} makes {q}, {EXPECTED}");
        };
        // An fp32 bundle may be cut here too, for tests: engines of it are refused where their ports are no halves.
        let is_float = q.dtype != DType::I32;
        for tensor in [q, k, v, o] {
            let alike = (tensor.dtype, &tensor.shape) == (q.dtype, &q.shape);
            ensure!(
                alike && is_float && WIDTHS.contains(&width),
                "the attention behind {name} has {tensor}{}, {EXPECTED}",
                if alike { String::new() } else { format!(" and {q}") }
            );
        }
        Ok(Some(Self { behind: at, heads, tokens, width }))
    }
}

const EXPECTED: &str = "expected q, k, v and the next part's o alike, f16[heads, tokens, 64 or 128], which segtrt's kernels take";

fn extents(tensor: &Tensor) -> Option<[usize; 3]> {
    let fixed = |axis: &Axis| match axis {
        Axis::Fixed(extent) => Some(*extent).filter(|extent| *extent > 0),
        Axis::Symbol(_) => None,
    };
    let all: Option<Vec<usize>> = tensor.shape.iter().map(fixed).collect();
    all?.try_into().ok()
}
