/*!
From files to pixels: JPEG frames to RGB, PNG masks to object ids.
*/

/// An 8-bit RGB image, rows packed, channels interleaved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RgbImage {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// `3 * width * height` bytes, R G B R G B …
    pub data: Vec<u8>,
}
