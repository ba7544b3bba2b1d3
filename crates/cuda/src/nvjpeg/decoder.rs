/*!
nvJPEG on one GPU, and an image between its two phases.
*/

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::{NvJpegError, check};
use super::library::Library;
use super::memory::{DEVICE, Memory, PINNED};
use super::sys::{self, Allocator, Image, Status};
use crate::owned;
use crate::{Event, Gpu, Stream, View, Wait};

/// nvJPEG asks for memory in multiples of this, so that a file a little larger than those before
/// asks for none.
const PADDING: usize = 1 << 20;

/// Bytes of a pixel.
const PIXEL: usize = 3;

/// An object of nvJPEG.
type Owned = owned::Owned<Status>;

/// The error of a refusal; `what` is a verb phrase.
fn refused(what: &'static str) -> impl FnOnce(Status) -> NvJpegError {
    move |status| NvJpegError::Failed { what, status }
}

/// nvJPEG on a GPU. Cheap to clone, free to share.
#[derive(Clone)]
pub struct Decoder {
    inner: Arc<Inner>,
}

/// Declared in the order of deletion: each object before those that it was created with.
struct Inner {
    params: Owned,
    /// Device memory for coefficients, one for all images, whose device phases run one after the
    /// other.
    device: Mutex<Owned>,
    decoder: Owned,
    handle: Owned,
    library: Library,
    gpu: Gpu,
    /// In a place of their own, as nvJPEG may keep their addresses.
    allocators: Arc<[Allocator; 2]>,
    /// In a place of its own: its address is in the allocators.
    memory: Arc<Memory>,
}

// SAFETY: handle, decoder and parameters are written before the value exists and only read
// afterwards; by NVIDIA's guide ("Thread Safety") only parsed files, states and buffers need one
// for each thread. The one buffer here is locked.
unsafe impl Sync for Inner {}

