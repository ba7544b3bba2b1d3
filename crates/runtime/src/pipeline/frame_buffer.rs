/*!
A frame between its file and the device: pixels, which are copied there, or coefficients, which
nvJPEG turns into pixels there.
*/

use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::PassError;
use super::prepared::{InputBuffer, Prepared};
use cuda::nvjpeg::{Coefficients, Decoder, NvJpegError};
use cuda::{Gpu, Pinned, Stream, View};
use kernels::{Frame, Preprocess};
use vos::dataset::{Clip, ClipError};
use vos::decode;
use vos::ranges::within;
use vos::stage::Stage;

/// Where the frames of a pass are.
#[derive(Clone, Copy)]
pub struct FrameSource<'a> {
    /// The clip.
    pub clip: &'a Clip,
    /// Its frames decoded ahead of time; then no frame file is read.
    pub prepared: Option<Prepared<'a>>,
}

/// A frame's buffer in host memory, reused for later frames.
pub enum FrameBuffer {
    /// Whole pixels, decoded by libjpeg-turbo.
    Pixels(Pinned),
    /// A file after nvJPEG's host part.
    Coefficients(Box<Coefficients>),
    /// The network's input, predecoded.
    Input(InputBuffer),
}

impl FrameBuffer {
    /// A buffer for frames of `bytes` bytes of pixels; with nvJPEG for their coefficients.
    pub fn new(gpu: &Gpu, nvjpeg: Option<&Decoder>, bytes: usize) -> Result<Self> {
        let Some(decoder) = nvjpeg else { return Ok(Self::Pixels(Pinned::new(gpu, bytes)?)) };
        let made = decoder.coefficients().context("there is no room for a frame's coefficients")?;
        Ok(Self::Coefficients(Box::new(made)))
    }

    /// Decodes frame `index` of a clip of `size` pixels as far as the host does that; on any
    /// thread.
    ///
    /// # Errors
    /// The frame cannot be used, or the machine failed.
    pub fn decode(
        &mut self,
        FrameSource { clip, prepared }: FrameSource<'_>,
        index: usize,
        size: (usize, usize),
    ) -> Result<(), PassError> {
        match self {
            Self::Input(input) => {
                let missing = || PassError::Other(anyhow!("there are no predecoded frames"));
                input.take(prepared.ok_or_else(missing)?, index)
            }
            Self::Pixels(pixels) => {
                let (width, height) = size;
                let bytes = pixels.bytes().map_err(|error| PassError::Other(error.into()))?;
                let room = bytes.get_mut(..3 * width * height);
                let room =
                    room.ok_or_else(|| PassError::Other(anyhow!("a frame buffer is too small")))?;
                within(Stage::Decode, || clip.frame_into(index, size, room))
                    .map_err(PassError::Clip)
            }
            Self::Coefficients(coefficients) => {
                let path = clip.frame_path(index).map_err(PassError::Clip)?;
                if clip.frames.decoder().is_some() {
                    let refused = decode::refused_by_nvjpeg(path, "it is a video".to_owned());
                    return Err(PassError::Clip(ClipError::UnreadableFrame(refused)));
                }
                // Waits, where it must, outside the range of what decoding takes.
                coefficients.file().map_err(|error| PassError::Other(error.into()))?;
                within(Stage::Decode, || read(coefficients, path, size))
            }
        }
    }

    /// Enqueues the copy to the start of `frame`, which is device memory. Without one there is
    /// nothing to do: the device reads the buffer's pixels in place.
    /// `fetch`: a kernel copies pixels.
    pub fn enqueue(
        &mut self,
        bytes: usize,
        frame: Option<&View>,
        fetch: Option<&Preprocess>,
        stream: &Stream,
    ) -> Result<()> {
        let Some(frame) = frame else { return Ok(()) };
        match self {
            Self::Input(input) => input.enqueue(frame, stream),
            Self::Pixels(pixels) => within(Stage::Upload, || match fetch {
                Some(kernel) => kernel.fetch(pixels, frame, stream),
                None => Ok(pixels.upload(bytes, frame, stream)?),
            }),
            Self::Coefficients(coefficients) => {
                within(Stage::Upload, || Ok(coefficients.decode_device(frame, stream)?))
            }
        }
    }

    /// The `bytes` bytes of pixels in host memory; none where there are only coefficients.
    pub fn on_host(&mut self, bytes: usize) -> Option<&[u8]> {
        match self {
            Self::Pixels(pixels) => pixels.bytes().ok()?.get(..bytes),
            Self::Coefficients(_) | Self::Input(_) => None,
        }
    }

    /// The frame's pixels after [`Self::enqueue`] to `frame`.
    ///
    /// # Errors
    /// The buffer has coefficients, and there is no `frame`.
    pub fn pixels<'a>(&'a mut self, frame: Option<&'a View>) -> Result<Frame<'a>> {
        match (self, frame) {
            (_, Some(frame)) => Ok(Frame::Device(frame)),
            (Self::Pixels(pixels), None) => Ok(Frame::Pinned(pixels)),
            (Self::Coefficients(_) | Self::Input(_), None) => {
                Err(anyhow!("there is no device memory for nvJPEG's pixels"))
            }
        }
    }
}

/// nvJPEG's host part.
fn read(
    coefficients: &mut Coefficients,
    path: &Path,
    expected: (usize, usize),
) -> Result<(), PassError> {
    let failed = |error: NvJpegError| match error.blames_the_file() {
        Some(_) => {
            let refused = decode::refused_by_nvjpeg(path, error.to_string());
            PassError::Clip(ClipError::UnreadableFrame(refused))
        }
        None => PassError::Other(
            anyhow::Error::new(error).context(format!("{} cannot be decoded", path.display())),
        ),
    };
    let unreadable = |error| PassError::Clip(ClipError::UnreadableFrame(error));
    let file = coefficients.file().map_err(failed)?;
    decode::read_into(path, file).map_err(unreadable)?;
    let found = decode::size_for_nvjpeg(path, file).map_err(unreadable)?;
    let other_size =
        |found| PassError::Clip(ClipError::FrameSizeChange { path: path.into(), found, expected });
    if found != expected {
        return Err(other_size(found));
    }
    match coefficients.decode_host().map_err(failed)? {
        found if found == expected => Ok(()),
        found => Err(other_size(found)),
    }
}
