//! Numbers, layouts and names against those of cudarc, whose binding is generated from NVIDIA's
//! header.

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

/// Descriptors need no GPU: the library itself says whether it takes these numbers, in values of
/// these sizes.
#[test]
fn the_real_library_takes_every_attribute() {
    let library = match super::super::open(None) {
        Ok(library) => library,
        Err(error) => return eprintln!("SKIPPED: {error}"),
    };
    let call = library.functions();
    let made = |create: &dyn Fn(*mut Object) -> Status| {
        let mut object = std::ptr::null_mut();
        assert_eq!(create(&mut object), Status::SUCCESS);
        assert!(!object.is_null());
        object
    };
    let set = |function: SetAttribute, object: Object, attribute: c_int, value: &[u8]| {
        // SAFETY: the object lives, and the value has the given length.
        let tried = |bytes| unsafe { function(object, attribute, value.as_ptr().cast(), bytes) };
        assert_eq!(tried(value.len()), Status::SUCCESS, "{attribute}");
        let shorter = tried(value.len() / 2);
        assert_eq!(shorter.to_string(), "CUBLAS_STATUS_INVALID_VALUE", "{attribute}");
    };
    // SAFETY: the functions belong together, and each object is destroyed once, after its last use.
    unsafe {
        let descriptor = made(&|to| (call.desc_create)(to, COMPUTE_32F, R_32F));
        set(call.desc_set, descriptor, DESC_TRANSA, &OP_T.to_ne_bytes());
        set(call.desc_set, descriptor, DESC_EPILOGUE, &EPILOGUE_BIAS.to_ne_bytes());
        set(call.desc_set, descriptor, DESC_BIAS_POINTER, &256_usize.to_ne_bytes());
        assert_eq!((call.desc_destroy)(descriptor), Status::SUCCESS);
        let preference = made(&|to| (call.preference_create)(to));
        let limit = PREF_MAX_WORKSPACE_BYTES;
        set(call.preference_set, preference, limit, &(32_u64 << 20).to_ne_bytes());
        let mask = PREF_REDUCTION_SCHEME_MASK;
        set(call.preference_set, preference, mask, &REDUCTION_COMPUTE_TYPE.to_ne_bytes());
        assert_eq!((call.preference_destroy)(preference), Status::SUCCESS);
        for kind in [R_16F, R_32F] {
            let layout = made(&|to| (call.layout_create)(to, kind, 96, 288, 96));
            assert_eq!((call.layout_destroy)(layout), Status::SUCCESS);
        }
    }
}