impl Decoder {
    /// Creates a handle on `gpu`, under whose tag the device memory counts.
    ///
    /// # Errors
    /// nvJPEG's refusal: no memory, or a GPU or driver that this release does not know.
    pub fn new(gpu: &Gpu, library: &Library) -> Result<Self, NvJpegError> {
        let call = library.functions();
        let memory = Arc::new(Memory::new(gpu));
        let allocators = Arc::new(memory.allocators());
        // nvJPEG only reads them.
        let [on_device, pinned] =
            [DEVICE, PINNED].map(|which| (&raw const allocators[which]).cast_mut());
        // SAFETY: the allocators and what they name stay where they are, and are deleted after all
        // of nvJPEG's objects.
        let handle = unsafe {
            Owned::new(gpu, call.destroy, refused("create a handle on this GPU"), |to| {
                let strict = sys::FLAGS_BITSTREAM_STRICT;
                (call.create)(sys::BACKEND_HYBRID, on_device, pinned, strict, to)
            })
        }?;
        // SAFETY: the handle lives.
        check("pad its device memory", unsafe {
            (call.set_device_padding)(PADDING, handle.get())
        })?;
        // SAFETY: the handle lives.
        check("pad its pinned memory", unsafe {
            (call.set_pinned_padding)(PADDING, handle.get())
        })?;
        // SAFETY: the handle is deleted after the decoder.
        let decoder = unsafe {
            Owned::new(gpu, call.decoder_destroy, refused("create a decoder"), |to| {
                (call.decoder_create)(handle.get(), sys::BACKEND_HYBRID, to)
            })
        }?;
        // SAFETY: handle and memory are deleted after the buffer.
        let device = unsafe {
            Owned::new(gpu, call.device_destroy, refused("create a device buffer"), |to| {
                (call.device_create)(handle.get(), on_device, to)
            })
        }?;
        // SAFETY: the handle is deleted after the parameters.
        let params = unsafe {
            Owned::new(gpu, call.params_destroy, refused("create parameters"), |to| {
                (call.params_create)(handle.get(), to)
            })
        }?;
        // SAFETY: the parameters live; nobody else has them yet.
        let format = unsafe { (call.params_set_format)(params.get(), sys::OUTPUT_RGBI) };
        check("give interleaved RGB", format)?;
        let (device, library, gpu) = (Mutex::new(device), library.clone(), gpu.clone());
        let inner = Inner { params, device, decoder, handle, library, gpu, allocators, memory };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A buffer for one image between its two phases.
    ///
    /// # Errors
    /// nvJPEG's refusal, or the driver's.
    pub fn coefficients(&self) -> Result<Coefficients, NvJpegError> {
        let inner = Arc::clone(&self.inner);
        let (call, gpu) = (inner.library.functions(), &inner.gpu);
        let handle = inner.handle.get();
        // SAFETY: `inner`, with all that a state is made of, is deleted after it: this holds for
        // all three.
        let state = unsafe {
            Owned::new(gpu, call.state_destroy, refused("create a state"), |to| {
                (call.state_create)(handle, inner.decoder.get(), to)
            })
        }?;
        // SAFETY: as above.
        let parsed = unsafe {
            Owned::new(
                gpu,
                call.stream_destroy,
                refused("create a buffer for a parsed file"),
                |to| (call.stream_create)(handle, to),
            )
        }?;
        // nvJPEG only reads it.
        let allocator = (&raw const inner.allocators[PINNED]).cast_mut();
        // SAFETY: as above; the allocator and the memory that it names live in `inner`.
        let pinned = unsafe {
            Owned::new(gpu, call.pinned_destroy, refused("create a pinned buffer"), |to| {
                (call.pinned_create)(handle, allocator, to)
            })
        }?;
        // SAFETY: both live, and the buffer is deleted after the state.
        let attached = unsafe { (call.attach_pinned)(state.get(), pinned.get()) };
        check("attach a pinned buffer", attached)?;
        let device = inner.device.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as above; it is used in `decode_device` only, under its lock.
        let attached = unsafe { (call.attach_device)(state.get(), device.get()) };
        drop(device);
        check("attach the device buffer", attached)?;
        let done = gpu.mark()?;
        let file = Vec::new();
        Ok(Coefficients { state, parsed, pinned, file, size: None, done, in_use: false, inner })
    }

    /// How often nvJPEG asked for memory of either kind; a steady state asks for none.
    pub fn asked_for_memory(&self) -> u64 {
        self.inner.memory.asked()
    }
}

/// An image between its two phases: the file, and the coefficients that the host decoded.
///
/// Declared in the order of deletion: state, what it works in, what all of it came from.
pub struct Coefficients {
    state: Owned,
    parsed: Owned,
    #[expect(dead_code, reason = "the state works in it")]
    pinned: Owned,
    /// nvJPEG keeps no copy of it, and may send parts of it to the device.
    file: Vec<u8>,
    /// Width and height, if the host's phase is done and the device's is not.
    size: Option<(usize, usize)>,
    /// After the last work that reads the coefficients.
    done: Event,
    in_use: bool,
    inner: Arc<Inner>,
}

impl Coefficients {
    /// The buffer for the next file's bytes; waits until the device is done with the last one.
    ///
    /// # Errors
    /// What went wrong in that work.
    pub fn file(&mut self) -> Result<&mut Vec<u8>, NvJpegError> {
        self.settle()?;
        self.size = None;
        Ok(&mut self.file)
    }

