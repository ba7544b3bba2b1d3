/*!
The part of nvJPEG's C interface that is called here: types, numbers, and a table of functions
looked up at run time.

Written from NVIDIA's public guide (docs.nvidia.com/cuda/nvjpeg); no header is needed to build. All
of it has been there, with the same layout, since the release that brought allocators with a context
(`nvjpegCreateExV2`).
*/

use std::ffi::{c_int, c_uint, c_void};
use std::fmt;

/// Channels that an image may have.
pub const MAX_COMPONENT: usize = 4;

/// `libraryPropertyType`: the number before the first dot.
pub const MAJOR_VERSION: c_int = 0;
/// The number after it.
pub const MINOR_VERSION: c_int = 1;
/// The number after that.
pub const PATCH_LEVEL: c_int = 2;

/// `nvjpegBackend_t`: entropy decoding on the host, everything else on the device.
pub const BACKEND_HYBRID: c_int = 1;

/// `nvjpegOutputFormat_t`: interleaved RGB in the first channel.
pub const OUTPUT_RGBI: c_int = 5;

/// Flag of the handle: what does not follow the JPEG standard is an error, not repaired.
pub const FLAGS_BITSTREAM_STRICT: c_uint = 1 << 2;

/// `nvjpegStatus_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Status(pub c_int);

impl Status {
    /// All is well.
    pub const SUCCESS: Self = Self(0);
    /// The bytes are no JPEG, or damaged.
    pub const BAD_JPEG: Self = Self(3);
    /// A JPEG of a kind that the decoder does not know.
    pub const JPEG_NOT_SUPPORTED: Self = Self(4);
    /// An allocator gave nothing.
    pub const ALLOCATOR_FAILURE: Self = Self(5);
    /// A JPEG that ends too soon.
    pub const INCOMPLETE_BITSTREAM: Self = Self(10);

    /// Every status, by its number.
    const NAMES: [&str; 11] = [
        "NVJPEG_STATUS_SUCCESS",
        "NVJPEG_STATUS_NOT_INITIALIZED",
        "NVJPEG_STATUS_INVALID_PARAMETER",
        "NVJPEG_STATUS_BAD_JPEG",
        "NVJPEG_STATUS_JPEG_NOT_SUPPORTED",
        "NVJPEG_STATUS_ALLOCATOR_FAILURE",
        "NVJPEG_STATUS_EXECUTION_FAILED",
        "NVJPEG_STATUS_ARCH_MISMATCH",
        "NVJPEG_STATUS_INTERNAL_ERROR",
        "NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED",
        "NVJPEG_STATUS_INCOMPLETE_BITSTREAM",
    ];

    /// Whether it blames the file, not the machine.
    pub fn blames_the_file(self) -> bool {
        [Self::BAD_JPEG, Self::JPEG_NOT_SUPPORTED, Self::INCOMPLETE_BITSTREAM].contains(&self)
    }
}

impl crate::owned::Status for Status {
    const SUCCESS: Self = Self::SUCCESS;
    const NO_MEMORY: Self = Self::ALLOCATOR_FAILURE;
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = usize::try_from(self.0).ok().and_then(|number| Self::NAMES.get(number));
        match name {
            Some(name) => f.write_str(name),
            None => write!(f, "nvJPEG's status {}", self.0),
        }
    }
}

pub use crate::owned::Object;

/// A `cudaStream_t`, which is also a `CUstream`.
pub type RawStream = *mut c_void;

/// `nvjpegImage_t`: where the pixels go.
#[derive(Debug)]
#[repr(C)]
pub struct Image {
    /// Device addresses of the channels.
    pub channel: [*mut u8; MAX_COMPONENT],
    /// Bytes from one row to the next.
    pub pitch: [usize; MAX_COMPONENT],
}

/// Gives memory: writes the address to its second argument and returns 0.
pub type Allocate = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, usize, RawStream) -> c_int;
/// Takes memory back; 0 for success.
pub type Release = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, RawStream) -> c_int;

/// `nvjpegDevAllocatorV2_t` and `nvjpegPinnedAllocatorV2_t`, which are alike.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Allocator {
    /// Gives memory.
    pub allocate: Option<Allocate>,
    /// Takes it back.
    pub release: Option<Release>,
    /// What both are called with.
    pub context: *mut c_void,
}

// SAFETY: three addresses; who calls through them answers for the thread on which that happens.
unsafe impl Send for Allocator {}
// SAFETY: as above.
unsafe impl Sync for Allocator {}

