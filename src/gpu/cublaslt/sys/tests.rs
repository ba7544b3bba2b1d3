//! Numbers, layouts and names against those of cudarc, whose binding is made by a machine from NVIDIA's header.

use std::mem::{offset_of, size_of};

use cudarc::cublaslt::sys as theirs;

use super::*;

#[test]
fn numbers_are_those_of_the_header() {
    use theirs::cublasLtMatmulDescAttributes_t as Attribute;
    use theirs::cublasLtMatmulPreferenceAttributes_t as Preference;
    let pairs = [
        (MAJOR_VERSION, theirs::libraryPropertyType_t::MAJOR_VERSION as c_int),
        (MINOR_VERSION, theirs::libraryPropertyType_t::MINOR_VERSION as c_int),
        (PATCH_LEVEL, theirs::libraryPropertyType_t::PATCH_LEVEL as c_int),
        (R_32F, theirs::cudaDataType_t::CUDA_R_32F as c_int),
        (R_16F, theirs::cudaDataType_t::CUDA_R_16F as c_int),
        (COMPUTE_32F, theirs::cublasComputeType_t::CUBLAS_COMPUTE_32F as c_int),
        (DESC_TRANSA, Attribute::CUBLASLT_MATMUL_DESC_TRANSA as c_int),
        (DESC_EPILOGUE, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE as c_int),
        (DESC_BIAS_POINTER, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER as c_int),
        (PREF_MAX_WORKSPACE_BYTES, Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES as c_int),
        (
            PREF_REDUCTION_SCHEME_MASK,
            Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK as c_int,
        ),
    ];
    for (at, (ours, header)) in pairs.iter().enumerate() {
        assert_eq!(ours, header, "number {at}");
    }
    assert_eq!(EPILOGUE_BIAS, theirs::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS as u32);
    let scheme = theirs::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    assert_eq!(REDUCTION_COMPUTE_TYPE, scheme as u32);
}

#[test]
fn structures_lie_as_the_header_has_them() {
    use theirs::{cublasLtMatmulAlgo_t, cublasLtMatmulHeuristicResult_t as Result};
    let of = |size: usize, align: usize| (size, align);
    assert_eq!(
        of(size_of::<Algorithm>(), align_of::<Algorithm>()),
        of(size_of::<cublasLtMatmulAlgo_t>(), align_of::<cublasLtMatmulAlgo_t>())
    );
    assert_eq!(
        of(size_of::<Heuristic>(), align_of::<Heuristic>()),
        of(size_of::<Result>(), align_of::<Result>())
    );
    assert_eq!(
        [
            offset_of!(Heuristic, algorithm),
            offset_of!(Heuristic, workspace),
            offset_of!(Heuristic, state),
            offset_of!(Heuristic, waves),
            offset_of!(Heuristic, reserved),
        ],
        [
            offset_of!(Result, algo),
            offset_of!(Result, workspaceSize),
            offset_of!(Result, state),
            offset_of!(Result, wavesCount),
            offset_of!(Result, reserved),
        ]
    );
    assert_eq!(size_of::<Status>(), size_of::<theirs::cublasStatus_t>());
}

#[test]
fn a_status_has_its_name() {
    use theirs::cublasStatus_t as Theirs;
    let all = [
        Theirs::CUBLAS_STATUS_SUCCESS,
        Theirs::CUBLAS_STATUS_NOT_INITIALIZED,
        Theirs::CUBLAS_STATUS_ALLOC_FAILED,
        Theirs::CUBLAS_STATUS_INVALID_VALUE,
        Theirs::CUBLAS_STATUS_ARCH_MISMATCH,
        Theirs::CUBLAS_STATUS_MAPPING_ERROR,
        Theirs::CUBLAS_STATUS_EXECUTION_FAILED,
        Theirs::CUBLAS_STATUS_INTERNAL_ERROR,
        Theirs::CUBLAS_STATUS_NOT_SUPPORTED,
        Theirs::CUBLAS_STATUS_LICENSE_ERROR,
    ];
    assert_eq!(all.len(), Status::NAMES.len());
    for status in all {
        assert_eq!(Status(status as c_int).to_string(), format!("{status:?}"));
    }
    assert_eq!(Status(2).to_string(), "cuBLAS's status 2");
}

#[test]
fn every_function_is_named_once() {
    let mut names = Functions::SYMBOLS.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Functions::SYMBOLS.len());
    assert!(names.iter().all(|name| name.starts_with("cublasLt")));
}
