/*!
Whether there is a driver to call at all.

The binding panics where the library, or a function of it, is missing. Both are asked for here,
once, before anything else of the driver is touched.
*/

use std::ffi::c_void;
use std::sync::OnceLock;

use cudarc::driver::sys;

use super::error::{GpuError, Result};

/// Every function of the driver that this module reaches; to be kept complete.
const NEEDED: [&str; 49] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemHostGetDevicePointer_v2",
    "cuMemsetD8Async",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuStreamIsCapturing",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventElapsedTime",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cuLaunchKernel",
    "cuGraphInstantiateWithFlags",
    "cuGraphUpload",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
];

/// What only kernels for Hopper need: in drivers for CUDA 12.0 or newer.
const HOPPERS: [&str; 2] = ["cuTensorMapEncodeTiled", "cuOccupancyMaxActiveClusters"];

/// Looks for the functions that only kernels for Hopper need.
pub(super) fn require_hoppers() -> Result<()> {
    static MISSING: OnceLock<Option<&'static str>> = OnceLock::new();
    require()?;
    match MISSING.get_or_init(|| HOPPERS.into_iter().find(|symbol| lacks(symbol))) {
        None => Ok(()),
        Some(symbol) => Err(GpuError::DriverBeforeHopper { symbol }),
    }
}

/// Whether programmatic dependent launches can be enqueued and captured: drivers for CUDA 12.3 or
/// newer, the first that distinguish kinds of graph edges.
pub(super) fn captures_pdl() -> bool {
    static OFFERED: OnceLock<bool> = OnceLock::new();
    *OFFERED.get_or_init(|| offers(&["cuLaunchKernelEx", "cuGraphGetEdges_v2"]))
}

/// Whether the library, which is there, has no such function.
fn lacks(symbol: &str) -> bool {
    // SAFETY: the library is there, so this does not panic; it stays open for the life of the
    // process.
    let library = unsafe { sys::culib() };
    // SAFETY: the address is only looked up, never used under this type.
    unsafe { library.get::<*const c_void>(symbol.as_bytes()) }.is_err()
}

/// Opens the driver's library and looks for its functions.
pub(super) fn require() -> Result<()> {
    static MISSING: OnceLock<std::result::Result<(), Option<&'static str>>> = OnceLock::new();
    let found = MISSING.get_or_init(|| {
        // SAFETY: the initialisers of libcuda may run at any time; it is the driver's own library.
        if !unsafe { sys::is_culib_present() } {
            return Err(None);
        }
        NEEDED.iter().find(|symbol| lacks(symbol)).map_or(Ok(()), |symbol| Err(Some(*symbol)))
    });
    found.map_err(|symbol| match symbol {
        None => GpuError::NoDriver,
        Some(symbol) => GpuError::OldDriver { symbol },
    })
}

/// Whether the driver has these functions, too.
pub(super) fn offers(functions: &[&str]) -> bool {
    require().is_ok_and(|()| {
        // SAFETY: the library is there, so this does not panic; it stays open for the life of the
        // process.
        let library = unsafe { sys::culib() };
        // SAFETY: the address is only looked up, never used under this type.
        let has =
            |symbol: &&str| unsafe { library.get::<*const c_void>(symbol.as_bytes()) }.is_ok();
        functions.iter().all(has)
    })
}