dynlib::functions! {
    /// nvJPEG's functions.
    pub struct Functions;
    /// A number of the library's version: which, where it goes.
    get_property = "nvjpegGetProperty"(c_int, *mut c_int) -> Status;
    /// A number of the CUDA toolkit's version that the library was built with.
    get_cudart_property = "nvjpegGetCudartProperty"(c_int, *mut c_int) -> Status;
    /// Opens the library on the current device: backend, device and pinned allocators, flags,
    /// handle.
    create = "nvjpegCreateExV2"(c_int, *mut Allocator, *mut Allocator, c_uint, *mut Object) -> Status;
    /// Closes a handle.
    destroy = "nvjpegDestroy"(Object) -> Status;
    /// Device memory is asked for in multiples of so many bytes.
    set_device_padding = "nvjpegSetDeviceMemoryPadding"(usize, Object) -> Status;
    /// Pinned memory is asked for in multiples of so many bytes.
    set_pinned_padding = "nvjpegSetPinnedMemoryPadding"(usize, Object) -> Status;
    /// An implementation: handle, backend, decoder.
    decoder_create = "nvjpegDecoderCreate"(Object, c_int, *mut Object) -> Status;
    /// Its end.
    decoder_destroy = "nvjpegDecoderDestroy"(Object) -> Status;
    /// Whether a decoder takes a parsed file: decoder, stream, parameters, 0 for yes.
    decoder_supports = "nvjpegDecoderJpegSupported"(Object, Object, Object, *mut c_int) -> Status;
    /// What is known of an image between its phases: handle, decoder, state.
    state_create = "nvjpegDecoderStateCreate"(Object, Object, *mut Object) -> Status;
    /// Its end.
    state_destroy = "nvjpegJpegStateDestroy"(Object) -> Status;
    /// A parsed file: handle, stream.
    stream_create = "nvjpegJpegStreamCreate"(Object, *mut Object) -> Status;
    /// Its end.
    stream_destroy = "nvjpegJpegStreamDestroy"(Object) -> Status;
    /// Parses a file: handle, bytes, how many, keep metadata, keep a copy of the bytes, stream.
    stream_parse = "nvjpegJpegStreamParse"(Object, *const u8, usize, c_int, c_int, Object) -> Status;
    /// Width and height of a parsed file: stream, where they go.
    stream_dimensions = "nvjpegJpegStreamGetFrameDimensions"(Object, *mut c_uint, *mut c_uint) -> Status;
    /// Pinned memory for coefficients: handle, allocator, buffer.
    pinned_create = "nvjpegBufferPinnedCreateV2"(Object, *mut Allocator, *mut Object) -> Status;
    /// Its end.
    pinned_destroy = "nvjpegBufferPinnedDestroy"(Object) -> Status;
    /// Device memory for them: handle, allocator, buffer.
    device_create = "nvjpegBufferDeviceCreateV2"(Object, *mut Allocator, *mut Object) -> Status;
    /// Its end.
    device_destroy = "nvjpegBufferDeviceDestroy"(Object) -> Status;
    /// The pinned memory that a state works in.
    attach_pinned = "nvjpegStateAttachPinnedBuffer"(Object, Object) -> Status;
    /// The device memory that it works in.
    attach_device = "nvjpegStateAttachDeviceBuffer"(Object, Object) -> Status;
    /// How pixels are to come: handle, parameters.
    params_create = "nvjpegDecodeParamsCreate"(Object, *mut Object) -> Status;
    /// Their end.
    params_destroy = "nvjpegDecodeParamsDestroy"(Object) -> Status;
    /// The pixels' format.
    params_set_format = "nvjpegDecodeParamsSetOutputFormat"(Object, c_int) -> Status;
    /// First phase, on the host alone: handle, decoder, state, parameters, stream.
    decode_host = "nvjpegDecodeJpegHost"(Object, Object, Object, Object, Object) -> Status;
    /// Second phase, coefficients to the device: handle, decoder, state, stream, CUDA stream.
    decode_transfer = "nvjpegDecodeJpegTransferToDevice"(Object, Object, Object, Object, RawStream) -> Status;
    /// Third phase, coefficients to pixels: handle, decoder, state, image, CUDA stream.
    decode_device = "nvjpegDecodeJpegDevice"(Object, Object, Object, *mut Image, RawStream) -> Status;
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn structures_lie_as_c_lays_them_out() {
        let word = size_of::<*mut c_void>();
        assert_eq!((size_of::<Image>(), offset_of!(Image, pitch)), (8 * word, 4 * word));
        assert_eq!((size_of::<Allocator>(), align_of::<Allocator>()), (3 * word, word));
        assert_eq!(
            (offset_of!(Allocator, release), offset_of!(Allocator, context)),
            (word, 2 * word)
        );
        assert_eq!((size_of::<Status>(), align_of::<Status>()), (4, 4));
    }

    #[test]
    fn a_status_has_its_name_and_tells_who_is_to_blame() {
        assert_eq!(Status::SUCCESS.to_string(), "NVJPEG_STATUS_SUCCESS");
        assert_eq!(Status::ALLOCATOR_FAILURE.to_string(), "NVJPEG_STATUS_ALLOCATOR_FAILURE");
        assert_eq!(Status::INCOMPLETE_BITSTREAM.to_string(), "NVJPEG_STATUS_INCOMPLETE_BITSTREAM");
        assert_eq!(Status(11).to_string(), "nvJPEG's status 11");
        assert_eq!(Status(-1).to_string(), "nvJPEG's status -1");
        let blamed: Vec<c_int> = (0..12).filter(|n| Status(*n).blames_the_file()).collect();
        assert_eq!(blamed, [3, 4, 10]);
    }

    #[test]
    fn every_function_is_named_once() {
        let mut names = Functions::SYMBOLS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Functions::SYMBOLS.len());
        assert!(names.iter().all(|name| name.starts_with("nvjpeg")));
    }
}
