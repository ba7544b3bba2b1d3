/*!
What can go wrong with the driver, in sentences that say what to do.
*/

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// Shorthand for results of this module.
pub type Result<T> = std::result::Result<T, GpuError>;

/// Why the GPU did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// No driver on this machine.
    #[error(
        "no GPU can be used: the CUDA driver libcuda.so.1 was not found; install the NVIDIA \
         driver (JetPack on a Jetson), or start the container with --gpus all"
    )]
    NoDriver,
    /// A driver, but no such device.
    #[error(
        "no GPU can be used: the CUDA driver shows no device {ordinal} ({code}); check nvidia-smi, \
         CUDA_VISIBLE_DEVICES, and that the container was started with --gpus all"
    )]
    NoDevice {
        /// The device that was asked for, from 0.
        ordinal: usize,
        /// The driver's words.
        code: String,
    },
    /// A driver that is too old for this program.
    #[error("the CUDA driver has no {symbol}; install a driver for CUDA 11.4 or newer")]
    OldDriver {
        /// The function that is missing.
        symbol: &'static str,
    },
    /// A driver that is older than kernels for Hopper, which others replace.
    #[error(
        "the CUDA driver has no {symbol}; kernels for Hopper need a driver for CUDA 12.0 or newer"
    )]
    DriverBeforeHopper {
        /// The function that is missing.
        symbol: &'static str,
    },
    /// A launch with other arguments than the kernel's parameters.
    #[error(
        "the kernel {kernel} takes arguments of the kinds {expected}, found {found}: an error of \
         this program; report it"
    )]
    Arguments {
        /// The kernel's name.
        kernel: String,
        /// A letter for each parameter, as in
        /// [`Module::function`](crate::module::Module::function).
        expected: &'static str,
        /// A letter for each argument.
        found: String,
    },
    /// Everything else that the driver refuses.
    #[error("the CUDA driver could not {what}: {code}")]
    Failed {
        /// What was tried, as a verb phrase.
        what: String,
        /// The driver's name of the error and its words.
        code: String,
    },
}

/// Gives a driver's answer the name of what was tried.
pub(super) trait Tried<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Tried<T> for std::result::Result<T, DriverError> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| GpuError::Failed { what: what(), code: code(error) })
    }
}

/// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)". Only for errors that the driver gave: it is asked
/// for the words.
pub(super) fn code(error: DriverError) -> String {
    let words = |text: std::result::Result<&std::ffi::CStr, DriverError>| {
        text.map(|text| text.to_string_lossy().into_owned()).ok()
    };
    match (words(error.error_name()), words(error.error_string())) {
        (Some(name), Some(text)) => format!("{name} ({text})"),
        _ => format!("error {}", error.0 as u32),
    }
}

/// Whether the driver's answer means that there is no such device.
pub(super) fn means_no_device(error: DriverError) -> bool {
    matches!(error.0, CUresult::CUDA_ERROR_NO_DEVICE | CUresult::CUDA_ERROR_INVALID_DEVICE)
}
