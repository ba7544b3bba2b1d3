/*!
The frames of a video file as raw RGB in an unnamed temporary file.

Frames are decoded before the measurement, because a concurrent decoder would take CPU time from it.
No other process can open an unnamed file, and the system frees it however this process ends. Memory
holds one frame for any length of the video.
*/

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::{Ffmpeg, FfmpegError, tail};

/// Frames at SA-V's rate. The conversion gives identical bits on every CPU, and chroma is fully
/// interpolated, as in a decoder's conversion to RGB.
const FILTER: &str =
    "fps=24,scale=flags=bicubic+accurate_rnd+full_chroma_int+bitexact,format=rgb24";

/// Decoded frames of one size.
#[derive(Debug)]
pub struct RawFrames {
    video: PathBuf,
    pixels: File,
    size: (usize, usize),
    count: usize,
    decoder: String,
}

impl RawFrames {
    /// Decodes a video: its first video stream, rotated according to its metadata, at 24 frames a second, up to
    /// `most` frames.
    ///
    /// # Errors
    /// `ffmpeg` cannot be started or reports an error, or there is no space for the frames.
    pub(super) fn decode(
        ffmpeg: &Ffmpeg,
        video: &Path,
        most: Option<usize>,
    ) -> Result<Self, FfmpegError> {
        let io = |source| FfmpegError::Io { file: video.into(), source };
        let folder = temporary_folder();
        let temporary = || {
            tempfile::tempfile_in(&folder).map_err(|source| {
                let (file, folder) = (video.into(), folder.clone());
                FfmpegError::NoRoom { file, folder, bytes: 0, source }
            })
        };
        let (mut pixels, mut log) = (temporary()?, temporary()?);
        let mut command = ffmpeg.command();
        // With `file:` a colon in a file's name does not start a protocol.
        let mut input = OsString::from("file:");
        input.push(std::path::absolute(video).map_err(io)?);
        command.arg("-i").arg(input).args(["-map", "0:v:0", "-vf", FILTER]);
        if let Some(most) = most {
            command.args(["-frames:v", &most.to_string()]);
        }
        // Each picture has a header with its size.
        command.args(["-f", "image2pipe", "-c:v", "ppm", "pipe:1"]);
        command.stdout(Stdio::piped()).stderr(log.try_clone().map_err(io)?);
        let mut child = command.spawn().map_err(io)?;
        let mut taken = Err(io(io::ErrorKind::BrokenPipe.into()));
        if let Some(pipe) = child.stdout.take() {
            let mut pictures = Pictures { from: BufReader::new(pipe), size: None };
            taken = take(&mut pictures, &mut pixels, video, &folder)
                .map(|count| (count, pictures.size));
        }
        if taken.is_err() {
            // The child may still write to a pipe that nobody reads, so its exit status then means
            // nothing.
            let _ = child.kill();
        }
        let status = child.wait().map_err(io)?;
        let (count, size) = taken?;
        let said = log.metadata().map_err(io)?.len() > 0;
        if !status.success() {
            return Err(FfmpegError::Failed {
                file: video.into(),
                status,
                message: tail(&mut log),
            });
        }
        let damaged = |reason| FfmpegError::Damaged { file: video.into(), reason };
        if said {
            // A truncated video ends without an error but with fewer frames than its header states.
            return Err(damaged(tail(&mut log)));
        }
        let size = size.ok_or_else(|| damaged("it has no frame".to_owned()))?;
        let decoder = format!("ffmpeg-{}", ffmpeg.version());
        Ok(Self { video: video.into(), pixels, size, count, decoder })
    }

    /// The video file.
    pub fn video(&self) -> &PathBuf {
        &self.video
    }

    /// Width and height of each frame, pixels.
    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    /// Number of frames, at least 1.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The decoder with its version: `ffmpeg-5.1.9`.
    pub fn decoder(&self) -> &str {
        &self.decoder
    }

    /// Reads frame `index` into `out`, which has `3 * width * height` bytes: R G B, row by row.
    ///
    /// # Errors
    /// There is no such frame, or the temporary file cannot be read.
    pub fn read(&self, index: usize, out: &mut [u8]) -> io::Result<()> {
        self.pixels.read_exact_at(out, index as u64 * out.len() as u64)
    }
}