    /// The host's phase, on any thread: parses the file and decodes its entropy code. Gives width
    /// and height.
    ///
    /// # Errors
    /// nvJPEG's refusal; [`NvJpegError::blames_the_file`] tells whose fault it is.
    pub fn decode_host(&mut self) -> Result<(usize, usize), NvJpegError> {
        self.settle()?;
        self.size = None;
        let Inner { handle, decoder, params, library, gpu, .. } = &*self.inner;
        gpu.bind()?;
        let call = library.functions();
        let (handle, decoder, params) = (handle.get(), decoder.get(), params.get());
        let (state, parsed) = (self.state.get(), self.parsed.get());
        // SAFETY: all objects live. `file` stays as it is until `file` gives it out again, after
        // the device's phase.
        let status = unsafe {
            (call.stream_parse)(handle, self.file.as_ptr(), self.file.len(), 0, 0, parsed)
        };
        check("parse the file", status)?;
        let mut refused: c_int = 0;
        // SAFETY: all objects live; the answer goes to a place that lives through the call.
        let status = unsafe { (call.decoder_supports)(decoder, parsed, params, &mut refused) };
        check("tell whether it decodes the file", status)?;
        if refused != 0 {
            let status = Status::JPEG_NOT_SUPPORTED;
            return Err(NvJpegError::Failed { what: "decode this kind of file", status });
        }
        let (mut width, mut height) = (0, 0);
        // SAFETY: the file was parsed; both numbers go to places that live through the call.
        let status = unsafe { (call.stream_dimensions)(parsed, &mut width, &mut height) };
        check("tell the file's size", status)?;
        // SAFETY: all objects live, the file was parsed, and the device is done with the pinned
        // buffer.
        let status = unsafe { (call.decode_host)(handle, decoder, state, params, parsed) };
        check("decode the file on the host", status)?;
        let size = (width as usize, height as usize);
        self.size = Some(size);
        Ok(size)
    }

    /// The device's phase: enqueues the copy of the coefficients and the decoding to `3 * width *
    /// height` bytes of interleaved RGB at the start of `to`; returns before it is done. Once for
    /// each host's phase.
    ///
    /// # Errors
    /// [`NvJpegError::Order`], [`NvJpegError::Room`], or nvJPEG's refusal.
    pub fn decode_device(&mut self, to: &View, stream: &Stream) -> Result<(), NvJpegError> {
        let (width, height) = self.size.take().ok_or(NvJpegError::Order)?;
        let found = to.len();
        let pitch = PIXEL * width;
        if pitch.checked_mul(height).is_none_or(|needed| needed > found) {
            return Err(NvJpegError::Room { found, width, height });
        }
        let Inner { handle, decoder, device, library, gpu, .. } = &*self.inner;
        gpu.bind()?;
        let call = library.functions();
        let (handle, decoder, state) = (handle.get(), decoder.get(), self.state.get());
        let mut image = Image { channel: [std::ptr::null_mut(); 4], pitch: [0; 4] };
        (image.channel[0], image.pitch[0]) = (to.address().cast(), pitch);
        let device = device.lock().unwrap_or_else(PoisonError::into_inner);
        self.in_use = true;
        // SAFETY: all objects live; pinned memory, file and device memory stay until the device is
        // done: `settle` waits for `done` before they are touched again, and the driver frees
        // device memory only after the work that uses it.
        let moved = unsafe {
            (call.decode_transfer)(handle, decoder, state, self.parsed.get(), stream.raw())
        };
        let made = match moved {
            // SAFETY: as above; the image's rows lie inside `to`, whose block is freed only after
            // the work that uses it.
            Status::SUCCESS => unsafe {
                (call.decode_device)(handle, decoder, state, &mut image, stream.raw())
            },
            _ => moved,
        };
        drop(device);
        // In any case: part of the work may be enqueued.
        self.done.record(stream)?;
        check("copy an image's coefficients to the device", moved)?;
        check("decode an image on the device", made)
    }

    fn settle(&mut self) -> Result<(), NvJpegError> {
        if self.in_use {
            self.done.synchronize(Wait::Block)?;
            self.in_use = false;
        }
        Ok(())
    }
}

impl Drop for Coefficients {
    fn drop(&mut self) {
        // The device may still read; memory must not go before that.
        if let Err(error) = self.settle() {
            log::debug!("{error}");
        }
    }
}
