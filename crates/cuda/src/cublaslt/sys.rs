/*!
The part of cuBLASLt's C interface that is called here: types, numbers, and a table of functions
looked up at run time.

Written from NVIDIA's public guide (docs.nvidia.com/cuda/cublas); no header is needed to build. All
of it has been there, with the same numbers and layouts, since CUDA 11.
*/

use std::ffi::{c_int, c_void};
use std::fmt;

/// `libraryPropertyType`: the number before the first dot.
pub const MAJOR_VERSION: c_int = 0;
/// The number after it.
pub const MINOR_VERSION: c_int = 1;
/// The number after that.
pub const PATCH_LEVEL: c_int = 2;

/// `cudaDataType`: 32-bit floating point.
pub const R_32F: c_int = 0;
/// 16-bit floating point (IEEE 754 half).
pub const R_16F: c_int = 2;

/// `cublasComputeType_t`: f32 sums of f16 products on tensor cores.
pub const COMPUTE_32F: c_int = 68;

/// `cublasOperation_t`: the matrix is taken transposed.
pub const OP_T: i32 = 1;

/// `cublasLtMatmulDescAttributes_t`: the first operand's operation, an `int32_t`.
pub const DESC_TRANSA: c_int = 3;
/// The epilogue, a `uint32_t`.
pub const DESC_EPILOGUE: c_int = 7;
/// The bias, an address; its elements are of the output's type, one for each of the output's rows
/// (columns, for who counts by rows).
pub const DESC_BIAS_POINTER: c_int = 8;

/// `cublasLtEpilogue_t`: a bias is added.
pub const EPILOGUE_BIAS: u32 = 4;

/// `cublasLtMatmulPreferenceAttributes_t`: the most workspace that an algorithm may need, bytes, a
/// `uint64_t`.
pub const PREF_MAX_WORKSPACE_BYTES: c_int = 1;
/// How parts of a sum may be put together, a `uint32_t` of [`REDUCTION_COMPUTE_TYPE`] and its like.
/// What takes no parts is always allowed.
pub const PREF_REDUCTION_SCHEME_MASK: c_int = 3;

/// `cublasLtReductionScheme_t`: parts are kept in the workspace in the sums' own type, and added by
/// a step of its own.
pub const REDUCTION_COMPUTE_TYPE: u32 = 2;

/// `cublasStatus_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Status(pub c_int);

impl Status {
    /// All is well.
    pub const SUCCESS: Self = Self(0);
    /// No memory.
    pub const ALLOC_FAILED: Self = Self(3);
    /// It has no algorithm for that.
    pub const NOT_SUPPORTED: Self = Self(15);

    /// Every status with its number.
    pub const NAMES: [(c_int, &str); 10] = [
        (0, "CUBLAS_STATUS_SUCCESS"),
        (1, "CUBLAS_STATUS_NOT_INITIALIZED"),
        (3, "CUBLAS_STATUS_ALLOC_FAILED"),
        (7, "CUBLAS_STATUS_INVALID_VALUE"),
        (8, "CUBLAS_STATUS_ARCH_MISMATCH"),
        (11, "CUBLAS_STATUS_MAPPING_ERROR"),
        (13, "CUBLAS_STATUS_EXECUTION_FAILED"),
        (14, "CUBLAS_STATUS_INTERNAL_ERROR"),
        (15, "CUBLAS_STATUS_NOT_SUPPORTED"),
        (16, "CUBLAS_STATUS_LICENSE_ERROR"),
    ];
}

impl crate::owned::Status for Status {
    const SUCCESS: Self = Self::SUCCESS;
    const NO_MEMORY: Self = Self::ALLOC_FAILED;
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "cuBLAS's status {}", self.0),
        }
    }
}

pub use crate::owned::Object;

/// A `cudaStream_t`, which is also a `CUstream`.
pub type RawStream = *mut c_void;

/// `cublasLtMatmulAlgo_t`: an algorithm; a value that may be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Algorithm {
    /// Known to the library alone.
    pub data: [u64; 8],
}

/// `cublasLtMatmulHeuristicResult_t`: an algorithm and its properties.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Heuristic {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Bytes of workspace that it needs.
    pub workspace: usize,
    /// Success where the rest is valid.
    pub state: Status,
    /// How often its blocks fill the whole GPU.
    pub waves: f32,
    /// For future releases.
    pub reserved: [c_int; 4],
}

impl Heuristic {
    /// A place for one.
    pub const NONE: Self = Self {
        algorithm: Algorithm { data: [0; 8] },
        workspace: 0,
        state: Status::NOT_SUPPORTED,
        waves: 0.0,
        reserved: [0; 4],
    };
}

/// Sets an attribute: object, which, value, the value's bytes.
pub type SetAttribute = unsafe extern "C" fn(Object, c_int, *const c_void, usize) -> Status;

dynlib::functions! {
    /// cuBLASLt's functions.
    pub struct Functions;
    /// A number of the library's version: which, where it goes.
    get_property = "cublasLtGetProperty"(c_int, *mut c_int) -> Status;
    /// The CUDA runtime that the library was built with, 12040 for 12.4.
    get_cudart_version = "cublasLtGetCudartVersion"() -> usize;
    /// Opens the library on the current device.
    create = "cublasLtCreate"(*mut Object) -> Status;
    /// Closes a handle.
    destroy = "cublasLtDestroy"(Object) -> Status;
    /// A matmul's descriptor: where the descriptor goes, type of the sums, type of the scales.
    desc_create = "cublasLtMatmulDescCreate"(*mut Object, c_int, c_int) -> Status;
    /// Its end.
    desc_destroy = "cublasLtMatmulDescDestroy"(Object) -> Status;
    /// Sets an attribute of it.
    desc_set = "cublasLtMatmulDescSetAttribute"(Object, c_int, *const c_void, usize) -> Status;
    /// A matrix that lies column by column: where the layout goes, type, rows, columns, elements
    /// from one column to the next.
    layout_create = "cublasLtMatrixLayoutCreate"(*mut Object, c_int, u64, u64, i64) -> Status;
    /// Its end.
    layout_destroy = "cublasLtMatrixLayoutDestroy"(Object) -> Status;
    /// A preference among algorithms.
    preference_create = "cublasLtMatmulPreferenceCreate"(*mut Object) -> Status;
    /// Its end.
    preference_destroy = "cublasLtMatmulPreferenceDestroy"(Object) -> Status;
    /// Sets an attribute of it.
    preference_set = "cublasLtMatmulPreferenceSetAttribute"(Object, c_int, *const c_void, usize) -> Status;
    /// Algorithms, best first: handle, descriptor, layouts of A, B, C, D, preference, how many at
    /// most, where they go, how many came.
    heuristic = "cublasLtMatmulAlgoGetHeuristic"(
        Object, Object, Object, Object, Object, Object, Object, c_int, *mut Heuristic, *mut c_int
    ) -> Status;
    /// D = alpha op(A) B + beta C and the epilogue: handle, descriptor, alpha, A and B with their
    /// layouts, beta, C and D with theirs, algorithm, workspace and its bytes, stream.
    matmul = "cublasLtMatmul"(
        Object, Object, *const c_void, *const c_void, Object, *const c_void, Object, *const c_void, *const c_void, Object,
        *mut c_void, Object, *const Algorithm, *mut c_void, usize, RawStream
    ) -> Status;
}

#[cfg(test)]
mod tests;