/// The folder for the frames: TMPDIR, else /var/tmp, which is on disk where /tmp may be in memory.
fn temporary_folder() -> PathBuf {
    let usual = PathBuf::from("/var/tmp");
    match std::env::var_os("TMPDIR") {
        None if usual.is_dir() => usual,
        _ => std::env::temp_dir(),
    }
}

/// Copies the pixels of all pictures to `to` and returns their number.
fn take<R: Read>(
    pictures: &mut Pictures<R>,
    to: &mut File,
    video: &Path,
    folder: &Path,
) -> Result<usize, FfmpegError> {
    let (mut frame, mut count) = (Vec::new(), 0);
    loop {
        let next = pictures.next(&mut frame);
        let damaged = |reason| FfmpegError::Damaged { file: video.into(), reason };
        if !next.map_err(damaged)? {
            return Ok(count);
        }
        count += 1;
        to.write_all(&frame).map_err(|source| FfmpegError::NoRoom {
            file: video.into(),
            folder: folder.into(),
            bytes: count as u64 * frame.len() as u64,
            source,
        })?;
    }
}

/// A sequence of PPM pictures, as `ffmpeg` writes them.
struct Pictures<R> {
    from: BufReader<R>,
    /// Size of the first picture.
    size: Option<(usize, usize)>,
}

impl<R: Read> Pictures<R> {
    /// Reads the next picture's pixels into `frame`; false at the end. An incomplete picture is the
    /// end: the child's exit status has the reason.
    fn next(&mut self, frame: &mut Vec<u8>) -> Result<bool, String> {
        let failed = |error: io::Error| format!("its frames cannot be read: {error}");
        let mut header = Vec::new();
        for _ in 0..3 {
            let read = self.from.read_until(b'\n', &mut header).map_err(failed)?;
            if read == 0 || !header.ends_with(b"\n") {
                return Ok(false);
            }
        }
        let header = String::from_utf8_lossy(&header);
        let mut words = header.split_ascii_whitespace();
        let magic = words.next();
        let mut number = || words.next().and_then(|word| word.parse::<usize>().ok());
        let (Some("P6"), Some(width), Some(height), Some(255)) =
            (magic, number(), number(), number())
        else {
            return Err(format!("a frame came with the header {header:?}"));
        };
        let first = *self.size.get_or_insert((width, height));
        if (width, height) != first {
            let (first_width, first_height) = first;
            return Err(format!(
                "a frame is {width}x{height}, the first one {first_width}x{first_height}"
            ));
        }
        frame.resize(3 * width * height, 0);
        match self.from.read_exact(frame) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            read => read.map(|()| true).map_err(failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pictures(bytes: &[u8]) -> (Result<usize, String>, Option<(usize, usize)>) {
        let mut pictures = Pictures { from: BufReader::new(bytes), size: None };
        let mut frame = Vec::new();
        let mut count = 0;
        loop {
            match pictures.next(&mut frame) {
                Ok(true) => count += 1,
                Ok(false) => return (Ok(count), pictures.size),
                Err(reason) => return (Err(reason), pictures.size),
            }
        }
    }

    #[test]
    fn pictures_are_told_apart_by_their_headers_alone() {
        // Pixels that look like a header.
        let one = b"P6\n3 1\n255\nP6\n3 1\n25";
        assert_eq!(pictures(&one.repeat(3)), (Ok(3), Some((3, 1))));
        assert_eq!(pictures(b""), (Ok(0), None));
        for cut in 1..one.len() {
            assert_eq!(pictures(&[one, &one[..cut]].concat()).0, Ok(1), "{cut}");
        }
        let other = [&one[..], b"P6\n1 3\n255\n123456789"].concat();
        assert_eq!(pictures(&other).0.unwrap_err(), "a frame is 1x3, the first one 3x1");
        assert!(pictures(b"P5\n3 1\n255\n123456789").0.unwrap_err().contains("P5"));
    }
}
