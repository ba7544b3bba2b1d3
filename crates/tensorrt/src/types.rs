/*!
Plain values that describe tensors: element types, directions, shapes of a profile.
*/

use std::fmt;

use super::sys;

/// Element type of a tensor, under one numbering for all releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DataType {
    /// 32-bit floating point.
    Float = sys::TRTDL_TYPE_FLOAT,
    /// IEEE half precision.
    Half = sys::TRTDL_TYPE_HALF,
    /// 8-bit integer.
    Int8 = sys::TRTDL_TYPE_INT8,
    /// 32-bit integer.
    Int32 = sys::TRTDL_TYPE_INT32,
    /// One byte a value.
    Bool = sys::TRTDL_TYPE_BOOL,
    /// Unsigned byte.
    Uint8 = sys::TRTDL_TYPE_UINT8,
    /// 8-bit floating point.
    Fp8 = sys::TRTDL_TYPE_FP8,
    /// Brain floating point (10 on).
    Bf16 = sys::TRTDL_TYPE_BF16,
    /// 64-bit integer (10 on).
    Int64 = sys::TRTDL_TYPE_INT64,
    /// 4-bit integer, two a byte (10 on).
    Int4 = sys::TRTDL_TYPE_INT4,
    /// 4-bit floating point, two a byte (10.8 on).
    Fp4 = sys::TRTDL_TYPE_FP4,
}

impl DataType {
    const ALL: [Self; 11] = [
        Self::Float,
        Self::Half,
        Self::Int8,
        Self::Int32,
        Self::Bool,
        Self::Uint8,
        Self::Fp8,
        Self::Bf16,
        Self::Int64,
        Self::Int4,
        Self::Fp4,
    ];

    pub(super) fn from_shim(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| i64::from(*kind as u32) == i64::from(number))
    }

    /// Bits of one element.
    pub fn bits(self) -> usize {
        match self {
            Self::Float | Self::Int32 => 32,
            Self::Half | Self::Bf16 => 16,
            Self::Int8 | Self::Bool | Self::Uint8 | Self::Fp8 => 8,
            Self::Int64 => 64,
            Self::Int4 | Self::Fp4 => 4,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Float => "fp32",
            Self::Half => "fp16",
            Self::Int8 => "int8",
            Self::Int32 => "int32",
            Self::Bool => "bool",
            Self::Uint8 => "uint8",
            Self::Fp8 => "fp8",
            Self::Bf16 => "bf16",
            Self::Int64 => "int64",
            Self::Int4 => "int4",
            Self::Fp4 => "fp4",
        })
    }
}

/// Direction of an I/O tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The caller fills it.
    Input,
    /// TensorRT fills it.
    Output,
}

/// Exact shapes of one optimization profile: min = opt = max for each input that has open extents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Input name and its whole shape.
    pub shapes: Vec<(String, Vec<i64>)>,
}

impl Profile {
    /// A profile that fixes these inputs.
    pub fn exact<N: Into<String>>(shapes: impl IntoIterator<Item = (N, Vec<i64>)>) -> Self {
        Self { shapes: shapes.into_iter().map(|(name, shape)| (name.into(), shape)).collect() }
    }
}

/// A shape for the shim; none where it has more than eight extents.
pub(super) fn to_dims(shape: &[i64]) -> Option<sys::trtdl_dims> {
    let mut dims = sys::trtdl_dims { rank: i32::try_from(shape.len()).ok()?, extent: [0; 8] };
    dims.extent.get_mut(..shape.len())?.copy_from_slice(shape);
    Some(dims)
}

/// A shape from the shim; none where there is no such tensor.
pub(super) fn from_dims(dims: &sys::trtdl_dims) -> Option<Vec<i64>> {
    let rank = usize::try_from(dims.rank).ok()?;
    dims.extent.get(..rank).map(<[i64]>::to_vec)
}
